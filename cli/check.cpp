#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/file_kind.hpp"
#include "cli/plan_source.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"
#include "core/record/calibration_file.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/profile.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/power_spec.hpp"
#include "core/spec/reliability_file.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "edit/lesson_plans.hpp"
#include "framework/framework.hpp"
#include "planner/describe.hpp"
#include "sim/net/fabric_spec.hpp"
#include "sim/net/import/import.hpp"
#include "sweep/points_file.hpp"
#include "sweep/sweep_file.hpp"
#include "validate/run_table.hpp"

namespace orrery {
namespace {

std::string about(const ModelSpec& m) {
  const std::string unread = unread_text(m);
  return fmt::format("{}, {} parameters{}{}", m.name, with_commas(parameter_count(m)), unread.empty() ? "" : "; ",
                     unread);
}

/// Passes progress on to the terminal.
WorkProgress told(Ticker& ticker, const char* phase) {
  return [&ticker, phase](std::uint64_t done, std::uint64_t total) { ticker.show(phase, done, total); };
}

class CheckVerb final : public Verb {
 public:
  const char* name() const override { return "check"; }
  const char* summary() const override { return "say what a file is and what is wrong with it"; }

  void declare(Command& c) override {
    c.positional(
        "FILE", file_,
        "a model, workload, device, cluster, reliability, power, plan, calibration, config.json, report, trace, "
        "profile of "
        "PyTorch, "
        "program, order of actions, fabric, lesson, table of measured runs, launch file of another program, or "
        "description of a network");
    c.option("--gpus", flags_.gpus, "plans and clusters: number of devices", {1, max_devices});
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the answer here too, as JSON");
    c.examples(
        "  orrery check plan.toml\n"
        "  orrery check models/hf/llama-3-70b/config.json\n"
        "  orrery check models/lesson/5-pipeline.toml\n"
        "  orrery show program plan.toml -o p.txt && orrery check p.txt");
  }

  int run() override {
    std::optional<Ticker> ticker(std::in_place, "check");
    Diagnostics d;
    // A folder stands for the config.json in it, as it does where a model is named.
    std::error_code failure;
    if (std::filesystem::is_directory(file_, failure)) file_ = (std::filesystem::path(file_) / "config.json").string();
    // Traces of large plans are long.
    const std::optional<std::string> text = read_text(file_, d, std::size_t{4} << 30);
    FileKind kind = FileKind::unknown;
    std::string found;
    if (text) {
      kind = kind_of(*text, file_, d);
      if (d.empty()) found = describe_file(kind, *text, d, *ticker);
    }
    ticker.reset();
    const bool good = d.empty();
    nlohmann::ordered_json json;
    json["file"] = file_;
    json["kind"] = name_of(kind);
    json["good"] = good;
    json["about"] = found;
    json["errors"] = errors_json(d);
    write_output(flags_, json_text(json));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json(json);
    } else if (good) {
      print(fmt::format("{}: {}: {}\n", escaped(file_), with_article(kind), escaped(found)));
    }
    if (!good) throw InputError(d, flags_.json || prints_output(flags_));
    return status_fine;
  }

 private:
  std::string describe_file(FileKind kind, const std::string& text, Diagnostics& d, Ticker& ticker) const {
    const Library library = library_of(flags_);
    const DeviceLookup lookup = [&](const std::string& name, Diagnostics& more) { return library.device(name, more); };
    switch (kind) {
      case FileKind::model:
        if (const auto m = parse_model(text, file_, d)) return about(*m);
        return {};
      case FileKind::hf_config:
        if (const auto m = parse_hf_config(text, file_, d)) return about(*m);
        return {};
      case FileKind::workload:
        if (const auto w = parse_workload(text, file_, d)) {
          return fmt::format("{} of {}, {}", counted(w->global_batch, "sequence"), counted(w->sequence_length, "token"),
                             name_of(w->precision));
        }
        return {};
      case FileKind::device:
        if (const auto v = parse_device(text, file_, d)) {
          return fmt::format("{}, {} at {}", v->name, short_text(v->memory), short_text(v->memory_bandwidth));
        }
        return {};
      case FileKind::cluster:
        if (auto c = parse_cluster(text, file_, lookup, d)) {
          if (flags_.gpus) c = resized(std::move(*c), *flags_.gpus, d);
          if (c)
            return fmt::format("{}, {} of {} x {}", c->name, counted(c->nodes, "node"), c->devices_per_node,
                               c->device.name);
        }
        return {};
      case FileKind::reliability:
        if (const auto r = parse_reliability(text, file_, d)) {
          const auto& rate = r->node_failures_per_1000_node_days;
          return r->name + ", " +
                 (rate ? fmt::format("{} failures per 1,000 node-days ({})", rate->value, name_of(rate->basis))
                       : "rate of node failures unknown");
        }
        return {};
      case FileKind::power:
        if (const auto p = parse_power(text, file_, d)) {
          return fmt::format("{}, {}", counted(p->devices.size(), "device"),
                             counted(p->links.size(), "kind of link", "kinds of links"));
        }
        return {};
      case FileKind::plan:
        if (const auto p = read_plan(text, file_, library, flags_.gpus, d)) {
          check_framework(*p, d);
          return fmt::format("{} for {}: {}", p->plan.name, p->model.name, describe(p->plan));
        }
        return {};
      case FileKind::launch: {
        const auto launched = read_launch(text, file_, "auto", launch_inputs(flags_, std::nullopt), library, d);
        if (!launched) return {};
        for (const LaunchNote& n : launched->notes) {
          if (n.kind != LaunchNote::Kind::not_expressible || flags_.nearest) continue;
          d.error_at({file_, text, {}}, n.position, "launch.not-expressible", fmt::format("{}: {}", n.key, n.says));
        }
        return fmt::format("{} for {}: {}", launched->format, launched->run.model.name, describe(launched->run.plan));
      }
      case FileKind::calibration:
        if (const auto c = parse_calibration(text, file_, d)) {
          return fmt::format("{} of {}, {}, {}", c->name, c->device, c->date,
                             counted(c->kernels.size(), "measured table"));
        }
        return {};
      case FileKind::report:
        if (const auto r = read_report(text, file_, d)) {
          return fmt::format("{} of {}, step {}", r->origin, r->plan, short_text(r->step_time));
        }
        return {};
      case FileKind::trace:
        if (const auto t = read_chrome_trace(text, file_, d, told(ticker, "read"))) {
          return fmt::format("{}, {}", t->origin, counted(t->ranks.size(), "rank"));
        }
        return {};
      case FileKind::profile:
        if (const auto p = read_profile(text, file_, d, told(ticker, "read"))) {
          std::string whose = p->rank ? fmt::format("rank {}", *p->rank) : "a rank";
          if (p->ranks) whose += fmt::format(" of {}", *p->ranks);
          return fmt::format("{}, {} on {}, {} marked", whose, counted(p->runs.size(), "kernel"),
                             counted(p->streams.size(), "stream"), counted(p->steps.size(), "step"));
        }
        return {};
      case FileKind::program:
        if (const auto p = read_program(text, file_, d)) {
          const std::vector<Violation> broken = verify(*p, told(ticker, "verify"));
          for (const Violation& v : broken) {
            Diagnostic m;
            m.file = file_;
            m.code = v.code;
            m.message = v.message;
            if (!v.listing.empty()) m.details.push_back(v.listing);
            d.add(std::move(m));
          }
          return fmt::format("{} in {}, {}, every rule holds", counted(p->mesh.size(), "rank"),
                             counted(p->classes.size(), "class", "classes"), counted(p->blocks.size(), "block"));
        }
        return {};
      case FileKind::order:
        if (const auto o = read_order(text, file_, d)) {
          return fmt::format("{} ranks, {} chunk{} each{}, {} microbatches, no ranks wait for each other",
                             o->ranks.size(), o->chunks, o->chunks == 1 ? "" : "s",
                             o->placement == StagePlacement::v ? " on a V" : "", o->microbatches);
        }
        return {};
      case FileKind::fabric:
        if (const auto f = parse_fabric(text, file_, d)) {
          return fmt::format("{}, {} in {}", f->name, counted(f->gpus(), "GPU"), counted(f->nodes, "node"));
        }
        return {};
      case FileKind::lesson:
        if (const auto l = parse_lesson(text, file_, d)) {
          Diagnostics of_plan;
          const auto start = read_plan_file(l->plan, library, flags_.gpus, of_plan);
          d.add_from(l->origin, "plan", of_plan);
          if (!start) return {};
          if (!start->cluster) {
            d.error(l->origin, "plan", "lesson.plan",
                    fmt::format("{} names no cluster, so nothing can be predicted", l->plan.string()),
                    {"Write cluster = \"...\" into the plan."});
            return {};
          }
          const std::size_t plans = try_lesson_plans(*l, *start, d);
          const auto questions = std::count_if(l->steps.begin(), l->steps.end(),
                                               [](const LessonStep& s) { return s.question.has_value(); });
          return fmt::format("{}, {}, {}, {}", l->title, counted(l->steps.size(), "step"),
                             counted(static_cast<std::uint64_t>(questions), "question"), counted(plans, "valid plan"));
        }
        return {};
      case FileKind::network: return fmt::format("{}; orrery import makes it a fabric", name_of(*import_kind_of(text)));
      case FileKind::measured_runs:
        if (const auto runs = parse_runs(text, file_, d)) return counted(runs->size(), "run");
        return {};
      case FileKind::sweep:
        if (const auto s = parse_sweep(text, file_, d)) {
          return counted(sweep_points(grids_of(s->base, s->cases)).size(), "point");
        }
        return {};
      case FileKind::points:
        if (const auto r = read_points(text, file_, d)) {
          return fmt::format("{} of {}{}", r->points.size(), counted(r->header.points.size(), "point"),
                             r->torn ? ", and a line that was cut off" : "");
        }
        return {};
      case FileKind::unknown:
        Diagnostic m;
        m.file = file_;
        m.code = "cli.kind";
        m.message = "this is not a file that Orrery knows";
        m.details.push_back(
            "A TOML file of Orrery has a table [model], [workload], [device], [cluster], [reliability], [fabric], "
            "[plan], [sweep] or [[step]] (a lesson), or is a calibration.");
        if (const std::size_t first = text.find_first_not_of(" \t\r\n");
            first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
          m.details = {
              "A JSON file of Orrery is a report or a trace; a Hugging Face config.json names its model_type."};
        }
        d.add(std::move(m));
        return {};
    }
    return {};
  }

  CommonFlags flags_;
  std::string file_;
};

}  // namespace

std::unique_ptr<Verb> check_verb() { return std::make_unique<CheckVerb>(); }

}  // namespace orrery
