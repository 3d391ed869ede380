#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/file_kind.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/compare.hpp"
#include "core/record/report_file.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery {
namespace {

class CompareVerb final : public Verb {
 public:
  const char* name() const override { return "compare"; }
  const char* summary() const override { return "set a prediction beside a measurement, or two plans side by side"; }

  void declare(Command& c) override {
    c.positional("A", a_, "a trace or report (predicted), or a plan");
    c.positional("B", b_, "a trace or report (measured), or another plan");
    c.option("--plan", plan_, "traces: the plan of both, to split the error over kinds of operations");
    c.option("--tolerance", tolerance_.step_time, "step time: allowed relative error");
    c.option("--memory-tolerance", tolerance_.memory, "peak memory: allowed relative error");
    declare_machine(c, flags_);
    declare_output(c, flags_, "write the comparison here, as JSON");
    c.examples(
        "  orrery compare predicted-report.json measured-report.json\n"
        "  orrery compare predicted.json measured.json --plan plan.toml\n"
        "  orrery compare best.toml other.toml\n"
        "Status 1: outside the tolerance.");
  }

  int run() override {
    if (!(tolerance_.step_time >= 0.0) || !(tolerance_.memory >= 0.0)) {
      refuse("cli.tolerance", "a tolerance is a number from 0");
    }
    const auto [a, a_text] = look(a_);
    const auto [b, b_text] = look(b_);
    if (a != b) {
      refuse("cli.compare", fmt::format("a {} cannot be compared with a {}", name_of(a), name_of(b)),
             {"Two traces, two reports or two plans can."});
    }
    if (a == FileKind::plan) return plans();
    if (a != FileKind::trace && a != FileKind::report) {
      refuse("cli.compare", fmt::format("{} is a {}", a_, name_of(a)),
             {"Two traces, two reports or two plans can be compared."});
    }
    const Comparison c = a == FileKind::trace ? traces(a_text, b_text) : reports(a_text, b_text);
    if (flags_.output) write_file(*flags_.output, write_comparison(c));
    if (flags_.json) {
      print_json(to_json(c));
    } else {
      print(render(c));
    }
    return c.within_tolerance ? status_fine : status_no;
  }

 private:
  std::pair<FileKind, std::string> look(const std::string& reference) {
    const std::string path = is_path(reference) ? reference : plan_path(reference, library_of(flags_)).string();
    Diagnostics d;
    std::optional<std::string> text = read_text(path, d, std::size_t{4} << 30);
    require_none(d);
    const FileKind kind = kind_of(*text, path, d);
    require_none(d);
    return {kind, std::move(*text)};
  }

  Comparison reports(const std::string& a_text, const std::string& b_text) const {
    Diagnostics d;
    const std::optional<Report> a = read_report(a_text, a_, d);
    const std::optional<Report> b = read_report(b_text, b_, d);
    require_none(d);
    return compare(*a, *b, tolerance_);
  }

  Comparison traces(const std::string& a_text, const std::string& b_text) const {
    Diagnostics d;
    const std::optional<Trace> a = read_chrome_trace(a_text, a_, d);
    const std::optional<Trace> b = read_chrome_trace(b_text, b_, d);
    require_none(d);
    if (!plan_) return compare(*a, *b, nullptr, true, tolerance_);
    const LoadedPlan loaded = load_plan(*plan_, flags_, "local-cpu", ClusterUse::fall_back);
    return compare(*a, *b, &loaded.program, loaded.run.cluster->device.concurrent_lanes, tolerance_);
  }

  /// Two plans: their estimates, side by side.
  int plans() const {
    const LoadedPlan a = load_plan(a_, flags_, std::nullopt);
    const LoadedPlan b = load_plan(b_, flags_, std::nullopt);
    const Report ra = estimate(a.run, a.program, cost_model(a));
    const Report rb = estimate(b.run, b.program, cost_model(b));
    nlohmann::ordered_json json;
    json["a"] = to_json(ra);
    json["b"] = to_json(rb);
    json["differences"] = differences(b.run.plan, a.run.plan);
    if (flags_.output) write_file(*flags_.output, json.dump(2) + "\n");
    if (flags_.json) {
      print_json(json);
    } else {
      Table table({"", "A", "B"});
      const auto row = [&](const char* what, auto value) { table.row({what, value(ra), value(rb)}); };
      using R = const Report&;
      table.row({"plan", a.run.plan.name, b.run.plan.name});
      row("GPUs", [](R r) { return fmt::format("{}", r.gpus); });
      row("step time", [](R r) { return short_text(r.step_time, 4); });
      row("tokens/s per GPU", [](R r) { return short_count(r.tokens_per_s_per_gpu, 4); });
      row("MFU", [](R r) { return percent(r.model_flops_utilization); });
      row("compute", [](R r) { return short_text(r.compute); });
      row("exposed communication", [](R r) { return short_text(r.exposed_communication); });
      row("bubble", [](R r) { return short_text(r.bubble_fraction * r.step_time); });
      row("peak memory", [](R r) { return short_text(Bytes::of(static_cast<double>(r.peak_memory_bytes))); });
      row("fits", [](R r) { return std::string(r.fits ? "yes" : "no"); });
      std::string out = table.str("") + "\nB is " + step_difference(rb, ra) + "\n";
      for (const std::string& d : differences(b.run.plan, a.run.plan)) out += "  B has " + d + "\n";
      print(out);
    }
    return ra.fits && rb.fits ? status_fine : status_no;
  }

  CommonFlags flags_;
  std::string a_, b_;
  std::optional<std::string> plan_;
  Tolerance tolerance_;
};

}  // namespace

std::unique_ptr<Verb> compare_verb() { return std::make_unique<CompareVerb>(); }

}  // namespace orrery
