#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/file_kind.hpp"
#include "cli/plan_source.hpp"
#include "cli/sbatch.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "framework/framework.hpp"

namespace orrery {
namespace {

class ExportVerb final : public Verb {
 public:
  const char* name() const override { return "export"; }
  const char* summary() const override { return "write a plan as another training program's launch"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, the name of an example plan, or a launch file of another program");
    std::vector<std::string> targets;
    for (const LaunchWriting& w : launch_writings()) targets.emplace_back(w.name);
    targets.emplace_back(sbatch.name);
    c.choice("--to", target_, targets,
             "the program that is to launch it, or sbatch: a Slurm batch file that runs this plan file; default: the "
             "program that the plan is for");
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the launch here; default: print it");
    c.option("--slurm", slurm_, "also write a Slurm batch file here that starts the launch of -o on each node");
    c.examples(
        "  orrery export best.toml --to megatron -o train.sh\n"
        "  orrery export best.toml --to deepspeed -o ds_config.json\n"
        "  orrery export best.toml --to torchtitan -o run.toml --slurm job.sh\n"
        "  orrery export train.sh --to torchtitan\n"
        "  orrery export best.toml --to sbatch -o job.sh  # the job runs best.toml");
  }

  int run() override {
    keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output, slurm_});
    require_output(flags_);
    if (slurm_) require_slurm();
    const LoadedPlan loaded = load_plan(plan_, flags_, cluster_, ClusterUse::replace);
    const LaunchWriting writing = target(loaded.run);
    Diagnostics d;
    const std::optional<std::string> text =
        writing.write == nullptr ? sbatch_text(loaded.run, plan_file()) : writing.write(loaded.run, d);
    require_none(d);
    write_output(flags_, *text);
    if (slurm_) {
      write_file(*slurm_, slurm_job_text(loaded.run, writing, std::filesystem::absolute(*flags_.output)));
    }
    if (prints_output(flags_)) return status_fine;
    if (flags_.json) {
      print_json({{"to", writing.name}, {"title", writing.title}, {"text", *text}});
    } else if (flags_.output) {
      print(fmt::format("wrote {}: {}\n", *flags_.output, writing.title));
      if (slurm_) print(fmt::format("wrote {}: a Slurm batch file that starts it\n", *slurm_));
    } else {
      print(*text);
    }
    return status_fine;
  }

 private:
  /// Orrery's own launch is the plan file; a batch file runs that.
  static constexpr LaunchWriting sbatch{"sbatch", "a Slurm batch file for orrery run"};

  void require_slurm() const {
    if (target_ == sbatch.name) {
      refuse("export.slurm", "--to sbatch writes a Slurm batch file already", {"Leave out --slurm."});
    }
    if (!flags_.output || prints_output(flags_)) {
      refuse("export.slurm", "a batch file starts a launch file, and there is none", {"Write it with -o FILE."});
    }
    require_folder(*slurm_);
  }

  /// Where it is. Refuses what is no plan file, for orrery run in the job reads one.
  [[nodiscard]] std::filesystem::path plan_file() const {
    const std::filesystem::path path = plan_path(plan_, library_of(flags_));
    std::string_view is;
    if (!std::filesystem::exists(path)) {
      is = "a plan in one line";
    } else {
      Diagnostics d;
      const std::optional<std::string> text = read_text(path, d);
      require_none(d);
      if (kind_of(*text, path.string(), d) == FileKind::launch) is = "a launch file";
    }
    if (!is.empty()) {
      refuse("export.plan-file", fmt::format("a batch file runs a plan file, and {} is {}", escaped(plan_), is),
             {"orrery import FILE -o plan.toml makes a plan file of a launch file; orrery plan makes one of a model."});
    }
    return std::filesystem::absolute(path);
  }

  [[nodiscard]] LaunchWriting target(const PlannedRun& run) const {
    if (target_ == sbatch.name) return sbatch;
    std::vector<std::string_view> names;
    for (const LaunchWriting& w : launch_writings()) {
      if (w.name == target_) return w;
      names.push_back(w.name);
    }
    names.push_back(sbatch.name);
    if (const Framework* own = framework_named(run.framework); target_.empty() && own != nullptr) {
      if (!own->writings.empty()) return own->writings.front();
    }
    refuse("cli.export",
           target_.empty() ? "the plan does not say which program launches it"
                           : fmt::format("there is no export to \"{}\"", target_),
           {fmt::format("Name one with --to: {}.", fmt::join(names, ", "))});
  }

  CommonFlags flags_;
  std::string plan_, target_;
  std::optional<std::string> cluster_, slurm_;
};

}  // namespace

std::unique_ptr<Verb> export_verb() { return std::make_unique<ExportVerb>(); }

}  // namespace orrery
