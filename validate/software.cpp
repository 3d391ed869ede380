#include "validate/software.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace orrery {
namespace {

constexpr std::size_t enough_runs = 20;  ///< that quantiles are taken from

std::vector<const CostFile*> keys_of(const std::vector<CostFile>& files, const CostLabels& labels) {
  std::vector<const CostFile*> keys;
  for (const CostFile& file : files) {
    if (applies(file, labels)) keys.push_back(&file);
  }
  return keys;
}

/// Runs behind every key: those alike in device, program and recipe.
std::size_t runs_of_all(const std::vector<const CostFile*>& keys) {
  std::size_t runs = 0;
  if (keys.empty()) return runs;
  for (const std::string& id : keys.front()->runs) {
    const bool in_all = std::all_of(keys.begin(), keys.end(), [&](const CostFile* key) {
      return std::find(key->runs.begin(), key->runs.end(), id) != key->runs.end();
    });
    runs += in_all ? 1 : 0;
  }
  return runs;
}

HeldOutErrors widest(const std::vector<const CostFile*>& keys) {
  HeldOutErrors out;
  for (const CostFile* key : keys) {
    if (key->errors.runs < enough_runs) continue;
    if (out.runs == 0 || key->errors.high - key->errors.low > out.high - out.low) out = key->errors;
  }
  return out;
}

void refuse(Diagnostics& d, std::string_view name, std::string why, std::string detail) {
  d.error("cli.software", fmt::format("--software {} {}", name, why), {std::move(detail)});
}

}  // namespace

const TrainingProgram* usual_program(const std::vector<CostFile>& files, std::string_view calibration) {
  const TrainingProgram* best = nullptr;
  std::size_t most = 0;
  for (const TrainingProgram& p : training_programs()) {
    CostLabels labels = labels_of(p, calibration, Precision::bf16);
    if (!p.model_parallel || labels.devices.empty()) continue;
    labels.devices.resize(1);  // the family
    const std::vector<const CostFile*> keys = keys_of(files, labels);
    const bool has_own = std::any_of(keys.begin(), keys.end(), [](const CostFile* k) { return !k->framework.empty(); });
    const std::size_t runs = has_own ? runs_of_all(keys) : 0;
    if (runs > most) best = &p, most = runs;
  }
  return best;
}

std::optional<Software> software_of(std::string_view name, const std::vector<CostFile>& files,
                                    const Calibration& calibration, const DeviceSpec& device, Precision precision,
                                    Diagnostics& d) {
  Software out;
  out.chosen = name != "auto";
  if (name == "none") return out;
  const TrainingProgram* program = out.chosen ? training_program(name) : usual_program(files, calibration.name);
  if (out.chosen && program == nullptr) {
    std::vector<std::string_view> known{"auto", "none"};
    for (const TrainingProgram& p : training_programs()) known.push_back(p.name);
    refuse(d, name, "is not known", fmt::format("Known: {}.", fmt::join(known, ", ")));
    return std::nullopt;
  }
  const bool cores = device.cores_shared > 0;
  if (cores || !calibration.machine.empty()) {
    if (!out.chosen) return out;
    refuse(d, name,
           cores ? "is of GPUs, and the cluster's devices are CPU cores"
                 : fmt::format("goes with shipped constants, and these were measured on {}", calibration.machine),
           "What is measured holds the costs of the software that ran; --software none takes it as it is.");
    return std::nullopt;
  }
  const CostLabels labels = program != nullptr ? labels_of(*program, calibration.name, precision) : CostLabels{};
  out.name = program != nullptr ? program->name : "any";
  out.costs = costs_of(files, labels);
  const std::vector<const CostFile*> keys = keys_of(files, labels);
  if (keys.empty()) {
    if (!out.chosen) return Software{};
    refuse(d, name, "has no costs here", "The data directory's folder software has no file that fits it.");
    return std::nullopt;
  }
  for (const CostFile* key : keys) out.files.push_back(key->name);
  if (labels.devices.empty()) return out;
  out.runs = runs_of_all(keys);
  HeldOutErrors errors = out.runs > 0 ? errors_of(files, labels) : widest(keys);
  if (!out.chosen) {
    const auto family = std::find_if(keys.begin(), keys.end(), [&](const CostFile* key) {
      return key->framework.empty() && key->device == labels.devices.front() && key->unnamed.runs >= enough_runs;
    });
    if (family != keys.end()) errors = (*family)->unnamed;
  }
  if (errors.runs > 0) out.errors = errors;
  return out;
}

std::string describe(const Software& s) {
  if (s.name == "none") return "none: kernels as the vendor's libraries run them";
  std::string out = s.name == "any" ? "no program in particular" : s.name;
  if (!s.chosen)
    out += s.name == "any" ? ", since none was measured on this device"
                           : ", the usual one on this device (--software names yours)";
  out += fmt::format("; costs of {}", fmt::join(s.files, ", "));
  if (s.runs > 0) {
    out += fmt::format("; {} measured run{} of it", s.runs, s.runs == 1 ? "" : "s");
  } else if (s.errors) {
    out += "; none of its runs on this device was measured";
  }
  return out;
}

}  // namespace orrery
