#include "validate/collective_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/cost/collective_cost.hpp"

namespace orrery {
namespace {

/// A cluster of domains that NVLink joins, with a port for each device; the outer level exists only where there are
/// several domains.
ClusterSpec cluster_of(const MeasuredCollective& row) {
  ClusterSpec c;
  c.nodes = static_cast<std::uint32_t>(*row.domains);
  c.devices_per_node = static_cast<std::uint32_t>(*row.gpus / *row.domains);
  c.levels.push_back({"nvlink", c.devices_per_node, *row.nvlink_gb_s * gigabyte_per_second, 2.0 * microsecond});
  if (c.nodes > 1) c.levels.push_back({"network", c.nodes, *row.port_gb_s * gigabyte_per_second, 5.0 * microsecond});
  return c;
}

Collective::Kind kind_of(const std::string& name) {
  if (name == "all_reduce") return Collective::Kind::all_reduce;
  if (name == "all_gather") return Collective::Kind::all_gather;
  if (name == "reduce_scatter") return Collective::Kind::reduce_scatter;
  if (name == "broadcast") return Collective::Kind::broadcast;
  if (name == "reduce") return Collective::Kind::reduce;
  return Collective::Kind::all_to_all;
}

/// These follow the shipped calibrations: NCCL's rates of links over those of their datasheets, and its base latency.
Calibration calibration_of(GpuGeneration generation, const LinkCurve& curve) {
  Calibration c;
  c.level_efficiency = {nccl_tables::nvlink_share(generation), 0.94};
  c.collective_launch = 10.4 * microsecond;
  c.nccl = NcclConstants{generation, curve, curve};
  return c;
}

std::optional<std::string> missing(const MeasuredCollective& row) {
  for (const auto& [name, there] : {std::pair{"gpus", row.gpus.has_value()},
                                    {"domains", row.domains.has_value()},
                                    {"nvlink_gb_s", row.nvlink_gb_s.has_value()},
                                    {"bytes", row.bytes.has_value()},
                                    {"time_us", row.time_us.has_value()}}) {
    if (!there) return name;
  }
  if (*row.domains > 1 && !row.port_gb_s) return "port_gb_s";
  return std::nullopt;
}

bool is_noisy(const MeasuredCollective& row) { return row.notes.starts_with("NOISY"); }

/// Nearest-rank quantile of sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// Errors of small collectives of one curve spread alike, whatever their size, so their band is that of all of them.
void add_bands(CollectiveValidation& v) {
  std::map<std::string, std::vector<double>> ratios;
  const auto is_small = [](const ValidatedCollective& r) { return *r.row.bytes < small_collective; };
  for (const ValidatedCollective& r : v.rows) {
    if (is_small(r)) ratios[r.row.curve].push_back(100.0 / (1.0 + r.error_pct / 100.0) - 100.0);
  }
  for (auto& [curve, of] : ratios) std::sort(of.begin(), of.end());
  for (ValidatedCollective& r : v.rows) {
    if (!is_small(r)) continue;
    r.low_pct = std::min(0.0, quantile(ratios[r.row.curve], 0.1));
    r.high_pct = std::max(0.0, quantile(ratios[r.row.curve], 0.9));
  }
}

}  // namespace

CollectivePrediction predict(const MeasuredCollective& row, const LinkCurves& curves) {
  if (row.notes.starts_with("SHARED")) return {{}, "ranks share a GPU, and no link joins them"};
  if (const auto cell = missing(row)) return {{}, fmt::format("not published: {}", *cell)};
  if (*row.gpus < 2) return {{}, "a single GPU has no partner"};
  if (*row.gpus > 1000000) return {{}, "there are more GPUs than the 1000000 that are priced"};
  const auto curve = curves.find(row.curve);
  if (curve == curves.end()) return {{}, fmt::format("no file of constants is called \"{}\"", row.curve)};
  const auto at = std::find(generation_names().begin(), generation_names().end(), row.generation);
  const auto generation = static_cast<GpuGeneration>(at - generation_names().begin());
  const ClusterSpec cluster = cluster_of(row);
  const Calibration calibration = calibration_of(generation, curve->second);
  if (!NcclCost::applies(cluster, calibration)) return {{}, "no NVLink joins the GPUs of a domain"};
  std::vector<std::uint32_t> devices(*row.gpus);
  std::iota(devices.begin(), devices.end(), 0U);
  const GroupShape shape = group_shape(devices, cluster);
  const Collective::Kind kind = kind_of(row.collective);
  const Bytes bytes = Bytes::of(*row.bytes);
  NcclExcluded excluded{};
  for (std::size_t a = 0; a < nccl_algorithm_count; ++a) {
    excluded[a] = !row.without.empty() && row.without == name_of(static_cast<NcclAlgorithm>(a));
  }
  if (const auto price = NcclCost(cluster, calibration).price(kind, bytes, shape, excluded)) {
    return {PredictedCollective{price->modelled, price->time, price->algorithm, price->protocol}, ""};
  }
  // Sends and receives are priced at the rate of a link, without the curve's factor and with it.
  Calibration plain = calibration;
  plain.nccl->node.pairs = plain.nccl->network.pairs = 1.0;
  return {PredictedCollective{CollectiveCost(cluster, plain).choose(kind, bytes, shape).time,
                              CollectiveCost(cluster, calibration).choose(kind, bytes, shape).time,
                              {},
                              {}},
          ""};
}

CollectiveValidation validate(const std::vector<MeasuredCollective>& table, const LinkCurves& curves) {
  CollectiveValidation v;
  for (const MeasuredCollective& row : table) {
    const CollectivePrediction p = predict(row, curves);
    if (!p.predicted) {
      v.skipped.push_back({row.id, p.reason});
      continue;
    }
    ValidatedCollective out{row, *p.predicted, error_pct(p.predicted->time.in(microsecond), *row.time_us), {}, {}, {}};
    if (!row.algorithm.empty() && p.predicted->algorithm) {
      out.chosen_right = row.algorithm == name_of(*p.predicted->algorithm) &&
                         (row.protocol.empty() || row.protocol == name_of(*p.predicted->protocol));
    }
    (is_noisy(row) ? v.noisy : v.rows).push_back(std::move(out));
  }
  add_bands(v);
  return v;
}

std::vector<CollectiveSummary> summaries(const CollectiveValidation& v) {
  std::vector<std::string> machines;
  for (const ValidatedCollective& r : v.rows) {
    if (std::find(machines.begin(), machines.end(), r.row.machine) == machines.end()) machines.push_back(r.row.machine);
  }
  machines.emplace_back();  // all of them
  std::vector<CollectiveSummary> out;
  for (const std::string& machine : machines) {
    std::vector<double> below, from, large;
    for (const ValidatedCollective& r : v.rows) {
      if (!machine.empty() && r.row.machine != machine) continue;
      (*r.row.bytes < small_collective ? below : from).push_back(r.error_pct);
      if (*r.row.bytes >= large_collective) large.push_back(r.error_pct);
    }
    out.push_back({machine.empty() ? "all" : machine, below.size() + from.size(), summarize_errors(below),
                   summarize_errors(from), summarize_errors(large)});
  }
  return out;
}

ChoiceCount choices(const CollectiveValidation& v) {
  ChoiceCount out;
  for (const ValidatedCollective& r : v.rows) {
    out.known += r.chosen_right ? 1 : 0;
    out.right += r.chosen_right == true ? 1 : 0;
  }
  return out;
}

}  // namespace orrery
