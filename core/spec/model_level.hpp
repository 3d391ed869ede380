#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_spec.hpp"

namespace orrery {

/// How far this program goes with a model: it counts its parameters; it also lowers and prices plans that train it; it
/// also runs them. Each level includes those before.
enum class ModelLevel : std::uint8_t { counted, priced, executed };
[[nodiscard]] std::string_view name_of(ModelLevel);
[[nodiscard]] ModelLevel level_of(const ModelSpec&);

/// What Programs do not have of the model: "norms of queries and keys". Empty where plans of it are priced.
[[nodiscard]] std::vector<std::string> unpriced(const ModelSpec&);
/// What kernels do not have of it, where it is priced. Empty where plans of it are run.
[[nodiscard]] std::vector<std::string> unexecuted(const ModelSpec&);

/// Adds an error where plans of the model cannot be priced. Code: model.counted
[[nodiscard]] bool check_priced(const ModelSpec&, Diagnostics&);
/// Adds an error where plans of the model are priced, but not run. Code: model.priced
[[nodiscard]] bool check_executed(const ModelSpec&, Diagnostics&);

}  // namespace orrery
