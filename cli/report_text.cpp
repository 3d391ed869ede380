#include "cli/report_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/table.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/space.hpp"

namespace orrery {
namespace {

constexpr std::size_t label_width = 28;

std::string line(std::string_view label, const std::string& value, const std::string& note = "") {
  return fmt::format("  {:<{}}{:>12}{}{}\n", label, label_width, value, note.empty() ? "" : "   ", note);
}

std::string gib(std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); }

std::string signed_time(Seconds t) { return (t.base() < 0 ? "-" : "+") + short_text(Seconds::of(std::abs(t.base()))); }

std::string yes(bool value) { return value ? "on" : "off"; }

}  // namespace

std::string unread_text(const ModelSpec& model) {
  const std::vector<std::string> keys = unread_keys(model);
  return keys.empty() ? "" : printable(fmt::format("not read: {}", fmt::join(keys, ", ")));
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

std::string heading_text(const PlannedRun& run, const std::string& calibration, const std::string& software) {
  const Workload& w = run.workload;
  std::string out = fmt::format("{}\n", run.plan.name.empty() ? "plan" : printable(run.plan.name));
  out += fmt::format("  model    {}, {} parameters; batch {} x {} tokens, {}, {}\n", printable(run.model.name),
                     short_count(static_cast<double>(parameter_count(run.model))), w.global_batch, w.sequence_length,
                     name_of(w.precision), name_of(w.optimizer.kind));
  if (const std::string unread = unread_text(run.model); !unread.empty()) out += fmt::format("           {}\n", unread);
  if (run.cluster) {
    out += fmt::format("  machine  {}, {}; calibration: {}\n", printable(run.cluster->name),
                       printable(devices_text(*run.cluster)), printable(calibration));
    if (!software.empty()) out += fmt::format("  software {}\n", printable(software));
  }
  out += fmt::format("  plan     {}\n", describe(run.plan));
  return out;
}

std::string unfit_text(const std::string& plan, const Report& r) {
  if (r.fits) return "";
  return fmt::format("\n  {} does not fit in memory (above): exit status 1\n",
                     plan.empty() ? "the plan" : printable(plan));
}

std::string memory_text(const Report& r) {
  std::string out;
  const double capacity = static_cast<double>(r.memory_capacity_bytes.value_or(r.peak_memory_bytes));
  Table table({"stage", "<", "peak", "of it", "weights", "gradients", "optimizer", "activations", "workspace"});
  for (std::size_t i = 0; i < r.memory_by_stage.size(); ++i) {
    if (r.memory_by_stage.size() > 16 && i == 8) {
      table.row({"..."});
      i = r.memory_by_stage.size() - 8;
    }
    const StageMemory& m = r.memory_by_stage[i];
    const double share = capacity > 0 ? static_cast<double>(m.peak) / capacity : 0.0;
    table.row({fmt::format("{}", m.stage), "[" + bar(share, 20) + "]", gib(m.peak), percent(share, 0), gib(m.weights),
               gib(m.gradients), gib(m.optimizer), gib(m.activations), gib(m.workspace)});
  }
  if (r.memory_capacity_bytes) {
    out += fmt::format("  memory: peak of each pipeline stage against {}{}\n", gib(*r.memory_capacity_bytes),
                       r.peak_memory_bytes <= *r.memory_capacity_bytes ? "" : "  DOES NOT FIT");
  } else {
    out += "  memory: peak of each pipeline stage\n";
  }
  std::string below;
  if (r.peak_memory_reserved_bytes) {
    const double live = static_cast<double>(r.peak_memory_bytes);
    const double more = live > 0 ? static_cast<double>(*r.peak_memory_reserved_bytes) / live - 1.0 : 0.0;
    below += fmt::format("  held by the caching allocator: {}, {} more than is live\n",
                         gib(*r.peak_memory_reserved_bytes), percent(std::max(0.0, more)));
  }
  if (r.peak_memory_process_bytes) {
    below += fmt::format("  held by the process: {}", gib(*r.peak_memory_process_bytes));
    if (r.memory_capacity_bytes) {
      below += fmt::format(" of {}{}", gib(*r.memory_capacity_bytes),
                           *r.peak_memory_process_bytes <= *r.memory_capacity_bytes ? "" : "  DOES NOT FIT");
    }
    below += "\n";
  }
  if (r.peak_memory_setup_bytes) {
    below += fmt::format("  live at initialisation: {}\n", gib(*r.peak_memory_setup_bytes));
  }
  const auto tier = [&](const char* name, const std::optional<std::uint64_t>& peak,
                        const std::optional<std::uint64_t>& room) {
    if (!peak) return;
    below += fmt::format("  {} of a node: {}", name, gib(*peak));
    if (room) below += fmt::format(" of {}{}", gib(*room), *peak <= *room ? "" : "  DOES NOT FIT");
    below += "\n";
  };
  tier("host memory", r.peak_host_memory_bytes, r.host_memory_capacity_bytes);
  tier("disk", r.peak_disk_bytes, r.disk_capacity_bytes);
  return out + table.str("    ") + below;
}

std::string report_text(const Report& r) {
  const double step = r.step_time.base();
  std::string out;
  const auto share = [&](Seconds t) { return step > 0 ? percent(t.base() / step) : std::string("-"); };
  out += line("step time", short_text(r.step_time, 4), r.origin);
  out += line("tokens/s", short_count(r.tokens_per_s, 4), short_count(r.tokens_per_s_per_gpu, 4) + " per device");
  if (r.model_flops_utilization > 0) {
    out += line("model FLOPs utilization", percent(r.model_flops_utilization),
                "hardware " + percent(r.hardware_flops_utilization) + "; " + r.flop_convention);
  }
  out += interval_text(r);
  out += line("compute", short_text(r.compute), share(r.compute));
  out += line("exposed communication", short_text(r.exposed_communication), share(r.exposed_communication));
  out += line("bubble", short_text(r.bubble_fraction * r.step_time), percent(r.bubble_fraction));
  if (r.exposed_exchange.base() > 0) {
    out += line("  counted in both", short_text(r.exposed_exchange),
                share(r.exposed_exchange) + ", messages between stages");
  }
  out += line("sent by all ranks", short_text(Bytes::of(static_cast<double>(r.sent_bytes))));
  if (r.cost_per_step) out += line("cost per step", fmt::format("{:.4g}", *r.cost_per_step));
  if (r.loss) out += line("loss", fmt::format("{:.4f}", *r.loss));
  out += "\n" + memory_text(r);
  if (!r.operations.empty()) {
    std::vector<OperationTime> ops = r.operations;
    std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
    Table table({"operation", "time", "of step", "runs"});
    // What takes less than a thousandth of the step is summed up.
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
    for (const std::string& a : r.assumptions) out += "    - " + printable(a) + "\n";
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
  differ("recomputation", std::string(name_of(other.recompute)), std::string(name_of(plan.recompute)));
  differ("ZeRO", std::to_string(other.zero_stage), std::to_string(plan.zero_stage));
  if (other.overlap_gradients && plan.overlap_gradients) {
    differ("gradient overlap", yes(*other.overlap_gradients), yes(*plan.overlap_gradients));
  }
  if (other.attention && plan.attention) {
    differ("attention", std::string(name_of(*other.attention)), std::string(name_of(*plan.attention)));
  }
  // What else the files would say, so that no decision is forgotten.
  static constexpr std::string_view told[] = {"plan.microbatch_size",   "plan.schedule",  "plan.stage_layers",
                                              "plan.sequence_parallel", "plan.recompute", "plan.zero_stage",
                                              "plan.overlap_gradients", "plan.attention"};
  const std::vector<Decision> mine = decisions(other);
  for (const Decision& d : decisions(plan)) {
    if (!d.key.starts_with("plan.") || std::find(std::begin(told), std::end(told), d.key) != std::end(told)) continue;
    const auto at = std::find_if(mine.begin(), mine.end(), [&](const Decision& m) { return m.key == d.key; });
    if (at != mine.end()) differ(d.key.substr(5), at->value, d.value);
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
