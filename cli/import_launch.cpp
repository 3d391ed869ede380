#include "cli/import_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/plan_source.hpp"
#include "cli/status.hpp"
#include "cli/wrapping.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

/// "best.toml" -> "best.model.toml".
std::filesystem::path model_beside(const std::filesystem::path& plan) {
  return plan.parent_path() / (plan.stem().string() + ".model.toml");
}

/// Each line of a text as a comment of TOML.
std::string commented(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find('\n', i), text.size());
    out += end == i ? "#\n" : "# " + text.substr(i, end - i) + "\n";
    i = end + 1;
  }
  return out;
}

}  // namespace

int import_launch(const LaunchImport& asked, const CommonFlags& flags) {
  LaunchedRun launched = read_launch_file(asked.file, asked.format, flags, asked.cluster);
  PlannedRun& run = launched.run;
  if (run.plan.name.empty()) run.plan.name = std::filesystem::path(asked.file).stem().string();
  std::optional<std::filesystem::path> model_file;
  if (launched.own_model) {
    model_file = model_beside(flags.output && !prints_output(flags) ? std::filesystem::path(*flags.output)
                                                                    : std::filesystem::path(run.plan.name + ".toml"));
    run.model_reference = model_file->filename().string();
  }
  const bool refused = launched.has(LaunchNote::Kind::not_expressible) && !flags.nearest;
  const std::string plan = write_plan(run);
  if (!refused) {
    if (flags.output && !prints_output(flags) && model_file) write_file(*model_file, write_model(run.model));
    write_output(flags, plan);
  }
  const int status = refused ? status_no : status_fine;
  const std::string refusal = "No plan is written. --nearest takes the nearest plan.\n";
  if (prints_output(flags)) {
    // Standard output holds a plan or nothing.
    if (refused) say(notes_text(launched, asked.verbose) + refusal);
    return status;
  }
  if (flags.json) {
    nlohmann::ordered_json json{{"framework", launched.framework}, {"format", launched.format}};
    json.update(notes_json(launched));
    json["plan_file"] = plan;
    if (launched.own_model) json["model_file"] = write_model(run.model);
    json["written"] = flags.output.has_value() && !refused;
    print_json(json);
    return status;
  }
  std::string said =
      fmt::format("{}: {}\n", escaped(asked.file), launched.format) + notes_text(launched, asked.verbose);
  if (refused) {
    said += refusal;
  } else if (flags.output) {
    said += fmt::format("wrote {}", escaped(*flags.output));
    if (model_file) said += fmt::format(" and its model, {}", escaped(model_file->string()));
    said += "\n";
    if (!asked.cluster) {
      said += fmt::format("Next: orrery estimate {} --cluster NAME (orrery show cluster)\n", escaped(*flags.output));
    }
  }
  if (flags.output || refused) {
    print_wrapped(said);
    return status;
  }
  // The plan is what a pipe takes; the lists are for the person.
  std::string out = commented(wrapped(said, output_columns() - 2)) + "\n" + plan;
  if (model_file) {
    out += "\n" +
           commented(wrapped(fmt::format("The file describes its own model. -o FILE writes it beside the plan; "
                                         "here it would be {}:\n",
                                         model_file->string()),
                             output_columns() - 2)) +
           "#\n" + commented(write_model(run.model));
  }
  print(out);
  return status;
}

}  // namespace orrery
