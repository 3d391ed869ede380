#include "core/plan/plan_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/dimension.hpp"
#include "core/plan/plan_check.hpp"
#include "core/spec/data_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr auto size_limit = static_cast<std::uint32_t>(plan_size_limit);

}  // namespace

std::optional<PlannedRun> read_unchecked_plan(std::string text, const std::string& file, const Library& library,
                                              std::optional<std::uint32_t> gpus, const ModelSpec* own_model,
                                              Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<TomlTable> root = parse_toml(std::move(text), file, diagnostics);
  if (!root || !read_schema(*root, "plan", plan_schema)) return std::nullopt;

  PlannedRun run;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  root->read("name", run.plan.name, Need::optional);
  root->read("for", run.framework, Need::optional, 64);
  std::optional<ModelSpec> model;
  if (own_model != nullptr) model = *own_model;
  if (root->read("model", run.model_reference, model ? Need::optional : Need::required) && !model) {
    Diagnostics found;
    model = library.model(run.model_reference, folder, found);
    root->add_from("model", found);
  }
  std::uint32_t devices = 0;
  if (root->read("gpus", devices, {1, size_limit}, Need::optional) && !gpus) gpus = devices;
  if (root->read("cluster", run.cluster_reference, Need::optional)) {
    Diagnostics found;
    run.cluster = library.cluster(run.cluster_reference, folder, gpus, found);
    const bool size = !found.empty() && found.list().front().code == "cluster.gpus" && root->has("gpus");
    root->add_from(size ? "gpus" : "cluster", found);
  } else if (root->has("gpus")) {
    root->error("gpus", "plan.gpus", "gpus is given without a cluster", {"Add cluster = NAME, or remove gpus."});
  }
  std::optional<Workload> workload;
  if (std::optional<TomlTable> table = root->table("workload")) workload = read_workload(*table);
  if (std::optional<TomlTable> table = root->table("mesh", Need::optional)) {
    read_dimensions(*table, "mesh", folder, run);
    table->finish();
  }
  if (std::optional<TomlTable> table = root->table("plan", Need::optional)) {
    read_dimensions(*table, "plan", folder, run);
    table->finish();
  }
  root->finish();
  run.plan.origin = root->origin();
  // Later checks look for full keys.
  auto& positions = run.plan.origin.positions;
  for (const Dimension& d : dimensions()) {
    for (const std::string_view alias : d.aliases) {
      const auto at = positions.find(fmt::format("{}.{}", d.table(), alias));
      if (at != positions.end()) positions.try_emplace(std::string(d.key), at->second);
    }
  }
  if (diagnostics.size() != before || !model || !workload) return std::nullopt;

  run.model = *std::move(model);
  run.workload = *std::move(workload);
  return run;
}

std::optional<PlannedRun> read_plan(std::string text, const std::string& file, const Library& library,
                                    std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<PlannedRun> read = read_unchecked_plan(std::move(text), file, library, gpus, nullptr, diagnostics);
  if (!read) return std::nullopt;
  const PlannedRun& run = *read;
  static_cast<void>(check_data_tokens(run.workload, run.model, diagnostics));  // the mistake is in diagnostics
  check(run.plan, run.model, run.workload, run.cluster ? &*run.cluster : nullptr, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  return read;
}

std::optional<PlannedRun> read_plan_file(const std::filesystem::path& file, const Library& library,
                                         std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return read_plan(*std::move(text), file.string(), library, gpus, diagnostics);
}

std::string write_plan(const PlannedRun& run) {
  TomlWriter out;
  out.whole("schema", plan_schema);
  if (!run.plan.name.empty()) out.text("name", run.plan.name);
  if (!run.framework.empty()) out.text("for", run.framework);
  out.text("model", run.model_reference);
  if (!run.cluster_reference.empty()) out.text("cluster", run.cluster_reference);
  if (run.cluster && !run.cluster_reference.empty()) out.whole("gpus", run.cluster->devices());
  write_workload(out, run.workload);

  write_dimensions(out.table("mesh"), "mesh", run);
  write_dimensions(out.table("plan"), "plan", run);
  return out.str();
}

std::vector<Decision> decisions(const Plan& plan) {
  PlannedRun run;
  run.plan = plan;
  const std::string text = write_plan(run);
  std::vector<Decision> list;
  std::string table;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.starts_with('[')) table = line.substr(1, line.size() - 2);
    const std::size_t sign = line.find(" = ");
    if (sign == std::string_view::npos || (table != "mesh" && table != "plan")) continue;
    list.push_back({table + "." + std::string(line.substr(0, sign)), std::string(line.substr(sign + 3))});
  }
  return list;
}

}  // namespace orrery
