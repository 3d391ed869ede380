#include "validate/software.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

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

/// Finds the programs of the runs on a family of devices. Files name runs only by id, but a run of a program is in
/// every file of its labels, and in no file of another program's.
class RunPrograms {
 public:
  RunPrograms(const std::vector<CostFile>& files, const std::vector<std::string_view>& devices) {
    for (const CostFile& file : files) {
      const bool here = file.device.empty() || std::find(devices.begin(), devices.end(), file.device) != devices.end();
      if (!here || !is_of_program(file.framework)) continue;
      filed_.insert(file.framework);
      for (const std::string& id : file.runs) labels_[id].insert(file.framework);
    }
  }

  /// The program of a run; empty for a run of no program. Among programs that no file tells apart it is the one with
  /// the fewest labels.
  [[nodiscard]] std::string_view of(std::string_view run) const {
    const auto found = labels_.find(run);
    if (found == labels_.end()) return {};
    const TrainingProgram* best = nullptr;
    for (const TrainingProgram& p : training_programs()) {
      std::set<std::string_view> filed;
      for (const std::string_view label : p.labels) {
        if (filed_.contains(label)) filed.insert(label);
      }
      if (filed == found->second && (best == nullptr || label_count(p) < label_count(*best))) best = &p;
    }
    return best == nullptr ? std::string_view{} : best->name;
  }

 private:
  static std::size_t label_count(const TrainingProgram& p) {
    return p.labels.size() - static_cast<std::size_t>(std::count(p.labels.begin(), p.labels.end(), ""));
  }
  static bool is_of_program(std::string_view label) {
    const std::vector<TrainingProgram>& all = training_programs();
    return !label.empty() && std::any_of(all.begin(), all.end(), [&](const TrainingProgram& p) {
      return std::find(p.labels.begin(), p.labels.end(), label) != p.labels.end();
    });
  }

  std::set<std::string_view> filed_;
  std::map<std::string_view, std::set<std::string_view>> labels_;
};

/// Ids of the runs behind every key: runs alike in device and recipe whose programs share all of these keys.
std::vector<std::string_view> runs_behind(const std::vector<const CostFile*>& keys) {
  std::vector<std::string_view> out;
  if (keys.empty()) return out;
  for (const std::string& id : keys.front()->runs) {
    const bool in_all = std::all_of(keys.begin(), keys.end(), [&](const CostFile* key) {
      return std::find(key->runs.begin(), key->runs.end(), id) != key->runs.end();
    });
    if (in_all) out.push_back(id);
  }
  return out;
}

std::vector<ProgramRuns> by_program(const std::vector<std::string_view>& runs, const RunPrograms& programs) {
  std::map<std::string_view, std::size_t> counts;
  for (const std::string_view id : runs) ++counts[programs.of(id)];
  std::vector<ProgramRuns> out;
  for (const auto& [program, count] : counts) out.push_back({std::string(program), count});
  return out;
}

/// Removes the runs of one program from the list.
std::size_t take(std::vector<ProgramRuns>& runs, std::string_view program) {
  const auto own = std::find_if(runs.begin(), runs.end(), [&](const ProgramRuns& r) { return r.program == program; });
  if (own == runs.end()) return 0;
  const std::size_t count = own->runs;
  runs.erase(own);
  return count;
}

/// Runs by program as a text: "74 of llm-foundry and 3 of torchtitan".
std::string others_text(const std::vector<ProgramRuns>& others) {
  std::string out;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i > 0) out += i + 1 == others.size() ? " and " : ", ";
    out += fmt::format("{} of {}", others[i].runs, others[i].program.empty() ? "other software" : others[i].program);
  }
  return out;
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
    if (!p.model_parallel || !p.usual || labels.devices.empty()) continue;
    labels.devices.resize(1);  // the family
    const std::vector<const CostFile*> keys = keys_of(files, labels);
    const bool has_own = std::any_of(keys.begin(), keys.end(), [](const CostFile* k) { return !k->framework.empty(); });
    const std::size_t runs = has_own ? runs_behind(keys).size() : 0;
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
           cores ? "is for GPUs, but the cluster's devices are CPU cores"
                 : fmt::format("goes with shipped constants, but these were measured on {}", calibration.machine),
           "Measured constants already hold the costs of the software that ran; use --software none.");
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
  if (labels.devices.empty()) {
    const auto all = std::find_if(keys.begin(), keys.end(),
                                  [](const CostFile* key) { return key->device.empty() && key->framework.empty(); });
    if (all == keys.end()) return out;
    const HeldOutErrors& errors = program != nullptr ? (*all)->unmeasured_named : (*all)->unmeasured;
    if (errors.runs >= enough_runs) out.errors = errors;
    return out;
  }
  out.others = by_program(runs_behind(keys), RunPrograms(files, labels.devices));
  out.runs = take(out.others, out.name);
  HeldOutErrors errors = out.runs > 0 ? errors_of(files, labels) : widest(keys);
  if (!out.chosen) {
    const auto family = std::find_if(keys.begin(), keys.end(), [&](const CostFile* key) {
      return key->framework.empty() && key->device == labels.devices.front() && key->unnamed.runs >= enough_runs;
    });
    if (family != keys.end()) {
      errors = (*family)->unnamed;
      errors.group = fmt::format("{}, priced as {}", (*family)->name, out.name);
    }
  }
  if (errors.runs > 0) out.errors = errors;
  return out;
}

namespace {

std::string described(const Software& s, bool with_files) {
  if (s.name == "none") return "none: kernels as the vendor's libraries run them";
  std::string out = s.name == "any" ? "no program in particular" : s.name;
  if (!s.chosen)
    out += s.name == "any" ? ", since none was measured on this device"
                           : ", the usual one on this device (--software names yours)";
  if (with_files) out += fmt::format("; costs of {}", fmt::join(s.files, ", "));
  if (s.runs > 0) {
    out += fmt::format("; {} measured run{} of it", s.runs, s.runs == 1 ? "" : "s");
    if (!s.others.empty()) out += ", and " + others_text(s.others);
  } else if (s.errors && s.name != "any") {
    out += "; none of its runs on this device was measured";
    if (!s.others.empty()) out += fmt::format(", but {}", others_text(s.others));
  }
  return out;
}

}  // namespace

std::string describe(const Software& s) { return described(s, true); }
std::string describe_briefly(const Software& s) { return described(s, false); }

}  // namespace orrery
