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

/// The fabric with the name of a file in models/fabric, or at a path; mistakes are in the diagnostics.
[[nodiscard]] std::optional<Fabric> named_fabric(const Library&, const std::string& reference, Diagnostics&);

/// "by-destination", "hashed" or "rail-local".
[[nodiscard]] std::optional<PathRule> path_rule_named(const std::string&);

/// The rule of --routes, which is by destination by default; refuses other texts (cli.fabric).
[[nodiscard]] PathRule path_rule_of(const std::optional<std::string>& routes);

/// The fabric for a plan's cluster; refuses one with fewer GPUs or with other nodes (cli.fabric).
[[nodiscard]] Fabric fabric_for_cluster(const Library&, const std::string& reference, const ClusterSpec&);

/// Links that have failed or give less, as the command line has them.
struct FaultFlags {
  std::vector<std::string> fail;     ///< names of links (LinkFault::link)
  std::vector<std::string> degrade;  ///< "leaf 0 -- spine 1=0.5": half is left
};
/// The fabric with these faults besides its own; refuses names of no link (fabric.link-name).
[[nodiscard]] Fabric with_faults(const Fabric&, const FaultFlags&);

/// Refuses a drawing of an unknown kind, or one that nobody could look at, before the work that leads to it.
void require_drawing(const std::string& file, const Fabric&);
/// Draws the fabric, its links coloured by the share of `time` that they were full.
void write_drawing(const std::string& file, const Fabric&, const std::vector<LinkLoad>&, Seconds time);

/// What the fabric joins, its links by kind and bandwidth, and a few routes.
[[nodiscard]] std::string fabric_text(const Fabric&, PathRule);
[[nodiscard]] nlohmann::ordered_json fabric_json(const Fabric&);

/// Times of collectives by every algorithm that the first `gpus` of a fabric allow, with the fabric to themselves, at
/// payloads of 1 KiB to 1 GiB.
struct CollectiveComparison {
  std::uint32_t gpus = 0;
  std::vector<AlgorithmTimes> all_reduces, all_to_alls;
};
[[nodiscard]] CollectiveComparison compare_collectives(const Fabric&, std::uint32_t gpus);
[[nodiscard]] std::string comparison_text(const Fabric&, const CollectiveComparison&);
[[nodiscard]] nlohmann::ordered_json comparison_json(const Fabric&, const CollectiveComparison&);

/// For each link of the fabric, the share of the step that it would need for its bytes.
[[nodiscard]] std::vector<double> shares_of_time(const Fabric&, const std::vector<LinkLoad>&, Seconds step);
/// Puts the busiest links of a step first; among equally busy ones the one with the lower number.
void sort_by_load(std::vector<LinkLoad>&);
/// A table of sorted links: name, bytes, and the part of what the link could have sent in the step. Links of a kind
/// that are loaded alike share a line; there are at most `count` lines.
[[nodiscard]] std::string loads_text(const Fabric&, const std::vector<LinkLoad>&, Seconds step, std::size_t count);
[[nodiscard]] nlohmann::ordered_json loads_json(const Fabric&, const std::vector<LinkLoad>&, Seconds step,
                                                std::size_t count);

}  // namespace orrery
