#include "core/program/lower/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/order_memo.hpp"
#include "core/program/lower/passes.hpp"
#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

Schedule schedule_of(ScheduleName name) {
  switch (name) {
    case ScheduleName::gpipe: return schedule_gpipe;
    case ScheduleName::one_f_one_b: return schedule_1f1b;
    case ScheduleName::eager_one_f_one_b: return schedule_eager_1f1b;
    case ScheduleName::interleaved: return schedule_interleaved;
    case ScheduleName::breadth_first: return schedule_breadth_first;
    case ScheduleName::zb_h1: return schedule_zb_h1;
    case ScheduleName::zb_h2: return schedule_zb_h2;
    case ScheduleName::zb_v: return schedule_zb_v;
    case ScheduleName::custom: break;
    case ScheduleName::v_half: return schedule_v_half;
    case ScheduleName::v_min: return schedule_v_min;
    case ScheduleName::dualpipe_v: return schedule_dualpipe_v;
    case ScheduleName::chimera: return schedule_chimera;
    case ScheduleName::dualpipe: return schedule_dualpipe;
  }
  return nullptr;
}

Orders orders_of(const Plan& plan, std::uint32_t microbatches) {
  if (const Schedule schedule = schedule_of(plan.schedule)) {
    return schedule({plan.mesh.size(Axis::pipeline), plan.chunks, microbatches, plan.action_times});
  }
  Orders orders;
  for (const auto& rank : plan.order) {
    std::vector<Action>& order = orders.emplace_back();
    order.reserve(rank.size());
    for (const OrderedAction& a : rank) {
      const Phase phase = a.kind == OrderedAction::Kind::forward    ? Phase::forward
                          : a.kind == OrderedAction::Kind::backward ? Phase::backward
                                                                    : Phase::weight;
      order.push_back({phase, a.chunk, a.microbatch});
    }
  }
  return orders;
}

ComputeOrder compute_order(const Plan& plan, std::uint32_t microbatches) {
  ComputeOrder written{stage_map(plan).placement, plan.chunks, microbatches, {}};
  for (const auto& rank : orders_of(plan, microbatches)) {
    std::vector<OrderedAction>& order = written.ranks.emplace_back();
    for (const Action& a : rank) {
      const auto kind = a.phase == Phase::forward    ? OrderedAction::Kind::forward
                        : a.phase == Phase::backward ? OrderedAction::Kind::backward
                                                     : OrderedAction::Kind::weight;
      order.push_back({kind, a.chunk, a.microbatch});
    }
  }
  return written;
}

namespace {

std::string before(const State& s) {
  if (s.stages.size() != s.pipeline) return "the stages are not placed";
  for (const Stage& stage : s.stages) {
    if (stage.chunks.empty()) return fmt::format("stage {} holds nothing", stage.number);
    if (!stage.step.empty()) return fmt::format("stage {} already does something", stage.number);
  }
  return {};
}

void run(State& s) {
  build_model(s);
  const std::uint32_t m = s.program.microbatches;
  s.orders = s.memo != nullptr ? s.memo->of(s.plan, m) : make_orders(s.plan, m);
  for (Stage& stage : s.stages) stage.step = s.orders->compute[stage.number];
}

/// Each chunk runs every microbatch of its pipe forward once, later backward once and, where backward is split, its
/// weight gradients once after that. All blocks except those of setup hold compute alone.
std::string after(const State& s) {
  for (const Stage& stage : s.stages) {
    // How far each microbatch of each chunk has come.
    std::vector<std::uint8_t> done(std::size_t{stage.own_chunks} * s.program.microbatches);
    for (const Action& a : stage.step) {
      if (a.phase != Phase::forward && a.phase != Phase::backward && a.phase != Phase::weight) {
        return "a schedule has more than compute";
      }
      if (a.chunk >= stage.own_chunks || a.microbatch >= s.program.microbatches) {
        return fmt::format("stage {} has no chunk {} or no microbatch {}", stage.number, a.chunk, a.microbatch);
      }
      std::uint8_t& now = done[std::size_t{a.chunk} * s.program.microbatches + a.microbatch];
      const std::uint8_t needed = a.phase == Phase::forward ? 0 : a.phase == Phase::backward ? 1 : 2;
      if (now++ != needed) {
        return fmt::format("stage {} runs microbatch {} of chunk {} out of order", stage.number, a.microbatch, a.chunk);
      }
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      const auto chunk = static_cast<std::uint32_t>(i / s.program.microbatches);
      const auto microbatch = static_cast<std::uint32_t>(i % s.program.microbatches);
      const bool runs = s.map.runs(chunk, microbatch, s.program.microbatches);
      if (done[i] != (!runs ? 0 : s.split_backward ? 3 : 2)) {
        return fmt::format("stage {} does not run its microbatches", stage.number);
      }
    }
  }
  for (const Draft& d : s.drafts) {
    if (d.block.pass == Pass::setup) continue;
    if (!std::all_of(d.block.ops.begin(), d.block.ops.end(),
                     [](const Op& op) { return std::holds_alternative<Compute>(op.action); })) {
      return d.block.name + " has more than compute";
    }
  }
  return {};
}

}  // namespace

LoweringPass schedule() { return {"schedule", before, run, after}; }

}  // namespace orrery::lowering
