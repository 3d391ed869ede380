#include "cli/plan_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/file_kind.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_words.hpp"

namespace orrery {
namespace {

using Kind = LaunchNote::Kind;

struct NoteTitle {
  Kind kind;
  const char* json;
  const char* title;
};
constexpr NoteTitle note_titles[] = {
    {Kind::taken, "taken", "taken"},
    {Kind::assumed, "assumed", "assumed, because the file does not say it"},
    {Kind::without_effect, "without_effect", "without effect on step time and memory"},
    {Kind::not_expressible, "not_expressible", "not expressible in a plan"},
};

/// A key as a person sees it in the file: what the launcher is told has no key of that name there.
std::string key_of(const LaunchNote& n) {
  constexpr std::string_view launcher = "launcher.";
  return n.key.starts_with(launcher) ? fmt::format("the launcher's {}", n.key.substr(launcher.size())) : n.key;
}

std::string line_of(const LaunchNote& n) {
  if (n.position.line == 0) {
    return fmt::format("  {} = {}{}\n", n.key, escaped(n.value), n.says.empty() ? "" : "  (" + escaped(n.says) + ")");
  }
  std::string out = fmt::format("  line {}: {}", n.position.line, escaped(key_of(n)));
  const bool bare = n.value == "true" && n.key.starts_with("--");  // a flag without a value
  if (!n.value.empty() && !bare) out += " " + escaped(n.value);
  return out + (n.says.empty() ? "" : ": " + escaped(n.says)) + "\n";
}

/// Whether the name of a file ends as only launch files' names do, among what stands for a plan.
bool is_named_as_launch(const std::filesystem::path& file) {
  constexpr std::string_view endings[] = {".yaml", ".yml", ".json", ".py", ".sh", ".bash", ".slurm", ".sbatch"};
  return std::find(std::begin(endings), std::end(endings), file.extension().string()) != std::end(endings);
}

/// Gives a plan in one line the batch and the length that it does not say, and says so on standard error.
void assume_workload(PlannedRun& run) {
  const auto ranks = [&](Axis axis) { return std::uint64_t{run.plan.mesh.size(axis)}; };
  const std::uint64_t stages = ranks(Axis::pipeline);
  constexpr std::uint64_t usual_sequence = 4096;
  std::string assumed;
  if (run.workload.global_batch == 0) {
    // Four microbatches for each stage keep a pipeline four fifths busy.
    run.workload.global_batch = ranks(Axis::data) * ranks(Axis::replica) * ranks(Axis::expert) *
                                run.plan.microbatch_size * (stages > 1 ? 4 * stages : 1);
    assumed += fmt::format(" gbs={}", run.workload.global_batch);
  }
  if (run.workload.sequence_length == 0) {
    const std::uint64_t positions = run.model.max_positions;
    run.workload.sequence_length = positions > 0 ? std::min(usual_sequence, positions) : usual_sequence;
    assumed += fmt::format(" seq={}", run.workload.sequence_length);
  }
  if (!assumed.empty()) say(fmt::format("assumed:{}\n", assumed));
}

/// A plan in one line, on a model and a cluster that flags name.
PlannedRun plan_of_words(const std::string& words, const CommonFlags& flags,
                         const std::optional<std::string>& cluster) {
  if (!flags.model || !cluster) {
    refuse("plan.words", "a plan in one line needs --model and --cluster",
           {"orrery compare PLAN \"tp=8 dp=2\" changes a plan that has them."});
  }
  const Library library = library_of(flags);
  Diagnostics d;
  PlannedRun run;
  std::optional<ModelSpec> model = named_model(library, *flags.model, d);
  run.cluster_reference = with_nic(*cluster, flags);
  run.cluster = named_cluster(library, run.cluster_reference, flags.gpus, d);
  require_none(d);
  run.model = std::move(*model);
  run.model_reference = library.portable_model(*flags.model, "");
  set_size(run.plan.mesh, Axis::data, static_cast<std::uint32_t>(run.cluster->devices()));
  run.plan.name = words;
  static_cast<void>(put_words(run, words, d));
  require_none(d);
  assume_workload(run);
  return run;
}

}  // namespace

LaunchInputs launch_inputs(const CommonFlags& flags, const std::optional<std::string>& cluster) {
  LaunchInputs out;
  out.model = flags.model;
  if (cluster) out.cluster = with_nic(*cluster, flags);
  if (cluster && is_path(*cluster)) require_kind(*cluster, {FileKind::cluster});
  if (flags.model && is_path(*flags.model)) require_kind(*flags.model, {FileKind::model, FileKind::hf_config});
  out.gpus = flags.gpus;
  for (const std::string& setting : flags.set) {
    const std::size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) {
      refuse("launch.set", fmt::format("--set {} has no value", setting),
             {"It takes NAME=VALUE: --set sequence=4096."});
    }
    out.set[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return out;
}

LaunchedRun read_launch_file(const std::string& file, const std::string& format, const CommonFlags& flags,
                             const std::optional<std::string>& cluster) {
  Diagnostics d;
  const std::optional<std::string> text = read_text(file, d);
  require_none(d);
  std::optional<LaunchedRun> out =
      read_launch(*text, file, format, launch_inputs(flags, cluster), library_of(flags), d);
  require_none(d);
  if (out->own_model) out->run.model.name = std::filesystem::path(file).stem().string();
  // The plan is for the program that launches it, so that its costs are priced, where the program's writer knows all
  // that the file says.
  if (const Framework* own = framework_named(out->framework); own != nullptr && !own->abilities.empty()) {
    out->run.framework = out->framework;
    Diagnostics beyond;
    check_framework(out->run, beyond);
    if (!beyond.empty()) out->run.framework.clear();
  }
  return std::move(*out);
}

void refuse_broken_launch(const std::string& text, const std::string& file) {
  if (std::filesystem::path(file).extension() != ".toml" && !is_named_as_launch(file)) return;
  Diagnostics d;
  static_cast<void>(read_launch(text, file, "auto", {}, Library({}), d));
  for (const Diagnostic& m : d.list()) {
    if (m.code == "launch.kind") return;  // it can be parsed, and is something else
  }
  require_none(d);
}

std::string notes_text(const LaunchedRun& launched, bool with_effectless) {
  std::string out;
  for (const NoteTitle& title : note_titles) {
    std::string lines;
    std::size_t count = 0;
    for (const LaunchNote& n : launched.notes) {
      if (n.kind != title.kind || (n.kind == Kind::assumed && n.says.empty())) continue;
      lines += line_of(n);
      ++count;
    }
    if (count == 0) continue;
    const bool brief = title.kind == Kind::without_effect && !with_effectless;
    out += fmt::format("{}{}\n", title.title,
                       brief ? fmt::format(": {} (--verbose lists them)", counted(count, "key")) : ":");
    if (!brief) out += lines;
  }
  return out;
}

nlohmann::ordered_json notes_json(const LaunchedRun& launched) {
  nlohmann::ordered_json json;
  for (const NoteTitle& title : note_titles) {
    json[title.json] = nlohmann::ordered_json::array();
    for (const LaunchNote& n : launched.notes) {
      if (n.kind != title.kind) continue;
      nlohmann::ordered_json entry{{"key", n.key}, {"value", n.value}, {"says", n.says}};
      entry["line"] = n.position.line > 0 ? nlohmann::ordered_json(n.position.line) : nlohmann::ordered_json(nullptr);
      json[title.json].push_back(std::move(entry));
    }
  }
  return json;
}

PlannedRun read_plan_source(const std::string& reference, const CommonFlags& flags,
                            const std::optional<std::string>& cluster) {
  const Library library = library_of(flags);
  const std::filesystem::path path = plan_path(reference, library);
  std::error_code failure;
  if (!std::filesystem::exists(path, failure) && is_plan_words(reference)) {
    return plan_of_words(reference, flags, cluster);
  }
  Diagnostics d;
  const std::optional<std::string> text = read_text(path, d);
  require_none(d);
  Diagnostics ignored;
  const FileKind kind = kind_of(*text, path.string(), ignored);
  if (kind == FileKind::unknown && is_named_as_launch(path)) {
    static_cast<void>(read_launch(*text, path.string(), "auto", {}, library, d));
    require_none(d);
  }
  if (kind == FileKind::launch) {
    LaunchedRun launched = read_launch_file(path.string(), "auto", flags, cluster);
    if (launched.has(Kind::not_expressible) && !flags.nearest) {
      std::vector<std::string> details;
      for (const LaunchNote& n : launched.notes) {
        if (n.kind != Kind::not_expressible) continue;
        details.push_back(fmt::format("Line {}: {}: {}.", n.position.line, n.key, n.says));
      }
      details.emplace_back("--nearest takes the nearest plan.");
      refuse("launch.not-expressible", fmt::format("a plan cannot say all of {}", path.string()), std::move(details));
    }
    if (launched.run.plan.name.empty()) launched.run.plan.name = path.stem().string();
    if (launched.own_model) launched.run.model_reference = path.stem().string() + ".model.toml";
    return std::move(launched.run);
  }
  if (flags.model || !flags.set.empty()) {
    refuse("cli.flags", "--model and --set go only with a launch file or a plan in one line",
           {fmt::format("{} is a plan file, which names its model.", path.string())});
  }
  std::optional<PlannedRun> run = read_plan(*text, path.string(), library, flags.gpus, d);
  require_none(d);
  return std::move(*run);
}

PlannedRun changed_run(const PlannedRun& base, const std::string& words) {
  PlannedRun run = base;
  run.plan.name = words;
  Diagnostics d;
  static_cast<void>(put_words(run, words, d));
  require_none(d);
  return run;
}

CommonFlags for_framework(CommonFlags flags, const std::string& name) {
  const Framework* framework = framework_named(name);
  if (flags.software == "auto" && framework != nullptr) flags.usual_software = framework->software;
  return flags;
}

}  // namespace orrery
