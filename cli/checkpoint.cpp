#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/spec_files.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/reshard.hpp"

namespace orrery {
namespace {

using nlohmann::ordered_json;

/// Parts of one kind of state, added up.
struct StateSummary {
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
  DType dtype = DType::f32;
};

std::map<std::string, StateSummary> states_of(const Checkpoint& c) {
  std::map<std::string, StateSummary> states;
  for (const auto& [name, places] : c.places) {
    StateSummary& s = states[name.first];
    ++s.tensors;
    for (const Checkpoint::Place& place : places) {
      const StatePart& part = c.files[place.file].parts()[place.part];
      s.dtype = part.dtype;
      s.bytes += bytes_of(part);
      for_each_stretch(part.slice, [&](std::uint64_t, std::uint64_t, std::uint64_t n) { s.elements += n; });
    }
  }
  return states;
}

/// The first number of a scalar of the state; empty where the state lacks it.
std::optional<double> scalar_of(Checkpoint& c, const std::string& name) {
  const auto found = c.places.find({"scalar", name});
  if (found == c.places.end()) return std::nullopt;
  double value = 0.0;
  const Checkpoint::Place& place = found->second.front();
  if (bytes_of(c.files[place.file].parts()[place.part]) < sizeof value) return std::nullopt;
  c.files[place.file].read(place.part, 0, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

/// The sizes in the plan's table [mesh]: "pipeline 2, data 2".
std::string mesh_of(const std::string& plan) {
  std::string out;
  std::istringstream in(plan);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("[")) inside = line == "[mesh]";
    const std::size_t equal = line.find(" = ");
    if (!inside || equal == std::string::npos || line.starts_with("order") || line.starts_with("placement")) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", line.substr(0, equal), line.substr(equal + 3));
  }
  return out.empty() ? "one rank" : out;
}

class CheckpointVerb final : public Verb {
 public:
  const char* name() const override { return "checkpoint"; }
  const char* summary() const override { return "check, describe or reshard the checkpoints of a run"; }

  void declare(Command& c) override {
    c.positional("DIR", folder_, "the folder that `run --checkpoint` saved in");
    c.option("--to", to_, "save the newest checkpoint anew, cut as the ranks of this plan need it");
    c.option("-o,--output", output_, "the folder for the new checkpoint");
    c.flag("--json", flags_.json, "print JSON for other programs");
    c.option("--data", flags_.data, "folder of models, clusters and calibrations");
    declare_machine(c, flags_);
    c.examples(
        "  orrery checkpoint saved                  reads every byte and says what is whole\n"
        "  orrery checkpoint saved --to other.toml -o resharded\n"
        "  orrery run other.toml --checkpoint resharded --resume");
  }

  int run() override {
    if (to_.has_value() != output_.has_value()) {
      refuse("cli.checkpoint", "--to and -o belong together: the plan, and the folder for its checkpoint");
    }
    if (generations(*files_, folder_).empty()) {
      refuse("cli.checkpoint", fmt::format("{} has no checkpoint", folder_),
             {"A folder of `orrery run PLAN --checkpoint DIR` holds folders such as 0001-step-6."});
    }
    return to_ ? reshard_newest() : list();
  }

 private:
  int list() {
    ordered_json json;
    json["folder"] = folder_;
    json["checkpoints"] = ordered_json::array();
    std::string text;
    bool all_whole = true;
    for (const std::string& name : generations(*files_, folder_)) {
      text += text.empty() ? "" : "\n";
      try {
        Checkpoint c = open_checkpoint(*files_, folder_, name);
        json["checkpoints"].push_back(describe(c));
        text += describe_text(c);
      } catch (const Damaged& damage) {
        all_whole = false;
        json["checkpoints"].push_back({{"name", name}, {"whole", false}, {"damage", damage.what()}});
        text += fmt::format("{}: damaged\n  {}\n", escaped(name), escaped(damage.what()));
      }
    }
    flags_.json ? print_json(json) : print(text);
    return all_whole ? status_fine : status_no;
  }

  static std::uint64_t bytes_in(const Checkpoint& c) {
    std::uint64_t bytes = 0;
    for (const RankFileEntry& r : c.manifest.ranks) bytes += r.bytes;
    return bytes;
  }

  static ordered_json describe(Checkpoint& c) {
    const ModelSpec model = model_of(c.manifest);
    const Workload workload = workload_of(c.manifest);
    ordered_json out;
    out["name"] = c.name;
    out["whole"] = true;
    out["step"] = c.manifest.step;
    if (const auto updates = scalar_of(c, "steps")) out["updates"] = *updates;
    if (const auto scale = scalar_of(c, "loss_scale")) out["loss_scale"] = *scale;
    out["ranks"] = c.manifest.ranks.size();
    out["bytes"] = bytes_in(c);
    out["model"] = model.name;
    out["precision"] = name_of(workload.precision);
    out["optimizer"] = name_of(workload.optimizer.kind);
    out["seed"] = workload.seed;
    for (const auto& [what, s] : states_of(c)) {
      out["states"].push_back({{"what", what},
                               {"dtype", name_of(s.dtype)},
                               {"tensors", s.tensors},
                               {"elements", s.elements},
                               {"bytes", s.bytes}});
    }
    out["plan"] = c.manifest.plan;
    return out;
  }

  static std::string describe_text(Checkpoint& c) {
    const ModelSpec model = model_of(c.manifest);
    const Workload workload = workload_of(c.manifest);
    std::string out =
        fmt::format("{}: whole, {} in {}\n", escaped(c.name), short_text(Bytes::of(static_cast<double>(bytes_in(c)))),
                    counted(c.manifest.ranks.size(), "rank file"));
    out += fmt::format("  after step {}", c.manifest.step);
    if (const auto updates = scalar_of(c, "steps"); updates && *updates != static_cast<double>(c.manifest.step)) {
      out += fmt::format(" ({} of them skipped)", static_cast<double>(c.manifest.step) - *updates);
    }
    if (const auto scale = scalar_of(c, "loss_scale")) out += fmt::format(", loss scale {}", *scale);
    out += fmt::format("\n  {}, {} in {}, saved by {}\n", escaped(model.name), name_of(workload.optimizer.kind),
                       name_of(workload.precision), escaped(mesh_of(c.manifest.plan)));
    Table table({"state", "type", "tensors", "elements", "size"});
    for (const auto& [what, s] : states_of(c)) {
      table.row({what, std::string(name_of(s.dtype)), fmt::to_string(s.tensors), fmt::to_string(s.elements),
                 short_text(Bytes::of(static_cast<double>(s.bytes)))});
    }
    return out + table.str("  ");
  }

  int reshard_newest() {
    const LoadedPlan loaded = load_plan(*to_, flags_, "local-cpu", ClusterUse::fall_back);
    NewestWhole found = newest_whole(*files_, folder_);
    for (const std::string& damage : found.damaged) say("warning: " + damage + "\n");
    if (!found.checkpoint) throw Error(fmt::format("no checkpoint in {} is whole", folder_));
    Checkpoint& from = *found.checkpoint;
    Diagnostics d;
    check_resume(from.manifest, loaded.run, (from.folder / manifest_name).string(), d);
    require_none(d);
    if (!generations(*files_, *output_).empty()) {
      refuse("cli.checkpoint", fmt::format("{} has checkpoints already", *output_), {"Name a new folder with -o."});
    }
    const SavedCheckpoint saved =
        reshard(from, *files_, *output_, loaded.program, manifest_of(loaded.run, from.manifest.step));
    if (flags_.json) {
      print_json({{"from", from.name},
                  {"folder", *output_},
                  {"name", saved.name},
                  {"step", saved.step},
                  {"ranks", loaded.program.mesh.size()},
                  {"bytes", saved.bytes}});
    } else {
      print(fmt::format("{} for {} in {}, after step {}\n", short_text(Bytes::of(static_cast<double>(saved.bytes))),
                        counted(loaded.program.mesh.size(), "rank"),
                        escaped((std::filesystem::path(*output_) / saved.name).string()), saved.step));
    }
    return status_fine;
  }

  CommonFlags flags_;
  std::string folder_;
  std::optional<std::string> to_, output_;
  std::unique_ptr<FileSystem> files_ = system_files();
};

}  // namespace

std::unique_ptr<Verb> checkpoint_verb() { return std::make_unique<CheckpointVerb>(); }

}  // namespace orrery
