#include "core/record/lifecycle.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace orrery {
namespace {

constexpr double seconds = 1e-12;  // per picosecond

bool is_of_microbatch(Pass pass) {
  return pass == Pass::forward || pass == Pass::recompute || pass == Pass::input_gradient ||
         pass == Pass::weight_gradient;
}

class Log final : public LifecycleHooks {
 public:
  explicit Log(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

  void init(const InitEvent& e) override { line("init", {{"origin", e.origin}, {"ranks", e.ranks}}); }
  void step(const StepEvent& e) override {
    nlohmann::ordered_json json{{"step", e.step}, {"warmup", e.warmup}, {"duration_s", seconds_of(e.duration)}};
    if (e.loss) json["loss"] = *e.loss;
    line("step", json);
  }
  void microbatch(const MicrobatchEvent& e) override {
    line("microbatch", {{"step", e.step},
                        {"rank", index(e.rank)},
                        {"microbatch", e.microbatch},
                        {"pass", name_of(e.pass)},
                        {"start_s", seconds_of(e.span.start)},
                        {"end_s", seconds_of(e.span.end)}});
  }
  void operation(const OperationEvent& e) override { operation_line("operation", e); }
  void collective(const OperationEvent& e) override { operation_line("collective", e); }
  void checkpoint(const CheckpointEvent& e) override { line("checkpoint", {{"step", e.step}, {"path", e.path}}); }
  void failure(const FailureEvent& e) override { line("failure", {{"what", e.what}}); }
  void recovery(const CheckpointEvent& e) override { line("recovery", {{"step", e.step}, {"path", e.path}}); }
  void restart(const RestartEvent& e) override {
    line("restart", {{"restart", e.restart}, {"step", e.step}, {"ranks", e.ranks}, {"plan", e.plan}});
  }
  void noise(const NoiseEvent& e) override {
    nlohmann::ordered_json json{{"step", e.step},
                                {"small_batch", e.small_batch},
                                {"large_batch", e.large_batch},
                                {"small_square_norm", e.small_square},
                                {"large_square_norm", e.large_square}};
    json["noise_scale"] = e.scale ? nlohmann::ordered_json(*e.scale) : nlohmann::ordered_json(nullptr);
    line("noise", json);
  }
  void adaptation(const AdaptationEvent& e) override {
    if (e.took_s) {
      line("adaptation", {{"step", e.step}, {"decision", "changed"}, {"plan", e.plan}, {"took_s", *e.took_s}});
      return;
    }
    nlohmann::ordered_json json{{"step", e.step},
                                {"decision", e.changes ? "changes" : "stays"},
                                {"why", e.why},
                                {"measured_s", e.measured_s},
                                {"predicted_s", e.predicted_s},
                                {"plan", e.plan},
                                {"other_plan", nullptr},
                                {"other_s", nullptr},
                                {"gain_s", e.gain_s},
                                {"cost_s", e.cost_s},
                                {"latency_factor", e.latency},
                                {"bytes_factor", e.bytes},
                                {"products_factor", e.products},
                                {"others_factor", e.others}};
    if (e.other) json["other_plan"] = *e.other;
    if (e.other) json["other_s"] = e.other_s;
    line("adaptation", json);
  }
  void shutdown(const ShutdownEvent& e) override { line("shutdown", {{"steps", e.steps}}); }

 private:
  static double seconds_of(std::int64_t picoseconds) { return static_cast<double>(picoseconds) * seconds; }

  void operation_line(const char* event, const OperationEvent& e) {
    line(event, {{"step", e.step},
                 {"rank", index(e.rank)},
                 {"op", index(e.op)},
                 {"name", name_of(e.kind)},
                 {"pass", name_of(e.pass)},
                 {"layer", e.layer},
                 {"microbatch", e.microbatch},
                 {"start_s", seconds_of(e.span.start)},
                 {"end_s", seconds_of(e.span.end)}});
  }

  void line(const char* event, const nlohmann::ordered_json& what) {
    nlohmann::ordered_json json{{"event", event}};
    json.update(what);
    write_(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }

  std::function<void(const std::string&)> write_;
};

}  // namespace

void tell_step(LifecycleHooks& hooks, const Program& program, const Trace& trace, StepEvent step) {
  struct Told {
    OperationEvent operation;
    bool collective = false;
    std::optional<MicrobatchEvent> completed;
  };
  std::vector<Told> told;
  for (const RankTrace& rank : trace.ranks) {
    // By microbatch and pass: its span, and the op that ends last.
    std::map<std::pair<std::uint32_t, Pass>, std::pair<Span, std::size_t>> microbatches;
    for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& run) {
      const Span& span = rank.spans[index(run.id)];
      step.duration = std::max(step.duration, span.end);
      if (!is_timed(*run.op)) return;
      const Pass pass = run.block->pass;
      const std::size_t at = told.size();
      told.push_back({{step.step, rank.rank, run.id, operation_of(program, *run.block, *run.op), pass, run.layer,
                       run.microbatch, span},
                      std::holds_alternative<Collective>(run.op->action),
                      {}});
      if (!is_of_microbatch(pass)) return;
      auto& [whole, last] = microbatches.try_emplace({run.microbatch, pass}, span, at).first->second;
      whole.start = std::min(whole.start, span.start);
      if (span.end >= whole.end) last = at;
      whole.end = std::max(whole.end, span.end);
    });
    for (const auto& [key, value] : microbatches) {
      told[value.second].completed = MicrobatchEvent{step.step, rank.rank, key.first, key.second, value.first};
    }
  }
  const auto order = [](const Told& t) {
    return std::make_tuple(t.operation.span.end, index(t.operation.rank), index(t.operation.op));
  };
  std::sort(told.begin(), told.end(), [&](const Told& a, const Told& b) { return order(a) < order(b); });
  for (const Told& t : told) {
    t.collective ? hooks.collective(t.operation) : hooks.operation(t.operation);
    if (t.completed) hooks.microbatch(*t.completed);
  }
  hooks.step(step);
}

std::unique_ptr<LifecycleHooks> lifecycle_log(std::function<void(const std::string&)> write) {
  return std::make_unique<Log>(std::move(write));
}

}  // namespace orrery
