#include "core/program/lower/pipeline_transfers.hpp"

#include <fmt/format.h>

#include <string>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {

std::vector<Action> with_transfers(const std::vector<Action>& order, std::uint32_t stage, std::uint32_t stages) {
  const bool first = stage == 0;
  const bool last = stage + 1 == stages;
  if (first && last) return order;
  std::vector<Action> out;
  out.reserve(order.size() * 3);
  const auto add = [&](Phase phase, const Action& of) { out.push_back({phase, of.chunk, of.microbatch}); };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Action& now = order[i];
    if (now.phase == Phase::forward) {
      const bool turned = i > 0 && order[i - 1].phase == Phase::backward;
      if (!first) add(Phase::receive_hidden, now);
      if (!first && turned) add(Phase::send_gradient, order[i - 1]);
      out.push_back(now);
      if (!last) add(Phase::send_hidden, now);
    } else {
      if (!last) add(Phase::receive_gradient, now);
      out.push_back(now);
      const bool turns = i + 1 < order.size() && order[i + 1].phase == Phase::forward;
      if (!first && !turns) add(Phase::send_gradient, now);
    }
  }
  return out;
}

namespace {

std::string before(const State& s) {
  if (s.stages.empty()) return "there is no schedule";
  for (const Stage& stage : s.stages) {
    if (stage.step.empty()) return fmt::format("stage {} has no schedule", stage.number);
    if (count(stage.step, Phase::forward) + count(stage.step, Phase::backward) != stage.step.size()) {
      return fmt::format("stage {} does more than compute", stage.number);
    }
  }
  return {};
}

void build_transfers(State& s, Stage& stage) {
  const std::uint32_t i = stage.number;
  const auto build = [&](Phase phase, const char* name, bool send, std::uint32_t peer, std::uint8_t channel) {
    const bool hidden = channel == 0;
    BlockBuilder b(s, std::string(name) + ".stage" + std::to_string(i), hidden ? Pass::forward : Pass::input_gradient,
                   Section::transfers, i);
    const BufferId what = hidden ? s.hidden : s.hidden_gradient;
    b.transfer(send, s.pipeline_group, Peer{peer}, channel, send ? read(what) : write(what));
    stage.blocks[static_cast<std::size_t>(phase)] = b.finish(s);
  };
  if (i > 0) {
    build(Phase::receive_hidden, "receive.hidden", false, i - 1, 0);
    build(Phase::send_gradient, "send.gradient", true, i - 1, 1);
  }
  if (i + 1 < s.pipeline) {
    build(Phase::send_hidden, "send.hidden", true, i + 1, 0);
    build(Phase::receive_gradient, "receive.gradient", false, i + 1, 1);
  }
}

void run(State& s) {
  for (Stage& stage : s.stages) {
    build_transfers(s, stage);
    stage.step = with_transfers(stage.step, stage.number, s.pipeline);
  }
}

/// What one stage sends, its neighbour receives: the same microbatches in the same order.
std::string after(const State& s) {
  const auto microbatches = [](const Stage& stage, Phase phase) {
    std::vector<std::uint32_t> list;
    for (const Action& a : stage.step) {
      if (a.phase == phase) list.push_back(a.microbatch);
    }
    return list;
  };
  for (std::uint32_t i = 0; i + 1 < s.pipeline; ++i) {
    const Stage& a = s.stages[i];
    const Stage& b = s.stages[i + 1];
    if (microbatches(a, Phase::send_hidden) != microbatches(b, Phase::receive_hidden) ||
        microbatches(b, Phase::send_gradient) != microbatches(a, Phase::receive_gradient) ||
        count(a.step, Phase::send_hidden) != s.program.microbatches) {
      return fmt::format("stages {} and {} do not exchange the same microbatches", i, i + 1);
    }
  }
  return {};
}

}  // namespace

LoweringPass pipeline_transfers() { return {"pipeline_transfers", before, run, after}; }

}  // namespace orrery::lowering
