#include "cli/sweep_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/job.hpp"
#include "cli/report_text.hpp"
#include "core/base/fnv.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_words.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/describe.hpp"
#include "planner/move.hpp"
#include "sim/memory/fit.hpp"
#include "sweep/least_step.hpp"

namespace orrery {
namespace {

/// Whether a mistake is in what the sweep names, so that no point is right: it stands in a file, or is about a name or
/// a flag. All others are about how values go together.
bool is_fatal(const Diagnostic& m) {
  return !m.file.empty() || m.code.starts_with("cli.") || m.code.starts_with("library.") ||
         m.code.starts_with("file.") || m.code == "framework.name" || m.code == "plan.words";
}

bool is_fatal(const Diagnostics& d) {
  return std::any_of(d.list().begin(), d.list().end(), [](const Diagnostic& m) { return is_fatal(m); });
}

/// The files from which prices come, as one number.
std::string prices_digest(const CommonFlags& flags) {
  std::set<std::filesystem::path> files;
  const std::filesystem::path data = library_of(flags).directory();
  for (const char* folder : {"calibration", "software", "collectives", "device"}) {
    std::error_code failure;
    for (auto at = std::filesystem::directory_iterator(data / folder, failure); at != end(at); ++at) {
      if (at->is_regular_file()) files.insert(at->path());
    }
  }
  if (flags.calibration) files.insert(*flags.calibration);
  std::error_code none;
  for (auto at = std::filesystem::directory_iterator(own_calibration_path().parent_path(), none); at != end(at); ++at) {
    if (at->is_regular_file()) files.insert(at->path());
  }
  std::uint64_t digest = fnv1a("");
  for (const std::filesystem::path& file : files) {
    Diagnostics missing;
    if (const std::optional<std::string> text = read_text(file, missing)) digest = fnv1a(*text, fnv1a("\n", digest));
  }
  return fmt::format("{:016x}", digest);
}

/// Which prices and which allocator a point's figures stand on.
std::string prices_text(const CalibrationChoice& prices, const CommonFlags& flags) {
  return fmt::format("{}, {}, {}", prices.origin, prices.software.name, flags.expandable_segments);
}

std::string limits_text(const SearchLimits& limits) {
  std::string out;
  for (const auto& [key, values] : limits.only) {
    out += fmt::format("{}=", key);
    for (const std::uint64_t v : values) out += fmt::format("{},", v);
  }
  return out;
}

}  // namespace

/// A point with its files read, or what is wrong with it.
struct PointComputer::Prepared {
  std::optional<SearchTask> task;
  std::optional<UnresolvedPlan> plan;
  std::string content;  ///< all that the answer follows from
  Diagnostics wrong;

  [[nodiscard]] const ModelSpec& model() const { return task ? task->model : plan->run.model; }
  [[nodiscard]] const Workload& workload() const { return task ? task->workload : plan->run.workload; }
  [[nodiscard]] const ClusterSpec& cluster() const { return task ? task->cluster : *plan->run.cluster; }
};

PointComputer::PointComputer(SweepBase base, const SweepPoints& points)
    : base_(std::move(base)), points_(points), prices_(prices_digest(base_.question.flags)) {}

PointComputer::Prepared PointComputer::prepared_search(std::uint64_t number) const {
  SearchQuestion q = base_.question;
  std::vector<std::pair<const Dimension*, std::uint64_t>> others;
  for (std::size_t k = 0; k < points_.keys.size(); ++k) {
    const std::string& word = points_.keys[k].word;
    const std::string& value = points_.rows[number][k];
    if (value.empty()) continue;
    const auto whole = [&] { return static_cast<std::uint64_t>(*number_of(points_.keys[k], value)); };
    if (word == "model") {
      q.model = value;
    } else if (word == "cluster") {
      q.cluster = value;
    } else if (word == "for") {
      q.framework = value;
    } else if (word == "gpus") {
      q.flags.gpus = static_cast<std::uint32_t>(whole());
    } else if (word == "workload.batch") {
      q.batch = whole();
    } else if (word == "workload.sequence") {
      q.sequence = whole();
    } else if (word == "workload.precision") {
      q.precision = value;
    } else if (word == "workload.optimizer.kind") {
      q.optimizer = value;
    } else if (word == "workload.adapters.rank") {
      q.adapters = static_cast<std::uint32_t>(whole());
      if (q.adapters == 0) q.adapter_matrices.reset(), q.base = "unquantized", q.double_quantization = false;
    } else {
      std::string ignored;
      others.emplace_back(points_.keys[k].dimension, *value_named(*points_.keys[k].dimension, value, ignored));
    }
  }
  Prepared out;
  out.task = search_task(std::move(q));
  for (const auto& [d, value] : others) {
    if (!is_searched(*d)) {
      PlannedRun run = planned_run(*out.task, {}, "");
      std::string why;
      if (!put(run, *d, value, why)) {
        out.wrong.error("sweep.value", fmt::format("{} cannot be {}", d->word(), text_of(*d, value)), {why});
      }
      out.task->workload = run.workload;
      static_cast<void>(check_workload(out.task->workload, out.wrong));  // the mistakes are in `wrong`
      continue;
    }
    if (is_named(*d) && d->names[value] == "auto") continue;
    SearchSpace& space = out.task->space;
    space.limits = both(std::move(space.limits), {{{std::string(d->key), {value}}}});
    if (!space.limits.only.at(std::string(d->key)).empty()) continue;
    out.wrong.error("sweep.value", fmt::format("{} {} is not searched", d->word(), text_of(*d, value)),
                    {space.assumed ? fmt::format("{}, the usual program here, does not launch it; for = \"any\" does.",
                                                 space.framework->title)
                                   : "--only or the program of --for leaves it out."});
  }
  const SearchTask& t = *out.task;
  out.content = fmt::format("search\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", write_model(t.model), write_workload(t.workload),
                            write_cluster(t.cluster), limits_text(t.space.limits), t.question.framework,
                            name_of(t.objective), t.headroom.base(), prices_text(t.calibration, t.question.flags));
  return out;
}

PointComputer::Prepared PointComputer::prepared_plan(std::uint64_t number) const {
  PlannedRun run = *base_.plan;
  const Library library = library_of(base_.question.flags);
  const std::string& model = points_.value(number, "model");
  const std::string& cluster = points_.value(number, "cluster");
  const std::string& gpus = points_.value(number, "gpus");
  Prepared out;
  if (!points_.value(number, "for").empty()) run.framework = points_.value(number, "for");
  const auto wrong = [&](std::string reason) {
    out.wrong.error("sweep.value", "no plan near the given one is valid here", {std::move(reason)});
    return std::move(out);
  };
  std::string reason;
  if (!model.empty()) {
    Diagnostics d;
    std::optional<ModelSpec> spec = named_model(library, model, d);
    require_none(d);
    const std::optional<Move> move = with_model(run, std::move(*spec), library.portable_model(model, ""), reason);
    if (!move) return wrong(reason);
    run = move->run;
  }
  if (!cluster.empty() || !gpus.empty()) {
    const std::string reference = cluster.empty() ? run.cluster_reference : with_nic(cluster, base_.question.flags);
    const std::uint64_t devices = gpus.empty() ? run.cluster->devices() : std::stoull(gpus);
    Diagnostics d;
    std::optional<ClusterSpec> spec = named_cluster(library, reference, static_cast<std::uint32_t>(devices), d);
    require_none(d);
    const std::optional<Move> move = with_cluster(run, std::move(*spec), portable(reference, ""), reason);
    if (!move) return wrong(reason);
    run = move->run;
  }
  std::string words;
  for (std::size_t k = 0; k < points_.keys.size(); ++k) {
    const SweepKey& key = points_.keys[k];
    const std::string& value = points_.rows[number][k];
    if (key.dimension == nullptr || key.word == "gpus" || value.empty()) continue;
    words += fmt::format("{}{}={}", words.empty() ? "" : " ", key.word, value);
  }
  Diagnostics d;
  static_cast<void>(put_words(run, words, d));
  for (const Diagnostic& m : d.list()) out.wrong.error("sweep.value", m.message, m.details);
  if (!out.wrong.empty()) return out;
  out.plan = checked_run(std::move(run), base_.question.flags);
  out.content =
      fmt::format("estimate\n{}\n{}\n{}\n{}", write_plan(out.plan->run), write_model(out.plan->run.model),
                  write_cluster(*out.plan->run.cluster), prices_text(out.plan->calibration, base_.question.flags));
  return out;
}

PointComputer::Prepared PointComputer::prepared(std::uint64_t number) const {
  try {
    return base_.plan ? prepared_plan(number) : prepared_search(number);
  } catch (const InputError& wrong) {
    if (is_fatal(wrong.diagnostics)) throw;
    Prepared out;
    out.wrong = wrong.diagnostics;
    return out;
  }
}

void PointComputer::check_names() const {
  std::set<std::vector<std::string>> seen;
  for (std::uint64_t i = 0; i < points_.size(); ++i) {
    if (!seen.insert({points_.value(i, "model"), points_.value(i, "cluster"), points_.value(i, "for")}).second)
      continue;
    static_cast<void>(prepared(i));
  }
}

namespace {

std::string digest_of_content(const std::string& content, const std::string& prices,
                              const std::vector<std::string>& values, std::optional<Seconds> keep_below) {
  std::uint64_t digest = fnv1a(content, fnv1a(orrery_version()));
  digest = fnv1a(prices, fnv1a("\n", digest));
  for (const std::string& value : values) digest = fnv1a(value, fnv1a("\n", digest));
  if (keep_below) digest = fnv1a(exact_text(*keep_below), fnv1a("\n", digest));
  return fmt::format("{:016x}", digest);
}

}  // namespace

std::string PointComputer::digest(std::uint64_t number) const {
  return digest_of_content(prepared(number).content, prices_, points_.rows[number], base_.keep_below);
}

std::optional<SweptPoint> PointComputer::compute(std::uint64_t number, std::uint32_t threads,
                                                 const std::atomic<bool>* cancel) const {
  using State = SweptPoint::State;
  const Prepared ready = prepared(number);
  SweptPoint out;
  out.number = number;
  out.values = points_.rows[number];
  out.digest = digest_of_content(ready.content, prices_, out.values, base_.keep_below);
  if (!ready.wrong.empty()) {
    const Diagnostic& first = ready.wrong.list().front();
    out.code = first.code;
    out.reason = first.message + (first.details.empty() ? "" : ": " + first.details.front());
    return out;
  }
  const Seconds least = least_step(ready.model(), ready.workload(), ready.cluster());
  if (base_.keep_below && least >= *base_.keep_below) {
    out.state = State::ruled_out;
    out.reason = fmt::format("matrix products alone take {} at the peak of {}", short_text(least),
                             devices_text(ready.cluster()));
    return out;
  }
  const std::uint64_t tokens = ready.workload().global_batch * ready.workload().sequence_length;
  if (ready.task) {
    SearchOptions options;
    options.top = 1;  // how many more are listed does not change the best
    options.simulate = false;
    options.threads = threads;
    options.cancel = cancel;
    const SearchResult result = search(*ready.task, options);
    if (!result.complete) return std::nullopt;
    out.estimated = result.estimated;
    if (result.plans.empty()) {
      out.state = State::no_fit;
      out.reason = result.rejected ? "the nearest plan needs " +
                                         text_of(memory_verdict(result.rejected->report, ready.task->headroom))
                                   : result.claim;
      return out;
    }
    const FoundPlan& best = result.plans.front();
    out.state = State::found;
    out.figures = figures_of(best.report, headline_step(best.report), tokens);
    out.description = describe(best.plan);
    out.plan_file = write_plan(planned_run(*ready.task, best.plan, plan_name(*ready.task, 0)));
    return out;
  }
  const LoadedPlan loaded = resolved_and_lowered(*ready.plan);
  const Report report = estimated(loaded, base_.question.flags.expandable_segments);
  out.estimated = 1;
  out.description = describe(loaded.run.plan);
  out.plan_file = write_plan(loaded.run);
  if (!report.fits) {
    out.state = State::no_fit;
    out.reason = verdict_text(report);
    return out;
  }
  out.state = State::found;
  out.figures = figures_of(report, headline_step(report), tokens);
  return out;
}

}  // namespace orrery
