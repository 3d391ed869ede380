#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/compare_plans.hpp"
#include "cli/file_kind.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/plan/plan_words.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/compare.hpp"
#include "core/record/compare_profile.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/spec_files.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

class CompareVerb final : public Verb {
 public:
  const char* name() const override { return "compare"; }
  const char* summary() const override { return "set a prediction beside a measurement, or two plans side by side"; }

  void declare(Command& c) override {
    c.positional("A", a_, "a trace or report, predicted or measured, or a plan");
    c.positional("B", others_,
                 "another trace or report of the same plan; other plans, or changes of A in one line (\"tp=8 dp=2\"); "
                 "or what PyTorch's profiler recorded of the plan: a file, or a folder with a file of each rank");
    c.option("--cluster", cluster_, "plans: the cluster in place of theirs: a name, a .toml file, or as h200:8x4");
    c.option("--plan", plan_, "traces: the plan of both, to split the error over kinds of operations");
    c.option("--tolerance", tolerance_.step_time, "step time: allowed relative error");
    c.option("--memory-tolerance", tolerance_.memory, "peak memory: allowed relative error");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the comparison here, as JSON");
    c.examples(
        "  orrery compare predicted-report.json measured-report.json\n"
        "  orrery compare predicted.json measured.json --plan plan.toml\n"
        "  orrery compare best.toml other.toml\n"
        "  orrery compare best.toml \"tp=8 dp=2 mbs=2 recompute=full\" \"tp=4 dp=4\"\n"
        "  orrery compare train.sh best.toml --cluster dgx-h100\n"
        "  orrery compare best.toml profiles/\n"
        "Status 1: outside the tolerance.");
  }

  int run() override {
    if (!(tolerance_.step_time >= 0.0) || !(tolerance_.memory >= 0.0)) {
      refuse("cli.tolerance", "a tolerance must be a number from 0");
    }
    b_ = others_.front();
    const auto [a, a_text] = is_change(a_) ? std::pair(FileKind::plan, std::string()) : look(a_);
    if (!is_plan(a) && cluster_) refuse("cli.flags", "--cluster goes only with plans");
    if (is_plan(a)) {
      const bool all = std::all_of(others_.begin(), others_.end(),
                                   [&](const std::string& o) { return is_change(o) || is_plan(look(o).first); });
      if (all) return plans();
    }
    if (others_.size() > 1) {
      refuse("cli.compare", "only plans are compared more than two at a time",
             {fmt::format("{} is {}.", a_, with_article(a))});
    }
    auto [b, b_text] = look(b_);
    if (b == FileKind::profile && (a == FileKind::plan || a == FileKind::trace)) {
      std::string().swap(b_text);  // files of profiles are long, and read one by one
      return profile(a, a_text);
    }
    if (a == FileKind::profile || b == FileKind::profile) {
      refuse("cli.compare", fmt::format("{} cannot be compared with {}", with_article(a), with_article(b)),
             {"A profile can only be B. A is then its plan or, with --plan, a trace that orrery simulate wrote."});
    }
    if (a != b) {
      refuse("cli.compare", fmt::format("{} cannot be compared with {}", with_article(a), with_article(b)),
             {"Two traces, two reports or two plans can be compared."});
    }
    if (a != FileKind::trace && a != FileKind::report) {
      refuse("cli.compare", fmt::format("{} is {}", a_, with_article(a)),
             {"Two traces, two reports or two plans can be compared."});
    }
    std::vector<std::string> notes;
    return tell(a, a == FileKind::trace ? traces(a_text, b_text, notes) : reports(a_text, b_text, notes), notes);
  }

 private:
  static bool is_plan(FileKind kind) { return kind == FileKind::plan || kind == FileKind::launch; }
  /// Whether a reference is a plan in one line rather than a file.
  static bool is_change(const std::string& reference) {
    std::error_code failure;
    return is_plan_words(reference) && !std::filesystem::exists(reference, failure);
  }

  int tell(FileKind kind, const Comparison& c, const std::vector<std::string>& notes) const {
    if (!c.same_plan) {
      std::vector<std::string> details;
      for (std::size_t i = 0; i < std::min<std::size_t>(c.mismatches.size(), 3); ++i) {
        details.push_back(fmt::format("{}.", escaped(c.mismatches[i])));
      }
      if (kind != FileKind::profile) details.emplace_back("orrery compare A.toml B.toml sets two plans side by side.");
      refuse("cli.compare",
             kind == FileKind::profile ? "the profile does not belong to the plan"
                                       : fmt::format("the two {}s do not belong to the same plan", name_of(kind)),
             std::move(details));
    }
    nlohmann::ordered_json json = to_json(c);
    json["notes"] = notes;
    write_output(flags_, json_text(json));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json(json);
    } else {
      std::string out;
      for (const std::string& n : notes) out += n + "\n\n";
      print(out + render(c));
    }
    return c.within_tolerance ? status_fine : status_no;
  }

  std::pair<FileKind, std::string> look(const std::string& reference) {
    std::error_code failure;
    if (std::filesystem::is_directory(reference, failure)) return {FileKind::profile, {}};
    const bool file = is_path(reference) || std::filesystem::exists(reference, failure);
    const std::string path = file ? reference : plan_path(reference, library_of(flags_)).string();
    Diagnostics d;
    std::optional<std::string> text = read_text(path, d, std::size_t{4} << 30);
    require_none(d);
    const FileKind kind = kind_of(*text, path, d);
    require_none(d);
    return {kind, std::move(*text)};
  }

  /// Puts the prediction first, and says so where it stood second or where there is not one of each.
  template <class T>
  static void order(T& a, T& b, std::vector<std::string>& notes) {
    const auto measured = [](const T& side) { return side.origin.starts_with("run"); };
    if (measured(a) && !measured(b)) {
      std::swap(a, b);
      notes.push_back(fmt::format("A is the measurement and B the prediction: the columns are {}, then {}.",
                                  escaped(a.origin), escaped(b.origin)));
    } else if (measured(a) == measured(b)) {
      notes.push_back(fmt::format("Both are {}: the error is A's ({}) against B ({}).",
                                  measured(a) ? "measurements" : "predictions", escaped(a.origin), escaped(b.origin)));
    }
  }

  Comparison reports(const std::string& a_text, const std::string& b_text, std::vector<std::string>& notes) const {
    Diagnostics d;
    std::optional<Report> a = read_report(a_text, a_, d);
    std::optional<Report> b = read_report(b_text, b_, d);
    require_none(d);
    order(*a, *b, notes);
    for (const std::string& assumption : (a->origin.starts_with("run") ? *a : *b).assumptions) {
      if (assumption.starts_with("this machine was busy"))
        notes.push_back("When measured, " + escaped(assumption) + ".");
    }
    return compare(*a, *b, tolerance_);
  }

  Comparison traces(const std::string& a_text, const std::string& b_text, std::vector<std::string>& notes) const {
    Ticker ticker("read");
    Diagnostics d;
    const auto told = [&](const char* which) {
      return [&ticker, which](std::uint64_t done, std::uint64_t total) { ticker.show(which, done, total); };
    };
    std::optional<Trace> a = read_chrome_trace(a_text, a_, d, told("read A"));
    std::optional<Trace> b = read_chrome_trace(b_text, b_, d, told("read B"));
    require_none(d);
    if (!plan_) {
      order(*a, *b, notes);
      return compare(*a, *b, nullptr, tolerance_);
    }
    const LoadedPlan loaded = load_plan(*plan_, flags_, "local-cpu", ClusterUse::fall_back);
    refuse_foreign(a_, *a, loaded.program);
    refuse_foreign(b_, *b, loaded.program);
    order(*a, *b, notes);
    return compare(*a, *b, &loaded.program, tolerance_);
  }

  /// Refuses a trace that cannot belong to the plan's Program, because it has other ranks or other lists of operations.
  void refuse_foreign(const std::string& file, const Trace& trace, const Program& program) const {
    for (const RankTrace& r : trace.ranks) {
      const std::uint32_t rank = index(r.rank);
      std::string detail;
      if (rank >= program.mesh.size()) {
        detail = fmt::format("It has rank {}; the plan has ranks 0 to {}.", rank, program.mesh.size() - 1);
      } else if (const std::size_t ops = step_ops(program, r.rank); ops != r.spans.size()) {
        detail = fmt::format("Rank {} has {} operations; in the plan it has {}.", rank, r.spans.size(), ops);
      } else {
        continue;
      }
      Diagnostic m;
      m.file = file;
      m.code = "cli.compare";
      m.message = fmt::format("this trace does not belong to the plan {}", *plan_);
      m.details.push_back(std::move(detail));
      Diagnostics d;
      d.add(std::move(m));
      throw InputError(std::move(d));
    }
  }

  /// The files of a folder in the order of their names, or the file itself.
  static std::vector<std::string> profiles_in(const std::string& reference) {
    std::error_code failure;
    if (!std::filesystem::is_directory(reference, failure)) return {reference};
    std::vector<std::string> out;
    std::filesystem::directory_iterator at(reference, failure);
    for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure)) {
      const std::filesystem::path& file = at->path();
      if (file.extension() == ".json") out.push_back(file.string());
      if (file.extension() == ".gz") {
        refuse("cli.compare", fmt::format("{} is compressed", file.string()), {"gunzip unpacks it."});
      }
    }
    if (failure) refuse("cli.compare", fmt::format("the folder {} cannot be read: {}", reference, failure.message()));
    std::sort(out.begin(), out.end());
    if (out.empty()) {
      refuse("cli.compare", fmt::format("the folder {} has no .json file", reference),
             {"A folder of profiles has a file of each rank, written by torch.profiler's export_chrome_trace."});
    }
    return out;
  }

  /// Compares a plan as simulated, or its trace, with what a profiler recorded. One file at a time is in memory.
  int profile(FileKind a, const std::string& a_text) const {
    if (a == FileKind::trace && !plan_) {
      refuse("cli.compare", "a profile beside a trace needs the plan of both", {"Name it: --plan PLAN."});
    }
    Ticker ticker("read");
    Diagnostics d;
    std::vector<ProfiledRank> ranks;
    for (const std::string& file : profiles_in(b_)) {
      const std::optional<std::string> text = read_text(file, d, std::size_t{4} << 30);
      if (!text) continue;
      auto rank = read_profile(
          *text, file, d, [&](std::uint64_t done, std::uint64_t total) { ticker.show(file.c_str(), done, total); });
      if (rank) ranks.push_back(std::move(*rank));
    }
    require_none(d);
    const std::optional<ProfiledStep> step = median_step(ranks, d);
    require_none(d);
    const LoadedPlan loaded = load_plan(a == FileKind::plan ? a_ : *plan_, flags_, std::nullopt);
    std::optional<Trace> predicted;
    if (a == FileKind::trace) {
      predicted = read_chrome_trace(a_text, a_, d);
      require_none(d);
      refuse_foreign(a_, *predicted, loaded.program);
      if (predicted->origin.starts_with("run")) {
        refuse("cli.compare", fmt::format("{} is a measurement, but a profile is compared with a prediction", a_),
               {"Name the plan, or a trace that orrery simulate wrote."});
      }
    } else {
      predicted = simulate(loaded.run, loaded.program, cost_model(loaded)).trace;
    }
    std::vector<std::string> notes;
    for (const std::string& n : step->notes) notes.push_back("Profile: " + n + ".");
    notes.emplace_back(
        "A collective's kernel waits inside for its partners; the prediction counts from the last of them.");
    return tell(FileKind::profile, compare(*predicted, loaded.program, *step, tolerance_), notes);
  }

  /// Plans: their estimates, side by side. A plan in one line changes the first; a launch file that names no cluster
  /// runs on the first's.
  int plans() {
    // --model and --set are for the references that are no plan files.
    const auto is_open = [&](const std::string& r) { return is_change(r) || look(r).first == FileKind::launch; };
    const bool any = is_open(a_) || std::any_of(others_.begin(), others_.end(), is_open);
    const auto loaded_from = [&](const std::string& reference, const std::optional<std::string>& cluster) {
      CommonFlags flags = flags_;
      if (any && !is_open(reference)) {
        flags.model.reset();
        flags.set.clear();
      }
      return load_plan(reference, flags, cluster, cluster_ ? ClusterUse::replace : ClusterUse::fall_back);
    };
    std::vector<LoadedPlan> loaded;
    loaded.push_back(loaded_from(a_, cluster_));
    std::optional<std::string> cluster = cluster_;
    if (const std::string& first = loaded.front().run.cluster_reference;
        !cluster && !first.empty() && !is_path(first)) {
      cluster = first;
    }
    for (const std::string& other : others_) {
      loaded.push_back(is_change(other) ? changed_plan(loaded.front(), other, flags_) : loaded_from(other, cluster));
    }
    return tell_plans(loaded, flags_);
  }

  CommonFlags flags_;
  std::string a_, b_;  ///< b_: the first of the others
  std::vector<std::string> others_;
  std::optional<std::string> plan_, cluster_;
  Tolerance tolerance_;
};

}  // namespace

std::unique_ptr<Verb> compare_verb() { return std::make_unique<CompareVerb>(); }

}  // namespace orrery
