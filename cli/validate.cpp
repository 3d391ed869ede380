#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/collectives.hpp"
#include "cli/common.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/validate_constants.hpp"
#include "cli/validate_explain.hpp"
#include "cli/validate_here.hpp"
#include "cli/validate_serving.hpp"
#include "cli/verbs.hpp"
#include "core/base/source_excerpt.hpp"
#include "validate/ranking.hpp"
#include "validate/run_table.hpp"
#include "validate/scatter_svg.hpp"
#include "validate/validation_json.hpp"

namespace orrery {
namespace {

std::string signed_percent(double pct) { return fmt::format("{:+.1f} %", pct); }
std::string seconds_text(double s) { return fmt::format("{:.4g} s", s); }
std::string gib_text(double bytes) { return fmt::format("{:.2f} GiB", Bytes::of(bytes).in(gibibyte)); }

std::string rows_text(const std::vector<ValidatedRun>& rows) {
  Table table(
      {"run", "predicted", "from", "to", "measured", "error", "predicted", "measured", "error", "<filled by rule"});
  for (const ValidatedRun& r : rows) {
    // Where only reserved memory is published, that counts.
    const std::optional<PredictedMeasured>& held = r.memory || r.time ? r.memory : r.reserved;
    const auto memory = [&](auto text) { return held ? text(*held) : std::string(); };
    table.row({r.id, seconds_text(r.step), seconds_text(r.low), seconds_text(r.high),
               r.time ? seconds_text(r.time->measured) : std::string(),
               r.time ? signed_percent(r.time->error_pct) : std::string(),
               memory([](const PredictedMeasured& c) { return gib_text(c.predicted); }),
               memory([](const PredictedMeasured& c) { return gib_text(c.measured); }),
               memory([](const PredictedMeasured& c) { return signed_percent(c.error_pct); }),
               fmt::format("{}", fmt::join(r.filled, " "))});
  }
  return table.str();
}

void summary_rows(Table& table, const std::string& name, const RunSummary& s) {
  const auto row = [&](const char* what, const ErrorSummary& e) {
    if (e.n == 0) return;
    table.row({name, what, fmt::format("{}", e.n), fmt::format("{:.1f} %", e.mape_pct),
               fmt::format("{:.1f} %", e.median_pct), fmt::format("{:.1f} %", e.p90_pct),
               fmt::format("{:.1f} %", e.max_pct), signed_percent(e.bias_pct)});
  };
  row("time", s.time);
  row("memory", s.memory);
  row("reserved memory", s.reserved);
}

/// How many measured times lie inside the interval, by the runs that gave it.
std::string coverage_text(const Validation& v) {
  Table table({"<interval held out of", "n", "inside"});
  for (const RunGroup& g : grouped(v, GroupBy::interval)) {
    if (g.summary.time.n == 0) continue;
    table.row({g.name, fmt::format("{}", g.summary.time.n), percent(g.coverage, 0)});
  }
  table.row({"all", fmt::format("{}", summary_of_all(v).time.n), percent(interval_coverage(v), 0)});
  return fmt::format("\nMeasured between from and to, which should hold eight in ten\n{}", table.str());
}

std::string validation_text(const Validation& v, std::optional<GroupBy> by) {
  std::string out =
      fmt::format("Predicted beside measured, by {}: step time, and peak memory where it is published\n{}", v.tier,
                  rows_text(v.rows));
  if (!v.inconsistent.empty()) {
    out += fmt::format("\nSources that contradict themselves: in no summary\n{}", rows_text(v.inconsistent));
  }
  std::size_t full = 0;
  if (!v.skipped.empty()) {
    Table table({"run", "<reason"});
    for (const SkippedRun& s : v.skipped) {
      full += s.full_configuration ? 1 : 0;
      table.row({s.id, s.reason});
    }
    out += fmt::format("\nNot predicted\n{}", table.str());
  }
  Table table({"", "<", "n", "MAPE", "median", "p90", "max", "bias"});
  if (by) {
    for (const RunGroup& g : grouped(v, *by)) summary_rows(table, g.name, g.summary);
  }
  summary_rows(table, "all", summary_of_all(v));
  summary_rows(table, "all, nothing filled by rule", summary_of_published(v));
  out += fmt::format("\nErrors in percent of what was measured\n{}", table.str());
  if (const std::vector<Ranking> groups = rankings(v.rows); !groups.empty()) {
    Table ranked({"<plans of one model on the same GPUs", "plans", "Spearman", "predicted best, over the measured"});
    for (const Ranking& r : groups) {
      ranked.row({r.work, fmt::format("{}", r.plans.size()), fmt::format("{:.2f}", r.spearman),
                  fmt::format("{:+.1f} %", r.regret_pct)});
    }
    out += fmt::format("\nPlans in order: predicted beside measured time of a sequence\n{}", ranked.str());
  }
  if (summary_of_all(v).time.n > 0) out += coverage_text(v);
  return out + fmt::format(
                   "\n{} rows: {} predicted, {} inconsistent, {} not predicted ({} of the {} with a full "
                   "configuration)\n",
                   v.rows.size() + v.inconsistent.size() + v.skipped.size(), v.rows.size(), v.inconsistent.size(),
                   v.skipped.size(), full, v.full_configurations);
}

class ValidateVerb final : public Verb {
 public:
  const char* name() const override { return "validate"; }
  const char* summary() const override { return "put predictions beside published, measured runs"; }

  void declare(Command& c) override {
    c.positional("RUNS.csv", table_, "a table of measured runs; without it, the shipped one");
    c.flag("--collectives", collectives_, "measured collectives instead of runs: the table named, or the shipped one");
    c.flag("--serving", serving_, "measured points of serving instead of runs: a table as docs/serve.md has it");
    c.flag("--rows", rows_, "with --serving: list every row, too");
    c.flag("--here", here_, "plans trained on this machine's cores instead: simulated beside measured steps");
    c.option("--plans", request_.plans, "with --here: number of plans, drawn by --seed", {1, 1000});
    c.option("--seed", request_.seed, "with --here: seed of the drawn plans",
             {0, std::numeric_limits<std::uint64_t>::max()});
    c.option("--rounds", request_.rounds, "with --here: number of times that each plan runs; all take turns", {1, 100});
    c.option("--calibration", flags_.calibration,
             "with --here: constants of this machine's cores; without it they are measured first");
    c.choice("--by", by_, {"none", "gpu", "source", "precision", "framework", "kind"},
             "give the errors for each of these, too");
    c.option("--explain", explain_, "take the prediction of this row apart: its time, and the constants behind it");
    c.flag("--constants", constants_, "list every fitted constant instead: prior, value, and the runs behind it");
    c.option("--svg", svg_, "draw predicted over measured into this file");
    declare_output(c, flags_, "write the comparison here, as JSON");
    c.examples(
        "  orrery validate\n"
        "  orrery validate --by gpu --svg scatter.svg\n"
        "  orrery validate mine.csv --json\n"
        "  orrery validate --explain titan-8b-cp2        where a row's time goes; what could be behind its error\n"
        "  orrery validate --constants               every constant of software, its prior and its runs\n"
        "  orrery validate --collectives\n"
        "  orrery validate --serving points.csv      TTFT and TPOT of engines, held out by lengths and by model\n"
        "  orrery validate --here                 measures this machine, then trains 40 plans: some two minutes\n"
        "  orrery validate --here --plans 10 --calibration mine.toml --json\n"
        "Status 1: with --here, the median error is above 10 %, or memory is not as predicted.");
  }

  int run() override {
    if (serving_) {
      if (here_ || collectives_ || svg_ || explain_ || constants_ || by_ != "none" || !table_) {
        refuse("cli.flags",
               "--serving takes a table, and no --here, --collectives, --constants, --explain, --by or --svg",
               {"orrery validate --serving points.csv"});
      }
      return validate_serving_table(flags_, *table_, rows_);
    }
    if (rows_) refuse("cli.flags", "--rows goes with --serving only");
    if (here_) {
      if (collectives_ || table_ || svg_ || explain_ || constants_ || by_ != "none") {
        refuse("cli.flags",
               "--here runs its own plans: it does not go with a table, --collectives, --constants, --explain, --by or "
               "--svg");
      }
      if (request_.plans == 0 || request_.rounds == 0) refuse("cli.flags", "--plans and --rounds must be at least 1");
      return validate_here(flags_, request_);
    }
    if (flags_.calibration || request_ != HereRequest{}) {
      refuse("cli.flags", "--plans, --seed, --rounds and --calibration go with --here only");
    }
    if (constants_) {
      if (collectives_ || table_ || svg_ || explain_ || by_ != "none") {
        refuse("cli.flags", "--constants goes with no table, --collectives, --by, --explain or --svg");
      }
      return validate_constants(flags_, library_of(flags_));
    }
    if (collectives_) {
      if (svg_ || explain_ || by_ != "none") {
        refuse("cli.flags", "--collectives goes with neither --by nor --explain nor --svg");
      }
      return validate_collectives(flags_, table_);
    }
    if (explain_ && (svg_ || by_ != "none")) refuse("cli.flags", "--explain goes with neither --by nor --svg");
    const Library library = library_of(flags_);
    const std::filesystem::path table = table_ ? std::filesystem::path(*table_)
                                               : library.directory().parent_path() / "traces" / "measured" / "runs.csv";
    keep_apart(table, {flags_.output, svg_});
    require_svg(svg_);
    require_output(flags_);
    Diagnostics d;
    const std::optional<std::vector<MeasuredRun>> runs = read_runs(table, d);
    require_none(d);
    if (explain_) return validate_explain(flags_, *runs, library, *explain_);
    std::optional<Ticker> ticker(std::in_place, "validate");
    const Validation validation = validate(*runs, library);
    ticker.reset();
    const std::optional<GroupBy> by = group();
    const nlohmann::ordered_json json = to_json(validation, by);
    write_output(flags_, json_text(json));
    if (svg_) write_file(*svg_, scatter_svg(validation, by.value_or(GroupBy::gpu)));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json(json);
    } else {
      print(validation_text(validation, by));
    }
    return status_fine;
  }

 private:
  [[nodiscard]] std::optional<GroupBy> group() const {
    if (by_ == "gpu") return GroupBy::gpu;
    if (by_ == "source") return GroupBy::source;
    if (by_ == "precision") return GroupBy::precision;
    if (by_ == "framework") return GroupBy::framework;
    if (by_ == "kind") return GroupBy::kind;
    return std::nullopt;
  }

  CommonFlags flags_;
  std::optional<std::string> table_, svg_, explain_;
  std::string by_ = "none";
  bool collectives_ = false;
  bool constants_ = false;
  bool here_ = false;
  bool serving_ = false;
  bool rows_ = false;
  HereRequest request_;
};

}  // namespace

std::unique_ptr<Verb> validate_verb() { return std::make_unique<ValidateVerb>(); }

}  // namespace orrery
