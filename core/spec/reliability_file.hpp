#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"
#include "core/spec/reliability_spec.hpp"

namespace orrery {

// Reliability files, docs/forecast.md. A file has `schema = 1` and a table [reliability]; a cluster's file may
// hold the same table beside [cluster], or name a file: reliability = "llama-3".
//
// Codes: reliability.source  reliability.slow  library.unknown-reliability, and those of the TOML reader

/// A rate of zero says that nothing ever fails, which no machine keeps: such a figure is left out.
inline constexpr Limits<double> failure_rate_limits{0.0, 1e9, true};
inline constexpr Limits<Seconds> outage_limits{Seconds::of(0.0), Seconds::of(1e9)};
inline constexpr Limits<Bandwidth> storage_rate_limits{Bandwidth::of(1.0), Bandwidth::of(1e18)};

/// Calls `visit(key, member, limits)` for every figure of a ReliabilitySpec, const or not, in the order of files.
template <class Spec, class Visit>
void for_each_figure(Spec& r, Visit&& visit) {
  visit("node_failures_per_1000_node_days", r.node_failures_per_1000_node_days, failure_rate_limits);
  visit("job_failures_per_day", r.job_failures_per_day, failure_rate_limits);
  visit("planned_stops_per_day", r.planned_stops_per_day, failure_rate_limits);
  visit("planned_stops_per_1000_node_days", r.planned_stops_per_1000_node_days, failure_rate_limits);
  visit("failure_shape", r.failure_shape, Limits<double>{0.1, 10.0});
  visit("slow_nodes_per_1000_node_days", r.slow_nodes_per_1000_node_days, failure_rate_limits);
  visit("slow_factor", r.slow_factor, Limits<double>{1.0, 1000.0, true});
  visit("slow_until_found", r.slow_until_found, outage_limits);
  visit("detect", r.detect, outage_limits);
  visit("queue", r.queue, outage_limits);
  visit("restart", r.restart, outage_limits);
  visit("repair", r.repair, outage_limits);
  visit("planned_stop", r.planned_stop, outage_limits);
  visit("storage_rate_per_node", r.storage_rate_per_node, storage_rate_limits);
  visit("storage_rate_total", r.storage_rate_total, storage_rate_limits);
  visit("spare_nodes", r.spare_nodes, Limits<std::uint32_t>{0U, 1'000'000U});
  visit("host_copies", r.host_copies, Limits<std::uint32_t>{1U, 64U});
}

/// Reads the table. A figure without a source is a mistake.
[[nodiscard]] std::optional<ReliabilitySpec> read_reliability(TomlTable& reliability);
[[nodiscard]] std::optional<ReliabilitySpec> parse_reliability(std::string text, std::string name, Diagnostics&);

/// The shipped file of that name, or a path that ends in .toml and counts from `relative_to`.
[[nodiscard]] std::optional<ReliabilitySpec> find_reliability(const Library&, const std::string& reference,
                                                              const std::filesystem::path& relative_to, Diagnostics&);
/// What the file of a cluster holds or names; empty, without a mistake, where it says nothing of it.
[[nodiscard]] std::optional<ReliabilitySpec> reliability_of(const ClusterSpec&, const Library&, Diagnostics&);
/// Checks the key `reliability` of a cluster's file, so that it is known there.
void check_reliability_key(TomlTable& root);

/// Text that reads back equal.
[[nodiscard]] std::string write_reliability(const ReliabilitySpec&);

}  // namespace orrery
