#include "core/plan/schedule_rules.hpp"

namespace orrery {

const ScheduleRules& rules_of(ScheduleName name) {
  using enum StagePlacement;
  static constexpr ScheduleRules whole{}, several{loop, 2, 0, false, false}, rounds{loop, 2, 0, false, true},
      split{loop, 1, 1, true, false}, v_split{v, 2, 2, true, false};
  switch (name) {
    case ScheduleName::gpipe: return whole;
    case ScheduleName::one_f_one_b: return whole;
    case ScheduleName::eager_one_f_one_b: return whole;
    case ScheduleName::interleaved: return rounds;
    case ScheduleName::breadth_first: return several;
    case ScheduleName::zb_h1: return split;
    case ScheduleName::zb_h2: return split;
    case ScheduleName::zb_v: return v_split;
    // Not readable yet.
    case ScheduleName::v_half:
    case ScheduleName::v_min:
    case ScheduleName::chimera:
    case ScheduleName::dualpipe:
    case ScheduleName::dualpipe_v:
    case ScheduleName::custom: break;
  }
  return whole;
}

StageMap stage_map(const Plan& plan) {
  return {plan.mesh.size(Axis::pipeline), plan.chunks, rules_of(plan.schedule).placement};
}

}  // namespace orrery
