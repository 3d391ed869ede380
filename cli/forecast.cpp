#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/amounts.hpp"
#include "cli/common.hpp"
#include "cli/forecast_answer.hpp"
#include "cli/forecast_sizes.hpp"
#include "cli/forecast_text.hpp"
#include "cli/forecast_variants.hpp"
#include "cli/interrupt.hpp"
#include "cli/plan_source.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/batch_curve.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

class ForecastVerb final : public Verb {
 public:
  const char* name() const override { return "forecast"; }
  const char* summary() const override { return "predict a whole run: days, money, energy, time lost to failures"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_,
                 "a plan file, the name of an example plan, a launch file, or a plan in one line; without it the "
                 "planner finds the plan for --model on --cluster");
    c.option("--tokens", tokens_, "tokens to train on: 1T, 300B, 1.5e12");
    c.option("--by", by_, "the day by which it must end (2027-06-01): how many GPUs that takes");
    c.choice("--least", least_, {"none", "days", "money", "energy"},
             "try other numbers of GPUs, and take the one with the least");
    c.option("--also", also_,
             "--least, --by: another cluster to try, with the price of a GPU-hour: h200:8x4=3.10; may be repeated");
    c.flag("--batches", batches_, "--least, --by: try other batches, too, by --critical-batch or --batch-curve");
    c.option("--from", from_, "the day on which it begins; default: today");
    c.option("--budget", budget_, "money to spend (\"$2M\"): how many tokens it buys");
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    c.group("Failures and saves");
    c.option("--reliability", wishes_.reliability,
             "how often things fail: llama-3, rsc-1, rsc-2, spot, a .toml file, or none; default: what the cluster's "
             "file says, else llama-3");
    c.choice("--saves", saves_, {"blocking", "beside"}, "whether steps wait until a checkpoint is in storage");
    c.option("--save-every", wishes_.save_every, "steps between two saves; default: the best", {1, 1'000'000'000});
    c.option("--spares", wishes_.spares, "spare nodes, in place of the reliability file's", {0, 1'000'000});
    c.flag("--fewer-replicas", wishes_.fewer_replicas,
           "go on with fewer replicas where no spare is left, in place of waiting");
    c.option("--runs", wishes_.runs, "runs to simulate; 0: as few as the mean needs", {0, 1'000'000});
    c.option("--seed", wishes_.seed, "of the simulated runs", {});
    c.group("Batch");
    c.option("--critical-batch", critical_, "tokens of the critical batch: then --tokens is what a small batch needs");
    c.option("--batch-curve", curve_,
             "a table of progress, grad_sqr and grad_var, measured at --base-batch: then --tokens is what that needs");
    c.option("--base-batch", base_batch_, "sequences of the batch of --batch-curve", {1, max_batch});
    c.group("Energy");
    c.option("--power", power_, "power of devices and links, in place of models/power.toml");
    c.option("--power-price", power_price_, "price of a kWh: \"0.10\", in USD, or \"0.20 EUR\"");
    c.option("--grid", grid_, "grams of CO2 of a kWh");
    c.option("--pue", pue_, "energy of the building over that of its devices");
    c.group("Without a plan");
    c.option("--batch", question_.batch, "sequences per optimizer step; default: 4 Mi tokens", {1, max_batch});
    c.option("--seq", question_.sequence, "tokens per sequence; default: 8192, or what the model takes",
             {1, max_sequence});
    std::vector<std::string> names(precision_names().begin(), precision_names().end());
    c.choice("--precision", question_.precision, names, "precision of weights and activations");
    c.group("");
    c.flag("--explain", explain_, "show how every figure follows from others, with sources");
    c.option("--svg", svg_, "draw a run's timeline, the distribution of days, and cost against GPUs into this file");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the forecast here, as JSON");
    c.examples(
        "  orrery forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T --price 2.50\n"
        "  orrery forecast plan.toml --tokens 15T --reliability rsc-1 --explain\n"
        "  orrery forecast plan.toml --tokens 1T --by 2027-06-01 --svg days.svg\n"
        "  orrery forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T --price 2.50 --least money \\\n"
        "    --also dgx-a100=1.40\n"
        "  orrery forecast plan.toml --budget \"$2M\" --price 2.50\n"
        "  orrery forecast llama-3-70b-8-dgx-h100 --tokens 1T --saves beside --grid 400 --pue 1.2 --json");
  }

  int run() override {
    check_flags();
    catch_interrupt();
    const Library library = library_of(flags_);
    Diagnostics d;
    const std::optional<PowerTable> power = power_table(library, power_, d);
    require_none(d);
    if (plan_) keep_apart(plan_path(*plan_, library), {flags_.output, svg_});
    ForecastSubject subject =
        plan_ ? forecast_subject(load_plan(*plan_, flags_, cluster_), *power) : searched_subject(question(), *power);
    wishes_.saves = saves_ == "beside" ? SaveWay::beside : SaveWay::blocking;
    wishes_.electricity = electricity();
    const double tokens =
        tokens_ ? batch_factor(subject.run.workload) * count_of(*tokens_, "--tokens") : affordable(subject);
    ForecastAnswer answer = forecast_answer(subject, tokens, wishes_, flags_);
    const std::string unknown = fmt::format("{}", fmt::join(answer.forecast.unknown, ", "));
    if ((by_ || least_ != "none") && !unknown.empty()) {
      refuse("cli.flags", "--by and --least need what failures cost; unknown: " + unknown,
             {"A reliability file says it (docs/forecast.md); --reliability none counts no failures."});
    }
    SizeWish size;
    if (by_) size.within = std::chrono::duration<double>(date_of(*by_, "--by") - begin()).count();
    size.least = least();
    if (size.least) require_amount(answer, *size.least);
    ForecastSizes sizes;
    if (by_ || size.least || svg_) {
      const auto factor_of = [this](const Workload& w) { return batch_factor(w); };
      const VariantQuestion others{plan_, cluster_, question_, also_, batches_, factor_of};
      sizes = best_variant(variants_of(answer, others, size, wishes_, flags_, *power), size, wishes_, *power);
    }
    const ForecastAnswer& best = sizes.chosen ? *sizes.chosen : answer;
    return tell(best, sizes.tried, !by_ || sizes.chosen, batch_factor(best.subject.run.workload));
  }

 private:
  void check_flags() {
    require_output(flags_);
    require_svg(svg_);
    if (!tokens_ && !budget_) {
      refuse("forecast.tokens", "--tokens is missing", {"--tokens 1T says for how long to train; --budget asks."});
    }
    exclude(tokens_ && budget_, "--tokens and --budget");
    exclude(critical_ && curve_, "--critical-batch and --batch-curve");
    if (curve_.has_value() != base_batch_.has_value()) {
      refuse("cli.flags", "--batch-curve and --base-batch go together", {"The curve was measured at a batch."});
    }
    if (budget_ && (critical_ || curve_)) {
      refuse("cli.flags", "--budget does not go with --critical-batch or --batch-curve",
             {"--critical-batch and --batch-curve go with --tokens."});
    }
    exclude(by_ && least_ != "none", "--by and --least");
    if ((!also_.empty() || batches_) && !by_ && least_ == "none") {
      refuse("cli.flags", "--also and --batches go with --least or --by");
    }
    if (batches_ && !critical_ && !curve_) {
      refuse("cli.flags", "--batches needs --critical-batch or --batch-curve",
             {"They say how many tokens another batch needs for the same loss."});
    }
    if (batches_ && plan_) refuse("cli.flags", "--batches goes only without a plan", {"A plan has its batch."});
    if ((by_ || least_ != "none") && !tokens_) refuse("cli.flags", "--by and --least need --tokens");
    if (by_ && !(date_of(*by_, "--by") > begin())) {
      refuse("cli.date", fmt::format("--by {} is not after the beginning", *by_),
             {fmt::format("It begins on {} (--from).", text_of(begin()))});
    }
    if (!plan_ && (!flags_.model || !cluster_)) {
      refuse("forecast.plan", "a forecast needs a plan, or --model and --cluster",
             {"orrery forecast --model llama-3-8b --cluster dgx-h100 --gpus 16 --tokens 1T"});
    }
    if (plan_ && (question_.batch > 0 || question_.sequence > 0)) {
      refuse("cli.flags", "--batch and --seq go only without a plan", {"A plan has its own."});
    }
    static_cast<void>(electricity());
  }

  static void exclude(bool both, const char* flags) {
    if (both) refuse("cli.flags", fmt::format("{} exclude each other", flags));
  }

  [[nodiscard]] SearchQuestion question() const {
    SearchQuestion q = question_;
    q.flags = flags_;
    q.model = *flags_.model;
    q.cluster = *cluster_;
    return q;
  }

  [[nodiscard]] std::chrono::sys_days begin() const { return from_ ? date_of(*from_, "--from") : today(); }

  [[nodiscard]] Electricity electricity() const {
    Electricity e;
    if (power_price_) {
      const Money price = money_of(*power_price_, "--power-price");
      e.price_per_kwh = price.amount;
      e.currency = price.currency;
    }
    if (grid_) e.grams_per_kwh = number_of(*grid_, "--grid", 0.0, 1e5);
    if (pue_) e.pue = number_of(*pue_, "--pue", 1.0, 10.0);
    return e;
  }

  [[nodiscard]] std::optional<SizeWish::Least> least() const {
    if (least_ == "days") return SizeWish::Least::days;
    if (least_ == "money") return SizeWish::Least::money;
    if (least_ == "energy") return SizeWish::Least::energy;
    return std::nullopt;
  }

  /// Tokens that the batch needs over those of --tokens.
  [[nodiscard]] double batch_factor(const Workload& w) {
    const double batch = static_cast<double>(w.global_batch);
    double factor = 1.0;
    if (critical_) {
      const double critical = count_of(*critical_, "--critical-batch");
      factor = examples_over_least(batch * static_cast<double>(w.sequence_length), critical);
      batch_note_ = fmt::format("a critical batch of {} tokens", short_count(critical));
    } else if (curve_) {
      Diagnostics d;
      const std::optional<std::string> text = read_text(*curve_, d);
      require_none(d);
      const auto curve = parse_batch_curve(*text, *curve_, static_cast<double>(*base_batch_), d);
      require_none(d);
      factor = curve->examples_at(batch);
      batch_note_ = fmt::format("the noise scale of {}", escaped(*curve_));
    }
    if (!batch_note_.empty()) {
      batch_note_ = fmt::format("The batch needs {:.4g} times the tokens of --tokens, by {}.\n\n", factor, batch_note_);
    }
    return factor;
  }

  /// Tokens that the budget buys. Time grows with tokens, so the forecast of one amount gives them all; two more
  /// rounds even out the last save.
  [[nodiscard]] double affordable(const ForecastSubject& subject) const {
    const Money budget = money_of(*budget_, "--budget");
    const ClusterSpec& cluster = *subject.run.cluster;
    if (!cluster.price_per_gpu_hour) {
      refuse("forecast.price", "a budget needs the price of a GPU-hour", {"--price 2.50 gives it."});
    }
    if (budget.currency != cluster.price_currency) {
      refuse("forecast.price",
             fmt::format("the budget is in {} and the price in {}", budget.currency, cluster.price_currency),
             {"--price \"2.20 EUR\" gives a price in another currency."});
    }
    if (*cluster.price_per_gpu_hour == 0.0) {
      refuse("forecast.price", "a budget buys any number of tokens where a GPU-hour costs 0",
             {"--price 2.50 gives a price."});
    }
    const double per_step =
        static_cast<double>(subject.run.workload.global_batch * subject.run.workload.sequence_length);
    double steps = 1e5;
    for (int round = 0; round < 3; ++round) {
      const ForecastAnswer a = forecast_answer(subject, steps * per_step, quick(wishes_), flags_);
      if (a.forecast.never_ends || !a.forecast.unknown.empty()) return steps * per_step;  // and the answer says why
      steps = std::fmax(1.0, std::floor(steps * budget.amount / *a.money()));
    }
    return steps * per_step;
  }

  int tell(const ForecastAnswer& a, const std::vector<ForecastChoice>& choices, bool in_time, double factor) const {
    nlohmann::ordered_json json = forecast_json(a);
    std::string text = forecast_text(a);
    if (by_) {
      json["from"] = text_of(begin());
      json["by"] = *by_;
      json["in_time"] = in_time;
      std::string answer = in_time ? fmt::format("{} by {}, if the run begins on {}; no fewer of those tried do.\n",
                                                 chosen_text(a, choices, "end"), *by_, text_of(begin()))
                                   : fmt::format("No number of GPUs that was tried ends by {}.\n", *by_);
      text = answer + choices_text(a, choices) + "\n" + text;
    }
    json["batch_factor"] = factor;
    text = batch_note_ + text;
    if (least_ != "none") {
      text = fmt::format("{} the least {} of those tried.\n", chosen_text(a, choices, "take"), least_) +
             choices_text(a, choices) + "\n" + text;
    }
    if (budget_) {
      json["budget"] = *budget_;
      text = fmt::format("{} buys {} tokens.\n\n", escaped(*budget_), short_count(a.inputs.tokens)) + text;
    }
    json["other_sizes"] = choices_json(choices);
    if (explain_) text += forecast_explained(a);
    write_output(flags_, json_text(json));
    if (svg_) write_file(*svg_, forecast_svg(a, choices));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json(json);
    } else {
      print_wrapped(text);
    }
    return a.forecast.never_ends || !in_time || !a.subject.report.fits ? status_no : status_fine;
  }

  CommonFlags flags_;
  SearchQuestion question_;  ///< without a plan; a batch or sequence of 0 is assumed
  ForecastWishes wishes_;
  std::optional<std::string> plan_, tokens_, by_, from_, budget_, cluster_, power_, power_price_, grid_, pue_, svg_,
      critical_, curve_;
  std::vector<std::string> also_;
  std::optional<std::uint32_t> base_batch_;
  std::string batch_note_;
  std::string saves_ = "blocking", least_ = "none";
  bool explain_ = false, batches_ = false;
};

}  // namespace

std::unique_ptr<Verb> forecast_verb() { return std::make_unique<ForecastVerb>(); }

}  // namespace orrery
