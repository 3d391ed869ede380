#include "tests/fuzz/readers.hpp"

#include <fmt/format.h>

#include <span>

#include "core/plan/compute_order.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "core/record/calibration_file.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/profiled_step.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/batch_curve.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/library.hpp"
#include "core/spec/power_spec.hpp"
#include "core/spec/reliability_file.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "edit/lesson.hpp"
#include "exec/checkpoint/checksum.hpp"
#include "exec/checkpoint/manifest.hpp"
#include "exec/checkpoint/rank_file.hpp"
#include "framework/framework.hpp"
#include "jobs/job_simulation.hpp"
#include "jobs/job_workload_file.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/import/import.hpp"
#include "sim/net/import/nccl_channels.hpp"
#include "sweep/points_file.hpp"
#include "sweep/sweep_file.hpp"
#include "validate/cost_file.hpp"
#include "validate/run_table.hpp"

namespace orrery::test {

namespace {

/// A reader that returned nothing must have said why, and one that returned a value must not have.
template <class T>
std::string verdict(const std::optional<T>& value, const Diagnostics& diagnostics) {
  if (value.has_value() && !diagnostics.empty()) return "accepted although there are diagnostics";
  if (!value.has_value() && diagnostics.empty()) return "refused without a diagnostic";
  static_cast<void>(render(diagnostics));
  return {};
}

std::string library_path() { return std::string(ORRERY_SOURCE_DIR) + "/models"; }

std::optional<DeviceSpec> device(const std::string& name, Diagnostics& diagnostics) {
  return Library(library_path()).device(name, diagnostics);
}

std::string model(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_model(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  static_cast<void>(parameter_count(*value));
  return parse_model(write_model(*value), "again.toml", again) == value ? "" : "does not read back equal";
}

std::string workload(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_workload(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_workload(write_workload(*value), "again.toml", again) == value ? "" : "does not read back equal";
}

std::string cluster(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_cluster(std::string(bytes), "fuzz.toml", device, diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_cluster(write_cluster(*value), "again.toml", device, again) == value ? "" : "does not read back equal";
}

std::string reliability(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_reliability(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_reliability(write_reliability(*value), "again.toml", again) == value ? "" : "does not read back equal";
}

std::string power(std::string_view bytes) {
  Diagnostics diagnostics;
  return verdict(parse_power(std::string(bytes), "fuzz.toml", diagnostics), diagnostics);
}

/// A workload that is read must also play, on a cluster that its largest job fits on.
std::string jobs(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto value = parse_job_workload(std::string(bytes), "fuzz.csv", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  JobSimulation options;
  options.gpus_of_nodes = {1};
  for (const ClusterJob& job : value->jobs)
    options.gpus_of_nodes.front() = std::max(options.gpus_of_nodes.front(), job.gpus);
  const JobHistory history = simulate_jobs(*value, job_policies().back(), options);
  GpuMicroseconds used = 0;
  for (const JobProgress& p : history.jobs) used += p.used;
  return used == history.busy ? std::string{} : "GPU time is not conserved";
}

std::string batch_curve(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto value = parse_batch_curve(std::string(bytes), "fuzz.csv", 32, diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return value->steps_at(64) <= value->steps_at(32) ? "" : "a larger batch takes more steps";
}

std::string hf_config(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_hf_config(std::string(bytes), "config.json", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  static_cast<void>(parameter_count(*value));
  static_cast<void>(unread_keys(*value));
  return check_model(*value, again) ? "" : "accepted a model that breaks a rule";
}

/// Ops of the longest list, without walking it.
std::uint64_t longest_list(const Program& p) {
  std::uint64_t longest = 0;
  for (const RankClass& c : p.classes) {
    std::uint64_t ops = 0;
    for (const auto* slots : {&c.setup, &c.step}) {
      for (const Slot& s : *slots) ops += std::uint64_t{s.repeat} * (1 + p[s.block].ops.size());
    }
    longest = std::max(longest, ops);
  }
  return longest;
}

std::string plan(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const Library library(library_path());
  // The file lies among the shipped plans, so that their token files are found.
  const auto value =
      read_plan(std::string(bytes), library_path() + "/plan/fuzz.toml", library, std::nullopt, diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  const auto back = read_plan(write_plan(*value), "again.toml", library, std::nullopt, again);
  if (!back || !(back->plan == value->plan) || !(back->workload == value->workload)) return "does not read back equal";
  // A plan that passes its check lowers to a sound Program; large ones take too long here.
  const bool small =
      value->plan.mesh.size() <= 64 && microbatches(value->plan, value->workload) <= 8 && value->model.layers <= 32;
  if (!is_resolved(value->plan) || !small) return {};
  const auto found = verify(lower(value->model, value->workload, value->plan));
  return found.empty() ? "" : "lowers to a Program that breaks a rule:\n" + render(found);
}

/// A launch file of any framework; what it leaves open is given, so that plans are built and checked.
std::string launch(std::string_view bytes, const char* file) {
  Diagnostics diagnostics;
  LaunchInputs options;
  options.model = "llama-3-8b";
  options.gpus = 8;
  const auto value = read_launch(std::string(bytes), file, "auto", options, Library(library_path()), diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return launch_title(std::string(bytes), file).empty() ? "read, although it is no launch file" : "";
}
std::string launch_yaml(std::string_view bytes) { return launch(bytes, "fuzz.yaml"); }
std::string launch_toml(std::string_view bytes) { return launch(bytes, "fuzz.toml"); }
std::string launch_flags(std::string_view bytes) { return launch(bytes, "fuzz.sh"); }
std::string launch_python(std::string_view bytes) { return launch(bytes, "fuzz.py"); }

std::string program(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = read_program(bytes, "fuzz.program", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  if (read_program(write_program(*value), "again.program", again) != value) return "does not read back equal";
  if (value->mesh.size() > 256 || longest_list(*value) > 2000) return {};
  const auto found = verify(*value);
  if (!found.empty()) {
    static_cast<void>(render(found));
    return {};
  }
  // The Program is sound, so everything may walk it.
  for (std::uint32_t c = 0; c < value->classes.size(); ++c) static_cast<void>(totals_of(*value, c));
  if (value->mesh.size() > 0) static_cast<void>(write_rank(*value, Rank{0}));
  return {};
}

std::string trace(std::string_view bytes) {
  Diagnostics diagnostics;
  return verdict(read_chrome_trace(bytes, "fuzz.json", diagnostics), diagnostics);
}

std::string profile(std::string_view bytes) {
  Diagnostics diagnostics, more;
  const auto value = read_profile(bytes, "fuzz.json", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  const auto step = median_step({*value}, more);
  if (const std::string fault = verdict(step, more); !fault.empty() || !step) return fault;
  for (const StepOfRank& r : step->ranks) {
    const ProfiledTimes t = account(*step, r);
    if (t.busy + t.collectives + t.message + t.bubble != step->duration)
      return "the parts of the step are not the step";
  }
  return {};
}

std::string lesson(std::string_view bytes) {
  Diagnostics diagnostics;
  return verdict(parse_lesson(std::string(bytes), "fuzz.toml", diagnostics), diagnostics);
}

std::string report(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = read_report(bytes, "fuzz.json", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return read_report(write_report(*value), "again.json", again) == value ? "" : "does not read back equal";
}

std::string calibration(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_calibration(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_calibration(calibration_text(*value), "again.toml", again) == value ? "" : "does not read back equal";
}

std::string costs(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_costs(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_costs(costs_text(*value), "again.toml", again) == value ? "" : "does not read back equal";
}

std::string order(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = read_order(std::string(bytes), "fuzz.order", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  if (const auto found = mistakes_of(*value); !found.empty())
    return "accepted what is refused in memory:\n" + render(found);
  return read_order(write_order(*value), "again.order", again) == value ? "" : "does not read back equal";
}

std::string fabric(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto value = parse_fabric(std::string(bytes), "fuzz.toml", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  if (value->gpus() > 5000 || value->node.gpus > 64) return {};
  const Fabric f(*value);
  std::vector<LinkId> route;
  try {
    f.route(0, f.gpus() - 1, PathRule::rail_local, 1, route);
  } catch (const CutOff&) {
    return value->faults.empty() ? "cut off without a fault" : "";
  }
  for (const LinkId l : route) {
    if (static_cast<std::uint32_t>(l) >= f.links() || f.name(l).empty()) return "routes over a link that is not there";
  }
  return {};
}

/// Reads other programs' files: an accepted one is a fabric that a file of ours can hold.
std::string imported(std::string_view bytes) {
  for (std::size_t kind = 0; kind < import_kind_names().size(); ++kind) {
    if (const auto seen = import_kind_of(bytes); seen && kind != static_cast<std::size_t>(*seen)) continue;
    Diagnostics diagnostics, again;
    ImportOptions options;
    options.gpu = "h100";
    options.nic = Bandwidth::of(50e9);
    const auto value = import_fabric(static_cast<ImportKind>(kind), std::string(bytes), "fuzz", options, diagnostics);
    if (const std::string fault = verdict(value, diagnostics); !fault.empty()) return fault;
    if (value && !parse_fabric(write_fabric(value->fabric, value->notes), "again.toml", again)) {
      return "is no fabric file:\n" + render(again);
    }
  }
  return {};
}

/// Reads NCCL's channels: accepted ones are read back as a part of a cluster's file.
std::string channels(std::string_view bytes) {
  const auto kind = channel_file_of(bytes);
  if (!kind) return {};
  for (const std::optional<std::uint32_t> nodes : {std::optional<std::uint32_t>(), std::optional<std::uint32_t>(2)}) {
    Diagnostics diagnostics, again;
    const auto value = import_nccl_channels(*kind, std::string(bytes), "fuzz", nodes, diagnostics);
    if (const std::string fault = verdict(value, diagnostics); !fault.empty()) return fault;
    if (!value) continue;
    const std::string file =
        "schema = 1\n[cluster]\nname = \"x\"\nnodes = 1\ndevices_per_node = 1\n[cluster.device]\nname = \"d\"\n"
        "memory = \"1 GiB\"\nmemory_bandwidth = \"1 GB/s\"\n[cluster.device.peak]\nfp32 = \"1 TFLOP/s\"\n";
    const auto read = parse_cluster(file + channel_tables(*value), "again.toml", {}, again);
    if (!read || read->channels != value->graphs) return "is no part of a cluster file:\n" + render(again);
  }
  return {};
}

std::string sweep(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto value = parse_sweep(std::string(bytes), "fuzz.toml", diagnostics);
  if (value.has_value() != diagnostics.empty()) return "neither a sweep nor a diagnostic, or both";
  if (!value) return "";
  // What it asks for can be enumerated, or is too much.
  return sweep_points(grids_of(value->base, value->cases)).size() <= most_sweep_points ? "" : "too many points";
}

std::string points(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto value = read_points(bytes, "fuzz.jsonl", diagnostics);
  if (value.has_value() != diagnostics.empty()) return "neither points nor a diagnostic, or both";
  if (!value) return "";
  const std::string text = write_points(value->header, value->points);
  const auto again = read_points(text, "again.jsonl", diagnostics);
  return again && write_points(again->header, again->points) == text ? "" : "does not read back equal";
}

std::string runs(std::string_view bytes) {
  Diagnostics diagnostics, again;
  const auto value = parse_runs(std::string(bytes), "fuzz.csv", diagnostics);
  if (const std::string fault = verdict(value, diagnostics); !fault.empty() || !value) return fault;
  return parse_runs(write_runs(*value), "again.csv", again) == value ? "" : "does not read back equal";
}

/// Reads the manifest of a checkpoint and the directory of a rank's file, behind correct checksums.
std::string checkpoint(std::string_view bytes) {
  Diagnostics of_manifest, of_directory, again;
  std::string text(bytes);
  text += fmt::format("crc32 {:08x}\n", crc32_of(std::as_bytes(std::span(bytes))));
  const auto manifest = read_manifest(text, "fuzz", of_manifest);
  if (const std::string fault = verdict(manifest, of_manifest); !fault.empty()) return fault;
  if (manifest && read_manifest(write_manifest(*manifest), "again", again) != manifest)
    return "does not read back equal";
  if (manifest) static_cast<void>(workload_of(*manifest));
  const auto parts = read_directory(bytes, "fuzz", of_directory);
  if (const std::string fault = verdict(parts, of_directory); !fault.empty() || !parts) return fault;
  if (read_directory(write_directory(*parts), "again", again) != parts) return "does not read back equal";
  for (const StatePart& p : *parts) {
    if (p.slice.count > 10000) continue;
    for_each_stretch(p.slice, [](std::uint64_t, std::uint64_t, std::uint64_t) {});
  }
  return {};
}

}  // namespace

const std::vector<FuzzedReader>& fuzzed_readers() {
  static const std::vector<FuzzedReader> readers = {
      {"program", program, {"tests/golden/hand"}, ".program"},
      {"model", model, {"models/model"}, ".toml"},
      {"plan", plan, {"models/plan", "tests/fuzz/seeds/plan"}, ".toml"},
      {"workload", workload, {"tests/fuzz/seeds/workload"}, ".toml"},
      {"cluster", cluster, {"models/cluster"}, ".toml"},
      {"reliability", reliability, {"models/reliability"}, ".toml"},
      {"power", power, {"models"}, ".toml"},
      {"batch_curve", batch_curve, {"tests/fuzz/seeds/batch_curve"}, ".csv"},
      {"jobs", jobs, {"tests/fuzz/seeds/jobs"}, ".txt"},
      {"hf_config",
       hf_config,
       {"models/hf/llama-3-70b", "models/hf/deepseek-v3", "tests/fuzz/seeds/hf_config"},
       ".json"},
      {"trace", trace, {"tests/fuzz/seeds/trace"}, ".json"},
      {"profile", profile, {"tests/fuzz/seeds/profile"}, ".json"},
      {"launch_yaml", launch_yaml, {"tests/fuzz/seeds/launch_yaml"}, ".yaml"},
      {"launch_toml", launch_toml, {"tests/fuzz/seeds/launch_toml"}, ".toml"},
      {"launch_flags", launch_flags, {"tests/fuzz/seeds/launch_flags"}, ".sh"},
      {"launch_python", launch_python, {"tests/fuzz/seeds/launch_python"}, ".py"},
      {"lesson", lesson, {"models/lesson"}, ".toml"},
      {"report", report, {"tests/fuzz/seeds/report"}, ".json"},
      {"checkpoint", checkpoint, {"tests/fuzz/seeds/checkpoint"}, ".json"},
      {"order", order, {"tests/fuzz/seeds/order"}, ".order"},
      {"calibration", calibration, {"models/calibration"}, ".toml"},
      {"costs", costs, {"models/software"}, ".toml"},
      {"fabric", fabric, {"models/fabric"}, ".toml"},
      {"nccl_graph", channels, {"tests/unit/sim/net/given/channels"}, ".xml"},
      {"nccl_log", channels, {"tests/unit/sim/net/given/channels"}, ".log"},
      {"runs", runs, {"tests/fuzz/seeds/runs"}, ".csv"},
      {"sweep", sweep, {"tests/fuzz/seeds/sweep"}, ".toml"},
      {"points", points, {"tests/fuzz/seeds/points"}, ".jsonl"},
      {"nccl_topology", imported, {"tests/unit/sim/net/given"}, ".xml"},
      {"smi_topology", imported, {"tests/unit/sim/net/given"}, ".txt"},
      {"slurm_topology", imported, {"tests/unit/sim/net/given"}, ".conf"},
      {"astra_network", imported, {"tests/unit/sim/net/given"}, ".yml"},
      {"dot_graph", imported, {"tests/unit/sim/net/given"}, ".dot"},
      {"simai_topology", imported, {"tests/unit/sim/net/given"}, ".topo"},
  };
  return readers;
}

}  // namespace orrery::test
