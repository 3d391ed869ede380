#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/diagnostics.hpp"
#include "core/spec/library.hpp"
#include "sim/des/simulate.hpp"
#include "sim/net/fabric.hpp"

namespace orrery {

/// A fabric by the name of a file in models/fabric, or a path; mistakes are in the diagnostics.
[[nodiscard]] std::optional<Fabric> named_fabric(const Library&, const std::string& reference, Diagnostics&);

/// "by-destination", "hashed" or "rail-local".
[[nodiscard]] std::optional<PathRule> path_rule_named(const std::string&);

/// What it joins, its links by kind and bandwidth, and a few routes.
[[nodiscard]] std::string fabric_text(const Fabric&, PathRule);
[[nodiscard]] nlohmann::ordered_json fabric_json(const Fabric&);

/// For each link of the fabric which share of the step it would need for what it carried.
[[nodiscard]] std::vector<double> shares_of_time(const Fabric&, const std::vector<LinkLoad>&, Seconds step);
/// The busiest links of a step first; of links as busy as each other, the one with the lower number.
void sort_by_load(std::vector<LinkLoad>&);
/// Of sorted links: name, bytes, and the part of what the link could have sent in the step; links of a kind that are
/// loaded alike share a line, `count` lines at most.
[[nodiscard]] std::string loads_text(const Fabric&, const std::vector<LinkLoad>&, Seconds step, std::size_t count);
[[nodiscard]] nlohmann::ordered_json loads_json(const Fabric&, const std::vector<LinkLoad>&, Seconds step,
                                                std::size_t count);

}  // namespace orrery
