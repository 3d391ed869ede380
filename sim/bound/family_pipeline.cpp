#include "sim/bound/family_pipeline.hpp"

#include <algorithm>
#include <limits>

#include "core/plan/schedule_rules.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {

Keeping keeping_of(const Plan& plan) {
  if (plan.zero_stage < 2) return Keeping::plain;
  if (plan.zero_stage == 2) return Keeping::zero_2;
  if (plan.parameter_chunk > Bytes()) return Keeping::zero_3_chunks;
  return plan.reshard_after_forward ? Keeping::zero_3_anew : Keeping::zero_3_kept;
}

void weigh(FamilyPipeline& known, const Plan& plan, const ModelSpec& model, const Workload& workload) {
  const std::uint64_t m = microbatches(plan, workload);
  Plan on = plan;
  on.schedule = known.schedule;
  on.chunks = known.chunks;
  const StageMap map = stage_map(on);
  const bool whole = !splits_backward(on);
  std::vector<std::vector<std::uint64_t>> in_flight_of;
  for (std::uint32_t r = 0; r < map.ranks; ++r) in_flight_of.push_back(microbatches_in_flight(on, r, m));
  bool first = true;
  known.blocks = block_schedule(on);
  known.two_way = map.two_way();
  known.keeps_all = true;
  known.smallest = 0;
  const std::uint64_t most = (model.layers + map.ranks - 1) / map.ranks;
  known.ahead = std::numeric_limits<double>::max();
  for (const std::vector<std::uint32_t>& split : *known.splits) {
    // Where backward is whole a microbatch takes a pass of all layers.
    double passes = whole ? static_cast<double>(model.layers) : 0, entered = passes, kept = 0;
    std::uint32_t fewest = ~std::uint32_t{0};
    const double each = static_cast<double>(m) / map.pipes();
    double in_flight_most = 0, held_least = std::numeric_limits<double>::max();
    std::array<double, 8> kept_plain{};  // of the rank that keeps the most
    double reduced = 0, reduced_any = std::numeric_limits<double>::max(), above = 0;
    std::vector<double> layers_above(split.size() + 1, 0);
    for (std::size_t s = split.size(); s-- > 0;) layers_above[s] = layers_above[s + 1] + split[s];
    double entry = 0;  // layers before the rank's lowest stage
    for (std::uint32_t r = 0; r < map.ranks; ++r) {
      const std::vector<std::uint64_t>& in_flight = in_flight_of[r];
      std::uint32_t layers = 0;
      std::array<double, 8> held_plain{};
      double held = 0, of_most = 0, above_all = std::numeric_limits<double>::max();
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        const std::uint32_t n = split[map.stage(r, c)];
        layers += n;
        held += static_cast<double>(in_flight[c]) * n;
        for (std::uint32_t e = 0; e < 8; ++e) held_plain[e] += static_cast<double>(in_flight[c]) * (n * (8 - e) / 8);
        known.smallest = known.smallest == 0 ? n : std::min(known.smallest, n);
        // A message takes at least as long as that of the most layers times its share of them.
        of_most += std::min(1.0, n / static_cast<double>(most)) / map.pipes();
        above_all = std::min(above_all, layers_above[map.stage(r, c) + 1]);
        in_flight_most = std::max(in_flight_most, static_cast<double>(in_flight[c]));
        known.keeps_all = known.keeps_all && in_flight[c] > 0;
      }
      // A rank enters after a forward pass of those layers, and where backward is whole their backward follows it.
      passes = std::max(passes, each * layers + (whole ? entry : 0.0));
      entered = std::max(entered, each * layers + forward_share * entry);
      if (held > kept) kept = held, kept_plain = held_plain;
      held_least = std::min(held_least, held);
      reduced = std::max(reduced, map.two_way() ? of_most : 1.0);
      reduced_any = std::min(reduced_any, of_most);
      above = std::max(above, above_all);
      if (map.two_way()) {
        known.ahead = 0;
      } else if (layers >= most) {
        known.ahead = std::min(known.ahead, held);
      }
      fewest = std::min(fewest, layers);
      if (!map.two_way()) entry += split[r];
    }
    known.passes = first ? passes : std::min(known.passes, passes);
    known.entered = first ? entered : std::min(known.entered, entered);
    known.kept = first ? kept : std::min(known.kept, kept);
    known.held = first ? held_least : std::min(known.held, held_least);
    for (std::uint32_t e = 0; e < 8; ++e) {
      known.kept_plain[e] = first ? kept_plain[e] : std::min(known.kept_plain[e], kept_plain[e]);
    }
    known.reduced = first ? reduced : std::min(known.reduced, reduced);
    known.reduced_any = first ? reduced_any : std::min(known.reduced_any, reduced_any);
    known.above = first ? above : std::min(known.above, above);
    known.layers = first ? fewest : std::min(known.layers, fewest);
    known.in_flight = in_flight_most;
    known.stages = map.chunks;
    first = false;
  }
}

}  // namespace orrery
