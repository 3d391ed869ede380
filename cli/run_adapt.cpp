// `orrery run --adapt`: segments of a run, each under its own plan.

#include <fmt/format.h>

#include <string>

#include "cli/run_verb.hpp"
#include "core/program/program_text.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/remote_buffers.hpp"

namespace orrery {
namespace {

/// Rank 0's word to the others after a segment. The Program's text follows.
struct NextPlan {
  std::uint64_t text_bytes = 0;  ///< 0: the run is over
  std::uint64_t steps_before = 0, warmup_steps = 0, steps = 0, first_step = 0;
};

void tell_others(ProcessWorld& world, const LoadedPlan* next, const RunOptions& options) {
  const std::string text = next != nullptr ? write_program(next->program) : std::string();
  const NextPlan word{text.size(), options.steps_before, options.warmup_steps, options.steps, options.first_step};
  for (std::uint32_t r = 1; r < world.ranks(); ++r) {
    control_send(world, Rank{r}, &word, sizeof word);
    if (!text.empty()) control_send(world, Rank{r}, text.data(), text.size());
  }
}

}  // namespace

void RunVerb::check_adaptation() const {
  if (!adapt_tolerance(adapt_) && !adapt_.slow_links && adapt_.slow_from == 1) return;
  const char* const flag = adapt_.tolerance ? "--adapt" : "--slow-links";
  const std::pair<bool, const char*> refusals[] = {
      {backend_ == "cuda" || backend_ == "mpi", "it is for ranks on the host, with --backend threads or processes"},
      {measure_groups_.has_value(), "--measure-groups trains nothing"},
      {adapt_.tolerance && supervise_.wanted, "a supervised run keeps its plan"},
      {adapt_.tolerance && noise_scale_, "--noise-scale compares batches of data ranks, which another plan changes"}};
  for (const auto& [is_so, why] : refusals) {
    if (is_so) refuse("cli.adapt", fmt::format("{}: {}", flag, why));
  }
}

RunResult RunVerb::train(Prepared& p, ProcessWorld* world, const std::function<RunResult()>& segment) {
  const auto tolerance = adapt_tolerance(adapt_);
  if (!tolerance) return segment();
  adaptation_ = std::make_unique<Adaptation>(*tolerance, p.loaded, p.options, as_measured(p.loaded.run), flags_);
  return adaptation_->train(segment, [&](const LoadedPlan* next) {
    if (next != nullptr && changes_) {
      changes_->note({JournalEntry::Kind::began, 0, p.options.first_step - 1, now_ns(), 0, 0.0});
    }
    if (world != nullptr) tell_others(*world, next, p.options);
  });
}

void RunVerb::follow(Prepared& p, ProcessWorld& world, const std::function<void()>& segment) {
  for (;;) {
    segment();
    NextPlan word;
    control_receive(world, Rank{0}, &word, sizeof word);
    if (word.text_bytes == 0) return;
    std::string text(word.text_bytes, ' ');
    control_receive(world, Rank{0}, text.data(), text.size());
    Diagnostics d;
    std::optional<Program> program = read_program(text, "the plan that follows", d);
    require_none(d);
    p.loaded.program = std::move(*program);
    p.options.steps_before = word.steps_before;
    p.options.warmup_steps = word.warmup_steps;
    p.options.steps = word.steps;
    p.options.first_step = word.first_step;
  }
}

}  // namespace orrery
