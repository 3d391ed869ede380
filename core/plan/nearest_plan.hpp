#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/mesh.hpp"

// Values that a message of plan_check proposes in place of an invalid one.

namespace orrery {

/// A text such as "Nearest valid tensor sizes: 4, 8.", with the divisors of n >= 1 on both sides of `value`; `what`
/// names them.
[[nodiscard]] std::string nearest_divisors(std::uint64_t n, std::uint64_t value, const std::string& what);

/// The smallest divisor of n from `least` to `most`.
[[nodiscard]] std::optional<std::uint64_t> divisor_between(std::uint64_t n, std::uint64_t least, std::uint64_t most);

/// Up to `count` meshes of `ranks` ranks that are `valid`, nearest to `mesh` first. Nearest are those that change the
/// fewest axes, and among these the ones whose sizes change by the smallest factors. The axes keep their order; a
/// missing axis goes where the default order has it.
[[nodiscard]] std::vector<Mesh> nearest_meshes(const Mesh& mesh, std::uint64_t ranks,
                                               const std::function<bool(const Mesh&)>& valid, std::size_t count = 2);

}  // namespace orrery
