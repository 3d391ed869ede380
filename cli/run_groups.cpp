// `orrery run --measure-groups` measures the collectives of a plan's groups, in place of training.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/amounts.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_verb.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/units_text.hpp"
#include "exec/calibrate/group_rates.hpp"
#include "exec/device/cuda_load.hpp"
#include "validate/collective_table.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t runs_in_a_step = 5;
/// Largest whole vectors: they reach the bandwidth, and sixteen ranks of one host still have the memory.
constexpr std::uint64_t largest_on_gpus = std::uint64_t{256} << 20;
constexpr std::uint64_t largest_on_hosts = std::uint64_t{4} << 20;

using ByKind = std::map<std::pair<GroupId, Collective::Kind>, std::vector<const GroupTime*>>;
ByKind by_kind(const std::vector<GroupTime>& times) {
  ByKind out;
  for (const GroupTime& t : times) out[{t.group, t.kind}].push_back(&t);
  return out;
}

AlphaBeta fit(const std::vector<const GroupTime*>& times) {
  std::vector<std::pair<Bytes, Seconds>> points;
  for (const GroupTime* t : times) points.push_back({Bytes::of(static_cast<double>(t->bytes)), t->typical});
  return fit_alpha_beta(points);
}

/// Number of nodes that rank 0's group of this kind spans; empty where they hold unequal parts of it.
std::optional<std::uint64_t> nodes_of(const PlannedRun& run, const Program& program, GroupId group) {
  std::map<std::uint64_t, std::uint64_t> members;
  Rank any{};
  while (!peer_of(program[group], program.mesh, any)) any = Rank{index(any) + 1};
  for (const Rank r : group_ranks(program[group], program.mesh, any)) {
    const std::uint64_t device = run.plan.placement.empty() ? index(r) : run.plan.placement[index(r)];
    ++members[device / run.cluster->devices_per_node];
  }
  for (const auto& [node, count] : members) {
    if (count != members.begin()->second) return std::nullopt;
  }
  return members.size();
}

}  // namespace

Program RunVerb::program_of_groups(const Program& of) const {
  const bool on_gpus = backend_ == "cuda" && cuda_module() != stand_in_module;
  Program out = group_program(of, on_gpus ? largest_on_gpus : largest_on_hosts, runs_in_a_step);
  if (out.blocks.empty()) {
    refuse("cli.measure-groups", "--measure-groups: no group of this plan has a collective to measure",
           {"Plans of one rank have none; stages exchange messages, and these are not collectives."});
  }
  return out;
}

int RunVerb::show_groups(const Prepared& p, const RunResult& result) const {
  const PlannedRun& run = p.loaded.run;
  const Program& program = p.loaded.program;
  const std::vector<GroupTime> times = group_times(program, result.traces, result.streams || mpi_collectives_);
  // Times on the plan's cluster say something about these ranks only where they run on such a cluster.
  const bool alike = backend_ == "cuda" || run.cluster->device.cores_shared > 0;
  const CostModel prices = cost_model(p.loaded);
  const auto predicted = [&](const GroupTime& t) {
    return prices.collective(t.kind, Bytes::of(static_cast<double>(t.bytes)), program[t.group]);
  };
  const std::optional<NcclConstants>& nccl = p.loaded.calibration.calibration.nccl;
  std::vector<MeasuredCollective> rows;
  nlohmann::ordered_json json{{"ranks", program.mesh.size()}, {"groups", nlohmann::ordered_json::array()}};
  for (const GroupTime& t : times) {
    MeasuredCollective row;
    row.id = fmt::format("{}-{}-{}-{}", group_text(program[t.group]), t.members, name_of(t.kind), t.bytes);
    row.machine = fmt::format("{} ranks of {} by {}", t.members, run.cluster->device.name, backend_);
    if (nccl && backend_ == "cuda") row.generation = generation_names()[static_cast<std::size_t>(nccl->generation)];
    row.gpus = t.members;
    row.domains = nodes_of(run, program, t.group);
    row.curve = row.domains.value_or(2) > 1 ? "network" : "node";
    const std::vector<NetworkLevel>& levels = run.cluster->levels;
    if (!levels.empty()) row.nvlink_gb_s = levels.front().bandwidth.in(gigabyte_per_second);
    if (levels.size() > 1) row.port_gb_s = levels[1].bandwidth.in(gigabyte_per_second);
    row.collective = name_of(t.kind);
    row.bytes = static_cast<double>(t.bytes);
    row.time_us = t.typical.in(microsecond);
    if (share_gpu_) row.notes = "SHARED: ranks are parts of one GPU";
    row.source = fmt::format("orrery run --measure-groups, {}", text_of(today()));
    rows.push_back(std::move(row));
  }
  Table fits({"<group", "members", "<collective", "latency", "bandwidth", "error", "bytes", "measured", "spread",
              alike ? "predicted" : ""});
  for (const auto& [key, points] : by_kind(times)) {
    const AlphaBeta f = fit(points);
    nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
    for (const GroupTime* t : points) {
      const bool first = t == points.front();
      sizes.push_back({{"bytes", t->bytes}, {"time_s", t->typical.base()}, {"spread", t->spread}});
      if (alike) sizes.back()["predicted_s"] = predicted(*t).base();
      fits.row({first ? group_text(program[key.first]) : "", first ? fmt::format("{}", t->members) : "",
                first ? std::string(name_of(key.second)) : "", first ? short_text(f.latency) : "",
                first ? short_text(f.bandwidth) : "", first ? percent(f.error_pct / 100.0) : "",
                short_text(Bytes::of(static_cast<double>(t->bytes))), short_text(t->typical), percent(t->spread, 0),
                alike ? short_text(predicted(*t)) : ""});
    }
    json["groups"].push_back({{"group", group_text(program[key.first])},
                              {"members", points.front()->members},
                              {"collective", std::string(name_of(key.second))},
                              {"latency_s", f.latency.base()},
                              {"bytes_per_s", f.bandwidth.base()},
                              {"error_pct", f.error_pct},
                              {"sizes", std::move(sizes)}});
  }
  write_file(*measure_groups_, write_collectives(rows));
  json["file"] = *measure_groups_;
  json["notes"] = p.notes;
  json["complete"] = !result.cancelled;
  write_output(flags_, json_text(json));
  if (prints_output(flags_)) {
    // It has been printed.
  } else if (flags_.json) {
    print_json(json);
  } else {
    std::string out = fmt::format(
        "Collectives of the plan's groups, as {} runs each of them took; time = latency + bytes / bandwidth\n{}",
        runs_in_a_step * result.times.steps, fits.str());
    for (const std::string& note : p.notes) out += fmt::format("  {}\n", note);
    out += fmt::format("  written to {}\n", *measure_groups_);
    if (result.cancelled) out += fmt::format("  Interrupted after {} steps of {}.\n", result.times.steps, steps_);
    print(out);
  }
  return result.cancelled ? interrupted_status() : status_fine;
}

}  // namespace orrery
