#include "cli/common.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {

void declare_output(Command& c, CommonFlags& flags, const std::string& output_help) {
  c.flag("--json", flags.json, "print JSON for other programs");
  c.option("-o,--output", flags.output, output_help);
  c.option("--data", flags.data, "folder of models, clusters and calibrations");
}

void declare_machine(Command& c, CommonFlags& flags) {
  c.option("--gpus", flags.gpus, "number of devices; default: the cluster file's");
  c.option("--calibration", flags.calibration, "calibration file; default: the device's");
}

void require_none(const Diagnostics& d) {
  if (!d.empty()) throw InputError(d);
}

void refuse(std::string code, std::string message, std::vector<std::string> details) {
  Diagnostics d;
  d.error(std::move(code), std::move(message), std::move(details));
  throw InputError(std::move(d));
}

Library library_of(const CommonFlags& flags) {
  if (flags.data) {
    std::error_code failure;
    if (!std::filesystem::is_directory(*flags.data, failure)) {
      refuse("cli.data", fmt::format("--data {} is not a folder", *flags.data));
    }
    return Library(*flags.data);
  }
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) {
    const std::filesystem::path installed = program.parent_path().parent_path() / "share" / "orrery" / "models";
    if (std::filesystem::is_directory(installed, failure)) return Library(installed);
  }
  return Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
}

std::filesystem::path own_calibration_path() {
  const char* base = std::getenv("XDG_DATA_HOME");
  if (base != nullptr && base[0] == '/')
    return std::filesystem::path(base) / "orrery" / "calibration" / "cpu-core.toml";
  const char* home = std::getenv("HOME");
  const std::filesystem::path root = home != nullptr && home[0] == '/' ? home : ".";
  return root / ".local" / "share" / "orrery" / "calibration" / "cpu-core.toml";
}

CalibrationChoice calibration_of(const CommonFlags& flags, const Library& library, const DeviceSpec& device) {
  std::filesystem::path file;
  std::string origin;
  std::error_code failure;
  if (flags.calibration) {
    file = *flags.calibration;
    origin = file.string();
  } else if (device.name == "cpu-core" && std::filesystem::exists(own_calibration_path(), failure)) {
    file = own_calibration_path();
    origin = "this machine's (" + file.string() + ")";
  } else if (!device.calibration.empty()) {
    file = library.calibration(device.calibration);
    origin = "shipped " + device.calibration;
  } else {
    CalibrationChoice none;
    none.calibration.device = device.name;
    none.origin = "none: nominal figures; orrery calibrate measures this machine";
    return none;
  }
  Diagnostics d;
  std::optional<Calibration> read = read_calibration(file, d);
  require_none(d);
  // Calibrations name a device by its display name or by its file.
  if (read->device != device.name && read->device != device.calibration) {
    refuse("cli.calibration", fmt::format("the calibration is of another device ({})", origin),
           {fmt::format("It is of {}; the cluster has {}.", read->device, device.name)});
  }
  return {std::move(*read), std::move(origin)};
}

void adapt_to_this_machine(ClusterSpec& cluster) {
  if (cluster.name != "local-cpu") return;
  const unsigned cores = std::thread::hardware_concurrency();
  if (cores > 0) cluster.device.cores_shared = cores;
}

std::filesystem::path plan_path(const std::string& reference, const Library& library) {
  if (is_path(reference)) return reference;
  std::error_code failure;
  if (std::filesystem::exists(reference, failure)) return reference;
  if (std::filesystem::exists(library.plan(reference), failure)) return library.plan(reference);
  refuse("library.unknown-plan", fmt::format("no plan is named \"{}\"", reference),
         {fmt::format("It is neither a file nor one of: {}.", fmt::join(library.plans(), ", "))});
}

UnresolvedPlan read_unresolved(const std::string& reference, const CommonFlags& flags,
                               const std::optional<std::string>& cluster, ClusterUse use) {
  const Library library = library_of(flags);
  Diagnostics d;
  std::optional<PlannedRun> run = read_plan_file(plan_path(reference, library), library, flags.gpus, d);
  require_none(d);
  if (!run->cluster && !cluster) {
    refuse("cli.cluster", "the plan names no cluster",
           {"Write cluster = \"...\" into the plan; estimate, simulate and explain also take --cluster."});
  }
  if (cluster && (!run->cluster || use == ClusterUse::replace)) {
    const auto ranks = static_cast<std::uint32_t>(run->plan.mesh.size());
    run->cluster = library.cluster(*cluster, ".", ranks, d);
    require_none(d);
    run->cluster_reference = *cluster;
  }
  adapt_to_this_machine(*run->cluster);
  static_cast<void>(check_sizes(run->model, run->workload, d));  // the mistakes are in d
  check(run->plan, run->model, run->workload, &*run->cluster, d);
  require_none(d);
  CalibrationChoice calibration = calibration_of(flags, library, run->cluster->device);
  return {std::move(*run), std::move(calibration)};
}

LoadedPlan load_plan(const std::string& reference, const CommonFlags& flags,
                     const std::optional<std::string>& cluster, ClusterUse use) {
  UnresolvedPlan read = read_unresolved(reference, flags, cluster, use);
  LoadedPlan loaded;
  loaded.run = std::move(read.run);
  loaded.calibration = std::move(read.calibration);
  PlannedRun& run = loaded.run;
  ResolvedPlan resolved = resolve(run.plan, run.model, run.workload, *run.cluster, loaded.calibration.calibration);
  run.plan = std::move(resolved.plan);
  loaded.resolved = std::move(resolved.resolved);
  loaded.program = lower(run.model, run.workload, run.plan);
  return loaded;
}

CostModel cost_model(const LoadedPlan& loaded) {
  const Plan& plan = loaded.run.plan;
  return CostModel(*loaded.run.cluster, loaded.calibration.calibration, plan.mesh, plan.placement,
                   plan.collective_algorithm);
}

std::string resolutions_text(const std::vector<Resolution>& resolved) {
  std::string out;
  for (const Resolution& r : resolved) out += fmt::format("  auto: {} = {}  ({})\n", r.key, r.value, r.reason);
  return out;
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  std::error_code failure;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failure);
  // Devices and pipes cannot be replaced by renaming.
  const auto status = std::filesystem::status(file, failure);
  const bool whole = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  const std::filesystem::path first = whole ? std::filesystem::path(file.string() + ".part") : file;
  std::ofstream out(first, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) throw Error(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
  if (!whole) return;
  std::filesystem::rename(first, file, failure);
  if (failure) throw Error(fmt::format("cannot write {}: {}", file.string(), failure.message()));
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error("cannot write to standard output");
  }
}

void print_json(const nlohmann::ordered_json& json) { print(json.dump(2) + "\n"); }

}  // namespace orrery
