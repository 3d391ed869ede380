#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/diagnostics.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"
#include "sim/des/simulate.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/messages.hpp"

namespace orrery {

/// A fabric by the name of a file in models/fabric, or a path; mistakes are in the diagnostics.
[[nodiscard]] std::optional<Fabric> named_fabric(const Library&, const std::string& reference, Diagnostics&);

/// "by-destination", "hashed" or "rail-local".
[[nodiscard]] std::optional<PathRule> path_rule_named(const std::string&);

/// What --routes says, by destination where it says nothing; refuses what is none (cli.fabric).
[[nodiscard]] PathRule path_rule_of(const std::optional<std::string>& routes);

/// A fabric for a plan's cluster; refuses one of fewer GPUs or of other nodes (cli.fabric).
[[nodiscard]] Fabric fabric_for_cluster(const Library&, const std::string& reference, const ClusterSpec&);

/// Links that have failed or give less, as the command line has them.
struct FaultFlags {
  std::vector<std::string> fail;     ///< names of links (LinkFault::link)
  std::vector<std::string> degrade;  ///< "leaf 0 -- spine 1=0.5": half is left
};
/// The fabric with these besides its own; refuses what names no link (fabric.link-name).
[[nodiscard]] Fabric with_faults(const Fabric&, const FaultFlags&);

/// Refuses, before the work that leads to it, a drawing of no known kind, or that nobody could look at.
void require_drawing(const std::string& file, const Fabric&);
/// Draws the fabric, its links coloured by the share of `time` that they were full.
void write_drawing(const std::string& file, const Fabric&, const std::vector<LinkLoad>&, Seconds time);

/// What it joins, its links by kind and bandwidth, and a few routes.
[[nodiscard]] std::string fabric_text(const Fabric&, PathRule);
[[nodiscard]] nlohmann::ordered_json fabric_json(const Fabric&);

/// Collectives by every algorithm that the first `gpus` of a fabric allow, alone on it, at payloads of 1 KiB to 1 GiB.
struct CollectiveComparison {
  std::uint32_t gpus = 0;
  std::vector<AlgorithmTimes> all_reduces, all_to_alls;
};
[[nodiscard]] CollectiveComparison compare_collectives(const Fabric&, std::uint32_t gpus);
[[nodiscard]] std::string comparison_text(const Fabric&, const CollectiveComparison&);
[[nodiscard]] nlohmann::ordered_json comparison_json(const Fabric&, const CollectiveComparison&);

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
