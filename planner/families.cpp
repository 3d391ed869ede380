#include "planner/families.hpp"

#include <algorithm>
#include <optional>

namespace orrery {

Rating rating(Objective objective, Picoseconds step, std::uint64_t peak_bytes) {
  switch (objective) {
    case Objective::step_time:
    case Objective::cost: return {step, 0};
    case Objective::memory: return {static_cast<std::int64_t>(peak_bytes), step};
  }
  return {};
}

bool is_listed_elsewhere(const Plan& plan) {
  const std::vector<std::uint32_t>& counts = *plan.recompute_layers;
  return counts == *plan.stage_layers ||
         (plan.recompute == Recompute::selective &&
          std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; }));
}

namespace {

class Expander {
 public:
  Expander(const Family& family, const Space& space, std::uint64_t capacity, Objective objective, const Rating& worst,
           Bounder& bounder, MeshOrders& orders)
      : family_(family),
        space_(space),
        shape_(space.shapes[family.shape]),
        capacity_(capacity),
        objective_(objective),
        worst_(worst),
        bounder_(bounder),
        orders_(orders) {}

  Expansion run() {
    plan_.tensor = shape_.tensor;
    plan_.gradient_bucket = shape_.gradient_bucket;
    plan_.stage_layers = splits_of(space_, shape_, {}).front();
    switch (family_.level) {
      case Family::Level::shape: blocks(); break;
      case Family::Level::blocks: meshes(); break;
      case Family::Level::mesh: schedules(); break;
      case Family::Level::schedule: plans(); break;
      case Family::Level::plan: look(); break;
      case Family::Level::candidate: ORRERY_ASSERT(false, family_.first); break;
    }
    return std::move(out_);
  }

 private:
  void add(Family part, Family::Level level, Picoseconds step, std::uint64_t peak) {
    if (peak > capacity_) {
      out_.infeasible += part.count;
      return;
    }
    part.level = level;
    // A part needs what its family does.
    part.step = std::max(step, family_.step);
    part.peak = std::max(peak, family_.peak);
    part.bound = rating(objective_, part.step, part.peak);
    (worst_ < part.bound ? out_.beyond : out_.inside).push_back(part);
  }

  std::uint32_t plain_zero() const {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < shape_.plain_states; ++i) most = std::max(most, shape_.states[i].zero_stage);
    return most;
  }

  /// The pipelines of plans with one microbatch size; plan_ has a mesh of the shape and that size.
  std::vector<FamilyPipeline> pipelines_with(const MicrobatchSpace& m) {
    std::vector<FamilyPipeline> out;
    for (const ScheduleChoice& s : m.schedules) {
      const bool shards = states_with(shape_, s) > shape_.plain_states;
      // A schedule without plain states has those of ZeRO-2 and 3, whose bound is taken besides.
      out.push_back({s.schedule, s.chunks, &splits_of(space_, shape_, s), shards, 0, 0, 0, 0});
    }
    bounder_.weigh(out, plan_);
    return out;
  }

  void blocks() {
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (shape_.sizes[a] > 1) plan_.mesh.axes.push_back({static_cast<Axis>(a), shape_.sizes[a]});
    }
    choose(plan_, shape_.states.front());
    Family part = family_;
    for (part.microbatch = 0; part.microbatch < shape_.microbatches.size(); ++part.microbatch) {
      const MicrobatchSpace& m = shape_.microbatches[part.microbatch];
      plan_.microbatch_size = m.size;
      part.count = m.plans * shape_.orders;
      const std::vector<FamilyPipeline> pipelines = pipelines_with(m);
      // All block choices at once, where their matrix products alone take too long.
      choose(plan_, shape_.blocks.front());
      if (leave_all(part, shape_.blocks.size(), bounder_.any_block(plan_, plain_zero(), pipelines, capacity_))) {
        part.first += part.count * shape_.blocks.size();
        continue;
      }
      for (part.block = 0; part.block < shape_.blocks.size(); ++part.block) {
        choose(plan_, shape_.blocks[part.block]);
        const FamilyBound bound = bounder_.any_order(plan_, plain_zero(), pipelines, capacity_);
        add(part, Family::Level::blocks, bound.step, bound.peak);
        part.first += part.count;
      }
    }
  }

  void meshes() {
    const MicrobatchSpace& m = shape_.microbatches[family_.microbatch];
    plan_.microbatch_size = m.size;
    choose(plan_, shape_.blocks[family_.block]);
    choose(plan_, shape_.states.front());
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (shape_.sizes[a] > 1) plan_.mesh.axes.push_back({static_cast<Axis>(a), shape_.sizes[a]});
    }
    Family part = family_;
    part.count = m.plans;
    const std::vector<FamilyPipeline> pipelines = pipelines_with(m);
    for (const Mesh& mesh : orders_.of(family_.shape)) {
      plan_.mesh = mesh;
      const FamilyBound bound = bounder_.any_schedule(plan_, plain_zero(), pipelines, capacity_);
      add(part, Family::Level::mesh, bound.step, bound.peak);
      part.first += part.count;
      ++part.order;
    }
  }

  /// Gives plan_ what plans of the mesh share.
  const MicrobatchSpace& on_mesh() {
    const MicrobatchSpace& m = shape_.microbatches[family_.microbatch];
    plan_.microbatch_size = m.size;
    choose(plan_, shape_.blocks[family_.block]);
    plan_.mesh = orders_.of(family_.shape)[family_.order];
    return m;
  }

  void schedules() {
    const MicrobatchSpace& m = on_mesh();
    choose(plan_, shape_.states.front());
    Family part = family_;
    for (const FamilyBound& bound : bounder_.each_schedule(plan_, plain_zero(), pipelines_with(m), capacity_)) {
      const ScheduleChoice& schedule = m.schedules[part.schedule];
      part.count = splits_of(space_, shape_, schedule).size() * states_with(shape_, schedule);
      add(part, Family::Level::schedule, bound.step, bound.peak);
      part.first += part.count;
      ++part.schedule;
    }
  }

  void plans() {
    const ScheduleChoice& schedule = on_mesh().schedules[family_.schedule];
    choose(plan_, schedule);
    const std::size_t states = states_with(shape_, schedule);
    Family part = family_;
    part.count = 1;
    for (const std::vector<std::uint32_t>& split : splits_of(space_, shape_, schedule)) {
      plan_.stage_layers = split;
      start_counts();
      choose(plan_, shape_.states.front());
      // All states at once, where the passes alone take too long.
      const Picoseconds least = bounder_.any_state(plan_);
      if (worst_ < rating(objective_, least, family_.peak)) {
        Family all = part;
        all.count = states;
        add(all, Family::Level::plan, least, family_.peak);
        part.first += states;
        ++part.split;
        continue;
      }
      // ZeRO 0 and 1 share their passes.
      std::optional<Family> plain;
      for (std::size_t i = 0; i < states; ++i) {
        choose(plan_, shape_.states[i]);
        start_counts();
        if (!recompute_fewest(Bounder::Memory::closed_form)) continue;
        const std::uint64_t peak = least_peak(bounder_.peak_memory(plan_));
        if (peak > capacity_) {
          ++out_.infeasible;
          continue;
        }
        const Picoseconds step = std::max(least, bounder_.step_time(plan_));
        part.states = std::uint32_t{1} << i;
        if (i >= shape_.plain_states || worst_ < rating(objective_, step, std::max(peak, family_.peak))) {
          add(part, Family::Level::plan, step, peak);
        } else if (!plain) {
          plain = part;
          plain->step = step;
          plain->peak = peak;
        } else {
          ++plain->count;
          plain->states |= part.states;
          plain->step = std::min(plain->step, step);
          plain->peak = std::min(plain->peak, peak);
        }
      }
      if (plain) add(*plain, Family::Level::plan, plain->step, plain->peak);
      part.first += states;
      ++part.split;
    }
  }

  /// Leaves out all of `times` as many plans as the part has where the bound says so.
  bool leave_all(Family part, std::uint64_t times, const FamilyBound& bound) {
    if (bound.peak <= capacity_ && !(worst_ < rating(objective_, bound.step, bound.peak))) return false;
    part.count *= times;
    add(part, part.level, bound.step, bound.peak);
    return true;
  }

  /// As if no layer were recomputed, of plans with the fewest.
  void start_counts() {
    if (plan_.recompute_layers) plan_.recompute_layers->assign(plan_.stage_layers->size(), 0);
  }
  /// As many as the plan needs by that look at its memory; false where it is left out.
  bool recompute_fewest(Bounder::Memory by) {
    if (!plan_.recompute_layers) return true;
    if (!bounder_.recompute_fewest(plan_, capacity_, by)) {
      ++out_.infeasible;
      return false;
    }
    if (!bounder_.knows_memory(plan_) || !is_listed_elsewhere(plan_)) return true;
    ++out_.same;
    return false;
  }

  /// The Program may ask for more recomputed layers than a closed form, and then hold less.
  std::uint64_t least_peak(std::uint64_t known) const {
    return plan_.recompute_layers && !bounder_.knows_memory(plan_) ? family_.peak : known;
  }

  void look() {
    const ScheduleChoice& schedule = on_mesh().schedules[family_.schedule];
    choose(plan_, schedule);
    plan_.stage_layers = splits_of(space_, shape_, schedule)[family_.split];
    Family part = family_;
    part.count = 1;
    part.kind = kind_of(plan_);
    for (std::uint32_t i = 0; family_.states >> i != 0; ++i) {
      if ((family_.states >> i & 1U) == 0) continue;
      choose(plan_, shape_.states[i]);
      part.first = family_.first + i;
      start_counts();
      if (!recompute_fewest(Bounder::Memory::closed_form)) continue;
      Bounder::Look closer = bounder_.closer(plan_, capacity_);
      if (plan_.recompute_layers && closer.peak > capacity_) {
        if (!recompute_fewest(Bounder::Memory::passes)) continue;
        closer = bounder_.closer(plan_, capacity_);
      }
      add(part, Family::Level::candidate, closer.step, closer.peak > capacity_ ? closer.peak : least_peak(closer.peak));
    }
  }

  /// Of its schedule, chunks, pipeline and microbatches.
  static std::uint64_t kind_of(const Plan& plan) {
    std::uint64_t kind = static_cast<std::uint64_t>(plan.schedule);
    for (const std::uint64_t n : {plan.chunks, plan.mesh.size(Axis::pipeline)}) kind = kind << 16 | n;
    return kind << 24 | plan.microbatch_size;
  }

  const Family& family_;
  const Space& space_;
  const ShapeSpace& shape_;
  const std::uint64_t capacity_;
  const Objective objective_;
  const Rating worst_;
  Bounder& bounder_;
  MeshOrders& orders_;
  Plan plan_;
  Expansion out_;
};

}  // namespace

Expansion expand(const Family& family, const Space& space, std::uint64_t capacity, Objective objective,
                 const Rating& worst, Bounder& bounder, MeshOrders& orders) {
  return Expander(family, space, capacity, objective, worst, bounder, orders).run();
}

std::vector<Family> shape_families(const Space& space) {
  std::vector<Family> families;
  families.reserve(space.shapes.size());
  for (const ShapeSpace& s : space.shapes) {
    Family f;
    f.shape = static_cast<std::uint32_t>(families.size());
    f.first = s.first;
    f.count = s.count;
    families.push_back(f);
  }
  return families;
}

}  // namespace orrery
