#include "cli/report_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/dimension.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/describe.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

constexpr std::size_t label_width = 28;

std::string line(std::string_view label, const std::string& value, const std::string& note = "") {
  return fmt::format("  {:<{}}{:>12}{}{}\n", label, label_width, value, note.empty() ? "" : "   ", note);
}

std::string gib(std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); }

std::string signed_time(Seconds t) { return (t.base() < 0 ? "-" : "+") + short_text(Seconds::of(std::abs(t.base()))); }

std::string yes(bool value) { return value ? "on" : "off"; }

/// "full", or "full in 6 of 24 layers" where stages recompute only some of theirs.
std::string recompute_text(const Plan& plan) {
  std::string out(name_of(plan.recompute));
  if (plan.recompute == Recompute::none || !plan.recompute_layers) return out;
  const auto sum = [](const std::vector<std::uint32_t>& of) {
    return std::accumulate(of.begin(), of.end(), std::uint64_t{0});
  };
  const std::uint64_t recomputed = sum(*plan.recompute_layers);
  if (!plan.stage_layers) return fmt::format("{} in {}", out, counted(recomputed, "layer"));
  const std::uint64_t all = sum(*plan.stage_layers);
  return recomputed == all ? out : fmt::format("{} in {} of {}", out, recomputed, counted(all, "layer"));
}

}  // namespace

std::string unread_text(const ModelSpec& model) {
  const std::vector<std::string> keys = unread_keys(model);
  return keys.empty() ? "" : escaped(fmt::format("not read: {}", fmt::join(keys, ", ")));
}

std::string layers_text(const std::vector<std::uint32_t>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    if (!out.empty()) out += " ";
    out += end - i > 1 ? fmt::format("{}x{}", end - i, layers[i]) : fmt::format("{}", layers[i]);
    i = end;
  }
  return out;
}

std::string mesh_text(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& a : mesh.axes) out += fmt::format("{}{} {}", out.empty() ? "" : " > ", name_of(a.axis), a.size);
  return out.empty() ? "one rank" : out;
}

std::string step_range(const Report& r) {
  if (!r.interval) return "-";
  return fmt::format("{} to {}", short_text(r.interval->low, 4), short_text(r.interval->high, 4));
}

std::string count_range(const Report& r, double rate) {
  if (!r.interval) return "-";
  return fmt::format("{} to {}", short_count(r.step_time / r.interval->high * rate),
                     short_count(r.step_time / r.interval->low * rate));
}

std::string percent_range(const Report& r, double share) {
  if (!r.interval) return "-";
  return fmt::format("{} to {}", percent(r.step_time / r.interval->high * share),
                     percent(r.step_time / r.interval->low * share));
}

std::string interval_text(const Report& r) {
  if (!r.interval) return "";
  std::string note = count_range(r, r.tokens_per_s) + " tokens/s";
  if (r.model_flops_utilization > 0) note += "; MFU " + percent_range(r, r.model_flops_utilization);
  return line("  eight runs in ten", step_range(r), note);
}

std::string adapters_text(const ModelSpec& model, const Workload& workload) {
  if (!workload.adapters) return "";
  const auto trained = static_cast<double>(adapter_parameter_count(model, *workload.adapters));
  const Adapters& a = *workload.adapters;
  const std::string base =
      a.base == BaseWeights::unquantized
          ? ""
          : fmt::format("; base in {}{}", name_of(a.base), a.double_quantization ? ", scales in 8 bits" : "");
  return fmt::format(", adapters of rank {} ({}; {} trained{})", a.rank,
                     a.matrices == Adapters::all_matrices ? "all matrices" : matrices_text(a), short_count(trained),
                     base);
}

std::string heading_text(const PlannedRun& run) { return heading_text(run, CalibrationChoice{{}, "not used", {}, {}}); }

std::string heading_text(const PlannedRun& run, const CalibrationChoice& prices) {
  const Workload& w = run.workload;
  std::string out = fmt::format("{}\n", run.plan.name.empty() ? "plan" : escaped(run.plan.name));
  out += fmt::format("  model    {}, {} parameters; batch {} x {} tokens, {}{}, {}{}\n", escaped(run.model.name),
                     short_count(static_cast<double>(parameter_count(run.model))), w.global_batch, w.sequence_length,
                     name_of(w.precision), w.master_weights ? "" : " without fp32 copies", name_of(w.optimizer.kind),
                     adapters_text(run.model, w));
  if (const std::string unread = unread_text(run.model); !unread.empty()) out += fmt::format("           {}\n", unread);
  if (run.cluster) {
    out += fmt::format("  machine  {}, {}; calibration: {}\n", escaped(run.cluster->name),
                       escaped(devices_text(*run.cluster)), escaped(prices.origin));
    for (const std::string& what : run.cluster->assumed) out += fmt::format("  assumed  {}\n", escaped(what));
    for (const DeviceBasis& device : prices.devices) out += fmt::format("  device   {}\n", escaped(device.text));
    if (!prices.devices.empty()) out += fmt::format("  software {}\n", escaped(describe(prices.software)));
  }
  out += fmt::format("  plan     {}\n", describe(run.plan));
  return out;
}

std::string unfit_text(const std::string& plan, const Report& r) {
  if (r.fits) return "";
  return fmt::format("\n  {} {}: exit status 1\n", plan.empty() ? "the plan" : escaped(plan), verdict_text(r));
}

Seconds headline_step(const Report& r) {
  if (!r.software_assumed || !r.interval) return r.step_time;
  return Seconds::of(std::sqrt(r.interval->low.base() * r.interval->high.base()));
}

std::string headline_text(const Report& r) {
  return (r.software_assumed && r.interval ? "about " : "") + short_text(headline_step(r), 4);
}

std::string verdict_text(const Report& r) {
  const MemoryVerdict v = memory_verdict(r);
  if (!v.fits) return "does not fit: it needs " + text_of(v);
  if (v.room == 0) return "fits as far as is known: no device's memory is given";
  const char* where = v.where == MemoryVerdict::Where::device ? "the fullest device"
                      : v.where == MemoryVerdict::Where::host ? "the fullest host"
                                                              : "the fullest disk";
  return fmt::format("fits, {} to spare on {}", gib(v.room - std::min(v.room, v.need)), where);
}

namespace {

/// All figures of a table have one unit, so that they compare at a glance.
struct Unit {
  double bytes;
  const char* name;
};
Unit unit_for(double bytes) {
  for (const Unit u : {Unit{0x1p30, "GiB"}, Unit{0x1p20, "MiB"}, Unit{0x1p10, "KiB"}}) {
    if (bytes >= u.bytes) return u;
  }
  return {1.0, "B"};
}

std::string in(const Unit& unit, std::uint64_t bytes) {
  const double value = static_cast<double>(bytes) / unit.bytes;
  return value == 0.0 ? "0" : fmt::format("{:.{}f}", value, value < 0.995 ? 2 : value < 99.95 ? 1 : 0);
}

/// Calls row(stage) for the stages that are shown, and skipped() in place of others.
template <class Row, class Skipped>
void each_stage(const Report& r, Row&& row, Skipped&& skipped) {
  for (std::size_t i = 0; i < r.memory_by_stage.size(); ++i) {
    if (r.memory_by_stage.size() > 16 && i == 8) {
      skipped();
      i = r.memory_by_stage.size() - 8;
    }
    row(r.memory_by_stage[i]);
  }
}

std::uint64_t largest_memory(const Report& r) {
  std::uint64_t most = 0;
  for (const StageMemory& m : r.memory_by_stage) most = std::max({most, held(m), m.capacity.value_or(0)});
  return most;
}

double share_of_device(const StageMemory& m, std::uint64_t most) {
  const std::uint64_t of = m.capacity.value_or(most);
  return of > 0 ? static_cast<double>(held(m)) / static_cast<double>(of) : 0.0;
}

std::string memory_title(const Report& r) {
  std::string out =
      r.peak_memory_process_bytes ? "  memory of each stage's process" : "  memory of each stage's tensors";
  if (r.memory_capacity_bytes) out += ", of the " + gib(*r.memory_capacity_bytes) + " of its device";
  return out + (r.fits ? "" : "  DOES NOT FIT") + "\n";
}

}  // namespace

std::string memory_bars(const Report& r) {
  const std::uint64_t most = largest_memory(r);
  std::string out = memory_title(r);
  each_stage(
      r,
      [&](const StageMemory& m) {
        const double share = share_of_device(m, most);
        out +=
            fmt::format("    stage {:<3} [{}] {:>9} {:>6}\n", m.stage, bar(share, 30), gib(held(m)), percent(share, 0));
      },
      [&] { out += "    ...\n"; });
  return out;
}

std::string memory_text(const Report& r) {
  const std::uint64_t most = largest_memory(r);
  const Unit unit = unit_for(static_cast<double>(most));
  const bool processes = r.peak_memory_process_bytes.has_value();
  Table table({"stage", "<", processes ? "process" : "tensors", "of it", "weights", "grads", "optim", "activ", "work"});
  each_stage(
      r,
      [&](const StageMemory& m) {
        const double share = share_of_device(m, most);
        table.row({fmt::format("{}", m.stage), "[" + bar(share, 12) + "]", in(unit, held(m)), percent(share, 0),
                   in(unit, m.weights), in(unit, m.gradients), in(unit, m.optimizer), in(unit, m.activations),
                   in(unit, m.workspace)});
      },
      [&] { table.row({"..."}); });
  std::string out = memory_title(r) +
                    fmt::format(
                        "  in {}; then its tensors at their peak: weights, gradients, optimizer states,\n"
                        "  activations, workspace\n",
                        unit.name) +
                    table.str("    ");
  if (r.peak_memory_reserved_bytes && processes) {
    const double live = static_cast<double>(r.peak_memory_bytes);
    const double more = live > 0 ? static_cast<double>(*r.peak_memory_reserved_bytes) / live - 1.0 : 0.0;
    out += fmt::format("  held by the caching allocator: {}, {} more than the {} of tensors\n",
                       gib(*r.peak_memory_reserved_bytes), percent(std::max(0.0, more)), gib(r.peak_memory_bytes));
  }
  if (r.peak_memory_process_bytes) {
    out += fmt::format("  held by the process: {}", gib(*r.peak_memory_process_bytes));
    if (r.memory_capacity_bytes) out += fmt::format(" of {}", gib(*r.memory_capacity_bytes));
    out += "\n";
  }
  if (r.peak_memory_setup_bytes) out += fmt::format("  live at initialisation: {}\n", gib(*r.peak_memory_setup_bytes));
  const auto tier = [&](const char* name, const std::optional<std::uint64_t>& peak,
                        const std::optional<std::uint64_t>& room) {
    if (!peak) return;
    out += fmt::format("  {} of a node: {}", name, gib(*peak));
    if (room) out += fmt::format(" of {}{}", gib(*room), *peak <= *room ? "" : "  DOES NOT FIT");
    out += "\n";
  };
  tier("host memory", r.peak_host_memory_bytes, r.host_memory_capacity_bytes);
  tier("disk", r.peak_disk_bytes, r.disk_capacity_bytes);
  return out;
}

std::string report_text(const Report& r) {
  const double step = r.step_time.base();
  std::string out;
  const auto share = [&](Seconds t) { return step > 0 ? percent(t.base() / step) : std::string("-"); };
  const double faster = step > 0 ? r.step_time / headline_step(r) : 1.0;
  const bool middle = r.software_assumed && r.interval.has_value();
  out += line("step time", headline_text(r), r.origin);
  out += line("tokens/s", short_count(faster * r.tokens_per_s, 4),
              short_count(faster * r.tokens_per_s_per_gpu, 4) + " per device");
  if (r.model_flops_utilization > 0) {
    out += line("model FLOPs utilization", percent(faster * r.model_flops_utilization),
                "hardware " + percent(faster * r.hardware_flops_utilization) + "; " + r.flop_convention);
  }
  out += interval_text(r);
  if (r.interval) out += "  Eight in ten measured runs of this kind lie in that range.\n";
  if (middle) {
    out += fmt::format(
        "  That is the middle of what is known, since no software is named; {} takes {}, and "
        "its times are below.  Name yours (--software) for a closer answer.\n",
        escaped(r.software), short_text(r.step_time, 4));
  }
  out += line("compute", short_text(r.compute), share(r.compute));
  out += line("exposed communication", short_text(r.exposed_communication), share(r.exposed_communication));
  out += line("bubble", short_text(r.bubble_fraction * r.step_time), percent(r.bubble_fraction));
  if (r.exposed_exchange.base() > 0) {
    out += line("  counted in both", short_text(r.exposed_exchange),
                share(r.exposed_exchange) + ", messages between stages");
  }
  out += line("sent by all ranks", short_text(Bytes::of(static_cast<double>(r.sent_bytes))));
  if (r.cost_per_step)
    out += line("cost per step", fmt::format("{:.4g} {}", *r.cost_per_step / faster, r.cost_currency));
  if (r.loss) out += line("loss", fmt::format("{:.4f}", *r.loss));
  out += "\n" + memory_text(r);
  if (!r.operations.empty()) {
    std::vector<OperationTime> ops = r.operations;
    std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
    Table table({"operation", "time", "of step", "runs"});
    // Operations that take less than a thousandth of the step are summed up.
    OperationTime rest;
    std::size_t kinds = 0;
    for (const OperationTime& op : ops) {
      if (op.time.base() >= 1e-3 * step) {
        table.row({op.name, short_text(op.time), share(op.time), fmt::format("{}", op.count)});
      } else {
        rest.time += op.time;
        rest.count += op.count;
        ++kinds;
      }
    }
    if (kinds > 0) {
      table.row(
          {fmt::format("{} others", kinds), short_text(rest.time), share(rest.time), fmt::format("{}", rest.count)});
    }
    out += "\n  time by kind of operation, mean over ranks\n" + table.str("    ");
  }
  if (!r.assumptions.empty()) {
    out += "\n  assumptions\n";
    for (const std::string& a : r.assumptions) out += "    - " + escaped(a) + "\n";
  }
  return out;
}

std::vector<std::string> differences(const Plan& other, const Plan& plan) {
  std::vector<std::string> out;
  const auto differ = [&](const std::string& what, const std::string& here, const std::string& there) {
    if (here != there) out.push_back(fmt::format("{} {}, not {}", what, here, there));
  };
  differ("mesh", mesh_text(other.mesh), mesh_text(plan.mesh));
  differ("microbatch", std::to_string(other.microbatch_size), std::to_string(plan.microbatch_size));
  differ("schedule", std::string(name_of(other.schedule)), std::string(name_of(plan.schedule)));
  if (other.stage_layers && plan.stage_layers && other.mesh.size(Axis::pipeline) == plan.mesh.size(Axis::pipeline)) {
    differ("layers", layers_text(*other.stage_layers), layers_text(*plan.stage_layers));
  }
  differ("sequence parallelism", yes(other.sequence_parallel), yes(plan.sequence_parallel));
  differ("recomputation", recompute_text(other), recompute_text(plan));
  differ("ZeRO", std::to_string(other.zero_stage), std::to_string(plan.zero_stage));
  if (other.overlap_gradients && plan.overlap_gradients) {
    differ("gradient overlap", yes(*other.overlap_gradients), yes(*plan.overlap_gradients));
  }
  if (other.attention && plan.attention) {
    differ("attention", std::string(name_of(*other.attention)), std::string(name_of(*plan.attention)));
  }
  // The other decisions that the files would state, so that none is forgotten.
  static constexpr std::string_view told[] = {"plan.microbatch_size",   "plan.schedule",  "plan.stage_layers",
                                              "plan.sequence_parallel", "plan.recompute", "plan.zero_stage",
                                              "plan.overlap_gradients", "plan.attention"};
  const std::vector<Decision> mine = decisions(other), yours = decisions(plan);
  const auto value_in = [](const std::vector<Decision>& list, const std::string& key) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const Decision& d) { return d.key == key; });
    return at == list.end() ? std::string() : at->value;
  };
  for (const Dimension& d : dimensions()) {
    const std::string key(d.key);
    if (d.table() != "plan" || std::find(std::begin(told), std::end(told), d.key) != std::end(told)) continue;
    std::string here = value_in(mine, key), there = value_in(yours, key);
    if (here.empty() && there.empty()) continue;
    // A file that leaves out such a key has its default.
    if (d.said == Said::unless_default) {
      for (std::string* value : {&here, &there}) {
        if (value->empty()) *value = text_of(d, d.usual);
      }
    }
    if (!here.empty() && !there.empty()) differ(std::string(d.word()), here, there);
  }
  return out;
}

std::string step_difference(const Report& other, const Report& best) {
  const Seconds delta = other.step_time - best.step_time;
  const double relative = best.step_time.base() > 0 ? delta.base() / best.step_time.base() : 0.0;
  std::string out = std::abs(relative) < 5e-5
                        ? std::string("as fast")
                        : fmt::format("{} {}", percent(std::abs(relative), 2), relative > 0 ? "slower" : "faster");
  const auto part = [&](std::string_view name, Seconds d) {
    if (std::abs(d.base()) >= 1e-4 * best.step_time.base()) out += fmt::format(", {} {}", name, signed_time(d));
  };
  part("compute", other.compute - best.compute);
  part("waiting for collectives", exposed_collectives(other) - exposed_collectives(best));
  part("bubble", other.bubble_fraction * other.step_time - best.bubble_fraction * best.step_time);
  const double memory = static_cast<double>(other.peak_memory_bytes) - static_cast<double>(best.peak_memory_bytes);
  if (memory != 0.0) {
    out += fmt::format(", peak memory {}{}", memory < 0 ? "-" : "+", short_text(Bytes::of(std::abs(memory))));
  }
  return out;
}

}  // namespace orrery
