#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"
#include "planner/complete.hpp"
#include "planner/neighbours.hpp"
#include "planner/resolve.hpp"
#include "planner/search.hpp"
#include "tests/property/planner/launch_cells.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/shipped_model.hpp"

// A plan that is searched for a framework is launched by it: its writer never refuses one.

using namespace orrery;

namespace {

std::vector<const Framework*> writers() {
  std::vector<const Framework*> out;
  for (const Framework& f : frameworks()) {
    if (!f.writings.empty()) out.push_back(&f);
  }
  return out;
}

const char* file_name(LaunchSyntax syntax) {
  switch (syntax) {
    case LaunchSyntax::yaml: return "run.yaml";
    case LaunchSyntax::toml: return "run.toml";
    case LaunchSyntax::flags: return "run.sh";
    case LaunchSyntax::python: break;
  }
  return "run.py";
}

/// A model in a file of its own, as long as this lives.
class ModelFile {
 public:
  explicit ModelFile(const ModelSpec& m)
      : path_(std::filesystem::temp_directory_path() / fmt::format("orrery-launches-{}.toml", getpid())) {
    std::ofstream(path_) << write_model(m);
  }
  ~ModelFile() { std::filesystem::remove(path_); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Plans of one cell for one framework.
class Launches {
 public:
  Launches(const test::LaunchCell& cell, const Framework& framework)
      : cell_(cell),
        framework_(framework),
        limits_(abilities_of(framework, cell.model, cell.workload)),
        model_file_(cell.model) {}

  /// Whether the framework trains the model at all. Where it does not, its writer says so of every plan.
  [[nodiscard]] bool is_trained() const {
    if (framework_.check_model == nullptr) return true;
    Diagnostics d;
    framework_.check_model(cell_.model, cell_.workload, d);
    if (d.empty()) return true;
    Plan one;
    complete(one, cell_.model, cell_.workload);
    Diagnostics refused;
    CHECK_FALSE(framework_.writings.front().write(run(one), refused));
    CHECK(refused.size() >= d.size());
    return false;
  }

  [[nodiscard]] SearchResult found() const {
    SearchOptions options;
    options.limits = limits_;
    options.top = 4;
    options.simulate = false;
    options.judge_memory = cell_.judge_memory;
    return search(cell_.model, cell_.workload, cell_.cluster, cell_.calibration, options);
  }

  [[nodiscard]] PlannedRun run(const Plan& plan) const {
    PlannedRun out{
        cell_.model, cell_.workload, cell_.cluster, plan, cell_.model.name, "", std::string(framework_.name)};
    return out;
  }

  /// The plan as the framework's launch; a refusal is a failure.
  std::string written(const Plan& plan, const char* from) {
    ++count;
    Diagnostics d;
    const PlannedRun r = run(plan);
    const auto text = framework_.writings.front().write(r, d);
    if (!text) {
      std::string says;
      for (const Diagnostic& x : d.list()) says += x.code + ": " + x.message + "\n";
      FAIL_CHECK(fmt::format("{} refuses, {}: {}\n{}{}", framework_.name, cell_.text, from, says, write_plan(r)));
    }
    return text.value_or("");
  }

  /// Reads a launch that was written, with the model where the launch does not say it: the plan, in the keys that the
  /// framework has.
  void read_back(const Plan& plan, const std::string& text) {
    if (text.empty()) return;
    const LaunchFormat& format = framework_.formats.front();
    const bool own_model =
        framework_.name == "megatron-core" || framework_.name == "nanotron" || framework_.name == "torchtitan";
    LaunchInputs options;
    options.gpus = static_cast<std::uint32_t>(plan.mesh.size());
    if (!own_model) {
      options.model = model_file_.path();
      options.set["sequence"] = std::to_string(cell_.workload.sequence_length);
    }
    if (framework_.name == "accelerate" || framework_.name == "colossal-ai") {
      options.set["batch"] = std::to_string(cell_.workload.global_batch);
      if (framework_.name == "accelerate") options.set["mbs"] = std::to_string(plan.microbatch_size);
    }
    Diagnostics d;
    const auto back = read_launch(text, file_name(format.syntax), format.name, options, test::shipped_library(), d);
    if (!back) {
      FAIL_CHECK(
          fmt::format("{} does not read what it wrote, {}:\n{}\n{}", framework_.name, cell_.text, render(d), text));
      return;
    }
    for (const LaunchNote& n : back->notes) {
      if (n.kind == LaunchNote::Kind::not_expressible) FAIL_CHECK(cell_.text + ": " + n.key + ": " + n.says);
    }
    const auto said = [](const Plan& p) {
      std::map<std::string, std::string> out;
      for (const Decision& x : decisions(p)) out[x.key] = x.value;
      return out;
    };
    auto want = said(held(plan)), got = said(held(back->run.plan));
    for (const auto& [key, value] : want) {
      if (got[key] == value) continue;
      FAIL_CHECK(fmt::format("{} is {}, not {} = {}, {}: {}\n{}", key, got[key], key, value, framework_.name,
                             cell_.text, text));
    }
  }

  /// The plan without what launches of the framework do not hold.
  [[nodiscard]] Plan held(Plan plan) const {
    std::erase_if(plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
    if (plan.mesh.size(Axis::pipeline) == 1) plan.stage_layers.reset();
    if (framework_.name == "accelerate" || framework_.name == "deepspeed") plan.attention.reset();  // of the script
    if (framework_.name == "colossal-ai" && plan.attention == AttentionKernel::unfused) plan.attention.reset();
    if (shard_axes_of(plan).empty()) {  // a stage of ZeRO without ranks that share
      plan.zero_stage = 0;
      plan.reshard_after_forward = Plan().reshard_after_forward;
      plan.prefetch = Plan().prefetch;
    }
    const bool sums = size(plan.mesh, batch_axes) * plan.mesh.size(Axis::context) > 1;
    if (!sums || framework_.name == "torchtitan") plan.overlap_gradients.reset();
    // Others round buckets to MiB, or have none.
    const bool megatron = framework_.name == "megatron-core" && plan.overlap_gradients == true && plan.zero_stage < 2;
    if (!sums || (!megatron && framework_.name != "deepspeed")) plan.gradient_bucket.reset();
    return plan;
  }

  /// Plans one change away from a found one, of what the search may decide.
  void write_neighbours(const Plan& plan) {
    for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
      for (const Neighbour& n : neighbours(run(plan), reach, limits_)) {
        PlannedRun r = run(n.plan);
        if (limits_.close != nullptr) limits_.close(r);
        complete(r.plan, r.model, r.workload);
        Diagnostics wrong;
        check(r.plan, r.model, r.workload, &*r.cluster, wrong);
        if (wrong.empty() && limits_.allow(r)) static_cast<void>(written(r.plan, n.dimension.c_str()));
      }
    }
  }

  /// The plan with all that a file may leave open, for this framework.
  void write_resolved(const Plan& plan) {
    PlannedRun r = run(plan);
    r.plan.stage_layers.reset();
    if (r.plan.recompute_layers) return;  // counts are of stages
    r.plan.gradient_bucket.reset();
    r.plan.overlap_gradients.reset();
    r.plan.attention.reset();
    r.plan.parameter_chunk.reset();
    if (cell_.cluster.host_link) r.plan.offload_states.reset();
    Diagnostics wrong;
    check_framework(r, wrong);
    INFO(render(wrong));
    CHECK(wrong.empty());
    close_for_framework(r);
    check(r.plan, r.model, r.workload, &*r.cluster, wrong);
    if (!wrong.empty()) return;  // offloads that this plan cannot leave open
    const Plan closed = resolve(r.plan, r.model, r.workload, *r.cluster, cell_.calibration).plan;
    check_framework(run(closed), wrong);
    INFO(render(wrong));
    CHECK(wrong.empty());
    static_cast<void>(written(closed, "resolved"));
  }

  std::uint64_t count = 0;

 private:
  const test::LaunchCell& cell_;
  const Framework& framework_;
  SearchLimits limits_;
  ModelFile model_file_;
};

}  // namespace

TEST_CASE("No plan that is found for a framework is refused by its writer", "[property][launches]") {
  const std::uint64_t cells = test::long_tests() ? 300 : 16;
  std::uint64_t plans = 0, with_plans = 0;
  std::map<std::string, std::uint64_t> by_framework;
  const auto all = writers();
  for (std::uint64_t seed = 1; seed <= cells; ++seed) {
    const test::LaunchCell cell = test::launch_cell(seed);
    Diagnostics impossible;
    if (!check_sizes(cell.model, cell.workload, impossible) || !check_priced(cell.model, impossible)) continue;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Launches launches(cell, *all[i]);
      INFO(cell.text);
      INFO(all[i]->name);
      if (!launches.is_trained()) continue;
      const SearchResult found = launches.found();
      with_plans += found.plans.empty() ? 0 : 1;
      for (const FoundPlan& f : found.plans) launches.read_back(f.plan, launches.written(f.plan, "found"));
      if (!found.plans.empty()) {
        launches.write_neighbours(found.plans.front().plan);
        launches.write_resolved(found.plans.front().plan);
      }
      plans += launches.count;
      by_framework[std::string(all[i]->name)] += launches.count;
    }
  }
  std::string counts;
  for (const auto& [name, n] : by_framework) counts += fmt::format("{} {}, ", name, n);
  UNSCOPED_INFO(fmt::format("{} cells, {} searches with plans, {} plans: {}", cells, with_plans, plans, counts));
  CHECK(plans > (test::long_tests() ? 15'000U : 500U));
}
