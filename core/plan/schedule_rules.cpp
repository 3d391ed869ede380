#include "core/plan/schedule_rules.hpp"

namespace orrery {

const ScheduleRules& rules_of(ScheduleName name) {
  using enum StagePlacement;
  static constexpr ScheduleRules whole{}, several{loop, 2, 0, false, false}, rounds{loop, 2, 0, false, true},
      split{loop, 1, 1, true, false}, v_split{v, 2, 2, true, false}, twice{v, 2, 2, true, false, 2},
      any{loop, 1, 0, true, false}, both_ways{two_way, 1, 1, false, true, 0, true},
      both_ways_split{two_way, 1, 1, true, false, 2, true};
  switch (name) {
    case ScheduleName::gpipe: return whole;
    case ScheduleName::one_f_one_b: return whole;
    case ScheduleName::eager_one_f_one_b: return whole;
    case ScheduleName::interleaved: return rounds;
    case ScheduleName::breadth_first: return several;
    case ScheduleName::zb_h1: return split;
    case ScheduleName::zb_h2: return split;
    case ScheduleName::zb_v: return v_split;
    case ScheduleName::custom: return any;
    case ScheduleName::v_half: return v_split;
    case ScheduleName::v_min: return v_split;
    case ScheduleName::dualpipe_v: return twice;
    case ScheduleName::chimera: return both_ways;
    case ScheduleName::dualpipe: return both_ways_split;
  }
  return whole;
}

StageMap stage_map(const Plan& plan) {
  const bool custom = plan.schedule == ScheduleName::custom;
  const StagePlacement placement = custom ? plan.order_placement : rules_of(plan.schedule).placement;
  return {plan.mesh.size(Axis::pipeline), placement == StagePlacement::two_way ? 2 : plan.chunks, placement};
}

bool splits_backward(const Plan& plan) {
  if (plan.schedule != ScheduleName::custom) return rules_of(plan.schedule).splits_backward;
  for (const auto& rank : plan.order) {
    for (const OrderedAction& a : rank) {
      if (a.kind == OrderedAction::Kind::weight) return true;
    }
  }
  return false;
}

}  // namespace orrery
