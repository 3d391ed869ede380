// Long, since every level looks into the next at once with what is known of the plan, its mesh and its passes by then.
#include "planner/families.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "planner/fewest_offloaded.hpp"
#include "planner/nearest_tiers.hpp"
#include "planner/outdone.hpp"

namespace orrery {

Rating rating(Objective objective, Picoseconds step, std::uint64_t peak_bytes) {
  switch (objective) {
    case Objective::step_time:
    case Objective::cost: return {step, 0};
    case Objective::memory: return {static_cast<std::int64_t>(peak_bytes), step};
  }
  return {};
}

bool is_listed_elsewhere(const Space& space, const Plan& plan) {
  const std::vector<std::uint32_t>& counts = *plan.recompute_layers;
  return counts_are_all(space, plan) ||
         (plan.recompute == Recompute::selective &&
          std::all_of(counts.begin(), counts.end(), [](std::uint32_t n) { return n == 0; }));
}

namespace {

class Expander {
 public:
  Expander(const Family& family, const Space& space, const Room& room, Objective objective, const Rating& worst,
           Bounder& bounder, ShapeMeshes& orders)
      : family_(family),
        space_(space),
        shape_(space.shapes[family.shape]),
        capacity_(room.device),
        safe_(room.safe),
        host_room_(room.host),
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
      case Family::Level::schedule: schedule(); break;
      case Family::Level::plan: look(); break;
      case Family::Level::candidate: ORRERY_ASSERT(false, family_.first); break;
    }
    return std::move(out_);
  }

 private:
  void add(Family part, Family::Level level, Picoseconds step, std::uint64_t peak) {
    if (within(part, level, step, peak)) out_.inside.push_back(part);
  }

  /// The same of a part that is looked into at once, by `look`, where the worst of the best is known: what is known of
  /// its mesh and stages is at hand now, and it would be looked into in any case unless much better plans came up.
  template <class Look>
  void add_and_look(Family part, Family::Level level, Picoseconds step, std::uint64_t peak, Look&& look) {
    if (!within(part, level, step, peak)) return;
    if (!worst_is_known()) {
      out_.inside.push_back(part);
      return;
    }
    std::swap(part, family_);
    look();
    std::swap(part, family_);
  }

  /// Meshes of the shape.
  const std::vector<Mesh>& orders() {
    if (of_shape_ == nullptr) of_shape_ = &orders_.of(family_.shape);
    return *of_shape_;
  }

  /// ShapeMeshes::alike of the shape.
  const std::vector<std::size_t>& alike() {
    if (alike_ == nullptr) alike_ = &orders_.alike(family_.shape, plan_, bounder_);
    return *alike_;
  }

  bool worst_is_known() const { return worst_.first < std::numeric_limits<std::int64_t>::max(); }

  /// Gives the part its bounds; false where it is left out with them.
  bool within(Family& part, Family::Level level, Picoseconds step, std::uint64_t peak) {
    if (peak > capacity_) {
      out_.infeasible += part.count;
      return false;
    }
    part.level = level;
    // A part needs what its family does.
    part.step = std::max(step, family_.step);
    part.peak = std::max(peak, family_.peak);
    part.bound = rating(objective_, part.step, part.peak);
    if (!(worst_ < part.bound)) return true;
    out_.beyond.push_back({part.step, part.count});
    return false;
  }

  /// Any of the shape's, for the bounds of a family.
  void any_states() {
    choose(plan_, shape_.states.front());
    if (shape_.offloads_states) plan_.offload_states.reset();
    if (shape_.offloads_parameters) plan_.offload_parameters.reset();
    if (shape_.chunks_parameters()) plan_.parameter_chunk.reset();
  }

  std::uint32_t plain_zero() const {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < shape_.plain_states; ++i) most = std::max(most, shape_.states[i].zero_stage);
    return most;
  }

  /// The pipelines of plans with one microbatch size; plan_ has a mesh of the shape and that size.
  const std::vector<FamilyPipeline>& pipelines_with(const MicrobatchSpace& m) {
    if (pipelines_of_ == &m) return pipelines_;
    pipelines_of_ = &m;
    std::vector<FamilyPipeline>& out = pipelines_;
    out.clear();
    for (const ScheduleChoice& s : m.schedules) {
      const bool shards = states_with(shape_, s) > shape_.plain_states;
      // A schedule without plain states has those of ZeRO-2 and 3, whose bound is taken besides.
      FamilyPipeline with;
      with.schedule = s.schedule;
      with.chunks = s.chunks;
      with.splits = &splits_of(space_, shape_, s);
      with.shards = shards;
      out.push_back(with);
    }
    bounder_.weigh(out, plan_);
    return out;
  }
  /// The same, of which so many eighths of the layers are recomputed.
  const std::vector<FamilyPipeline>& pipelines_with(const MicrobatchSpace& m, const BlockChoice& choice) {
    pipelines_with(m);
    for (FamilyPipeline& with : pipelines_) with.recomputed_eighths = choice.recomputed_eighths;
    return pipelines_;
  }

  /// Bounds of block choices that differ in what they recompute or copy alone, which follow each other.
  class KnownPasses {
   public:
    template <class Bound>
    FamilyBound of(BlockChoice choice, Bound&& bound) {
      choice.recompute = Recompute::none;
      choice.fewest = choice.offload = false;
      choice.recomputed_eighths = 0;
      auto& known = known_[static_cast<std::size_t>(choice.attention)];
      if (!known || known->first != choice) known = {choice, bound()};
      return known->second;
    }

   private:
    std::array<std::optional<std::pair<BlockChoice, FamilyBound>>, 2> known_;  ///< by attention kernel
  };

  /// A bound on plan_ whatever is recomputed, on any mesh of the shape; plan_ has one of them.
  FamilyBound any_recompute(const std::vector<FamilyPipeline>& pipelines) {
    const FamilyBound anywhere = bounder_.any_recompute(plan_, plain_zero(), pipelines, capacity_, slowest_step());
    if (left_out(anywhere)) return anywhere;
    const Mesh mesh = plan_.mesh;
    if (meshes_.empty()) {
      for (std::size_t order = 0; order < orders().size(); ++order) {
        if (alike()[order] == order) meshes_.push_back(orders()[order]);
      }
    }
    FamilyBound least{~std::uint64_t{0}, std::numeric_limits<Picoseconds>::max()};
    for (const Mesh& m : meshes_) {
      plan_.mesh = m;
      const FamilyBound on = bounder_.any_recompute_on_mesh(plan_, plain_zero(), pipelines, capacity_, slowest_step());
      if (!left_out(on)) {
        plan_.mesh = mesh;
        return anywhere;
      }
      least = {std::min(least.peak, on.peak), on.peak > capacity_ ? least.step : std::min(least.step, on.step)};
    }
    plan_.mesh = mesh;
    return least;
  }

  void blocks() {
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (shape_.sizes[a] > 1) plan_.mesh.axes.push_back({static_cast<Axis>(a), shape_.sizes[a]});
    }
    any_states();
    Family part = family_;
    for (part.microbatch = 0; part.microbatch < shape_.microbatches.size(); ++part.microbatch) {
      const MicrobatchSpace& m = shape_.microbatches[part.microbatch];
      plan_.microbatch_size = m.size;
      part.count = m.plans * shape_.orders;
      const std::vector<FamilyPipeline>& pipelines = pipelines_with(m);
      // All block choices at once, where their matrix products alone take too long.
      choose(plan_, shape_.blocks.front());
      if (std::any_of(shape_.blocks.begin(), shape_.blocks.end(), [](const BlockChoice& b) { return b.offload; })) {
        plan_.offload_activations.reset();
      }
      if (leave_all(part, shape_.blocks.size(),
                    bounder_.any_block(plan_, plain_zero(), pipelines, capacity_, slowest_step()))) {
        part.first += part.count * shape_.blocks.size();
        continue;
      }
      KnownPasses known;
      std::map<std::pair<bool, bool>, FamilyBound>
          any_attention;  // of block choices that cut the rest of a layer alike
      for (part.block = 0; part.block < shape_.blocks.size(); ++part.block) {
        const BlockChoice& block = shape_.blocks[part.block];
        choose(plan_, block);
        pipelines_with(m, block);
        // Then those that differ in what they recompute or copy alone: few of them need to be lowered.
        const auto [others, first] = any_attention.try_emplace({block.sequence_parallel, block.save_gathered});
        if (first) others->second = bounder_.any_attention(plan_, plain_zero(), pipelines, capacity_, slowest_step());
        FamilyBound bound = others->second;
        if (!left_out(bound)) {
          bound = known.of(block, [&] { return any_recompute(pipelines); });
        }
        if (!left_out(bound)) bound = bounder_.any_order(plan_, plain_zero(), pipelines, capacity_, slowest_step());
        add(part, Family::Level::blocks, bound.step, bound.peak);
        part.first += part.count;
      }
    }
  }

  void meshes() {
    const MicrobatchSpace& m = shape_.microbatches[family_.microbatch];
    plan_.microbatch_size = m.size;
    choose(plan_, shape_.blocks[family_.block]);
    any_states();
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (shape_.sizes[a] > 1) plan_.mesh.axes.push_back({static_cast<Axis>(a), shape_.sizes[a]});
    }
    Family part = family_;
    part.count = m.plans;
    const std::vector<FamilyPipeline>& pipelines = pipelines_with(m, block());
    // Those with a pipeline come last, when the best plans are nearly known, and have most schedules.
    const bool at_once = shape_.sizes[index(Axis::pipeline)] > 1;
    const Plan any = plan_;
    for (const Mesh& mesh : orders()) {
      plan_.mesh = mesh;
      std::optional<FamilyBound>& known = on_layout(part.order).any_schedule;
      if (!known) known = bounder_.any_schedule(plan_, plain_zero(), pipelines, capacity_, slowest_step());
      const FamilyBound bound = *known;
      if (at_once) {
        add_and_look(part, Family::Level::mesh, bound.step, bound.peak, [&] {
          schedules();
          plan_ = any;
        });
      } else {
        add(part, Family::Level::mesh, bound.step, bound.peak);
      }
      part.first += part.count;
      ++part.order;
    }
  }

  /// What plans share whose meshes lay alike the axes that cut blocks; of the family's block choice.
  struct OnLayout {
    std::optional<FamilyBound> any_schedule;
    std::vector<std::pair<ShardPrices, std::vector<FamilyBounds::ByKeeping>>> each_keeping;  ///< by schedule
    std::vector<std::vector<Picoseconds>> passes;  ///< by schedule and split: any_state; negative: not yet
  };
  OnLayout& on_layout() { return on_layout(family_.order); }
  OnLayout& on_layout(std::uint32_t order) {
    if (layouts_.empty()) layouts_.resize(orders().size());
    return layouts_[alike()[order]];
  }

  /// The family's block choice.
  const BlockChoice& block() const { return shape_.blocks[family_.block]; }

  /// Gives plan_ what plans of the mesh share.
  const MicrobatchSpace& on_mesh() {
    const MicrobatchSpace& m = shape_.microbatches[family_.microbatch];
    plan_.microbatch_size = m.size;
    choose(plan_, shape_.blocks[family_.block]);
    plan_.mesh = orders()[family_.order];
    return m;
  }

  /// Bounder::each_keeping of plan_, which has any states, whatever of activations waits in host memory.
  std::vector<FamilyBounds::ByKeeping> bounds_of_keepings(std::span<const FamilyPipeline> pipelines) {
    const std::optional<std::uint32_t> eighths = plan_.offload_activations;
    if (block().offload) plan_.offload_activations.reset();
    std::vector<FamilyBounds::ByKeeping> bounds =
        bounder_.each_keeping(plan_, plain_zero(), pipelines, shard_prices(), capacity_, slowest_step());
    plan_.offload_activations = eighths;
    return bounds;
  }

  ShardPrices shard_prices() {
    const bool any = std::any_of(pipelines_.begin(), pipelines_.end(), [](const auto& with) { return with.shards; });
    return any ? orders_.shard_prices(family_.shape, plan_, bounder_)[family_.order] : ShardPrices();
  }

  void schedules() {
    const MicrobatchSpace& m = on_mesh();
    any_states();
    pipelines_with(m, block());
    // Meshes on which shards cost as much, too, are looked at once.
    const ShardPrices prices = shard_prices();
    auto& on_layouts = on_layout().each_keeping;
    auto known = std::find_if(on_layouts.begin(), on_layouts.end(), [&](const auto& k) { return k.first == prices; });
    if (known == on_layouts.end()) {
      known = on_layouts.insert(known, {prices, bounds_of_keepings(pipelines_)});
    }
    const std::vector<FamilyBounds::ByKeeping>& bounds = known->second;
    Family part = family_;
    for (const ScheduleChoice& schedule : m.schedules) {
      const std::size_t states = states_with(shape_, schedule);
      const FamilyBound least = least_of(bounds[part.schedule], states);
      part.count = splits_of(space_, shape_, schedule).size() * states;
      add_and_look(part, Family::Level::schedule, least.step, least.peak, [&] { plans(bounds[part.schedule]); });
      part.first += part.count;
      ++part.schedule;
    }
  }

  /// Of one schedule that was not looked into at once.
  void schedule() {
    const MicrobatchSpace& m = on_mesh();
    any_states();
    plans(bounds_of_keepings({&pipelines_with(m, block())[family_.schedule], 1}).front());
  }

  void plans(const FamilyBounds::ByKeeping& anywhere) {
    const MicrobatchSpace& m = on_mesh();
    const ScheduleChoice& schedule = m.schedules[family_.schedule];
    const auto states = static_cast<std::uint32_t>(states_with(shape_, schedule));
    std::optional<KeepingBounds> of_keepings;  // once any states are looked at
    choose(plan_, schedule);
    Family part = family_;
    for (const std::vector<std::uint32_t>& split : splits_of(space_, shape_, schedule)) {
      plan_.stage_layers = split;
      if (block().recomputed_eighths > 0 && repeats_other_counts(split, block().recomputed_eighths)) {
        out_.same += states;
        part.first += states;
        ++part.split;
        continue;
      }
      start_fewest(plan_, block());
      choose(plan_, shape_.states.front());
      const auto range = [&](std::uint32_t begin, std::uint32_t end) {
        part.state = begin;
        part.states = 0;
        part.count = end - begin;
        return begin < end;
      };
      // All states at once, where the passes alone take too long.
      const Picoseconds least = any_state(part.split);
      range(0, states);
      if (worst_ < rating(objective_, least, family_.peak)) {
        add(part, Family::Level::plan, least, family_.peak);
        part.first += states;
        ++part.split;
        continue;
      }
      if (!of_keepings) of_keepings = bounds_of_keepings(m, anywhere);
      const KeepingBounds& bounds = *of_keepings;
      const auto plain = static_cast<std::uint32_t>(shape_.plain_states);
      /// Leaves out states begin .. end - 1, which keep weights and gradients alike, where the schedule's bound does.
      const auto none = [&](std::uint32_t begin, std::uint32_t end, FamilyBound bound) {
        bound.step = std::max(bound.step, least + bound.besides);
        if (!left_out(bound)) return false;
        if (range(begin, end)) add(part, Family::Level::plan, bound.step, bound.peak);
        return true;
      };
      const auto each_here = [&](std::uint32_t begin, std::uint32_t end, Keeping keeping) {
        if (none(begin, end, bounds.here[static_cast<std::size_t>(keeping)])) return;
        for (std::uint32_t i = begin; i < end; ++i) {
          part.state = i;
          one(part, least);
        }
      };
      // Then all with ZeRO 0 and 1, and all with ZeRO 2 and 3, where these and what is reduced behind or beside them
      // do.
      plain_.reset();
      const auto look_into = [&](std::uint32_t begin, std::uint32_t end, Keeping keeping) {
        if (none(begin, end, bounds.away[static_cast<std::size_t>(keeping)]) || !range(begin, end)) return;
        add_and_look(part, Family::Level::plan, least, family_.peak, [&] { look_into_range(); });
      };
      const auto plain_here = static_cast<std::uint32_t>(shape_.plain_on_device);
      const auto k = static_cast<std::size_t>(Keeping::plain);
      const auto too_much = [&](const FamilyBound& bound) {
        return left_out(bound) || too_slow(least + bound.besides);
      };
      if (too_much(bounds.here[k]) && too_much(bounds.away[k])) {
        each_here(0, plain_here, Keeping::plain);
        look_into(plain_here, plain, Keeping::plain);
      } else {
        const std::optional<Picoseconds> slow_plain = least_of_slow_plain();
        if (slow_plain && range(0, plain)) {
          add(part, Family::Level::plan, std::max(least, *slow_plain), family_.peak);
        } else {
          each_here(0, plain_here, Keeping::plain);
          if (plain_) add(*plain_, Family::Level::plan, plain_->step, plain_->peak);
          look_into(plain_here, plain, Keeping::plain);
        }
      }
      // States on the device, then those off it, each time by the way in which they keep weights and gradients.
      std::array<std::optional<std::optional<Picoseconds>>, keepings> slow;  // once asked for
      for (std::uint32_t begin = plain; begin < states;) {
        const Keeping keeping = keeping_at(begin);
        const bool here = on_device(begin);
        std::uint32_t end = begin + 1;
        while (end < states && on_device(end) == here && keeping_at(end) == keeping) ++end;
        const std::array<FamilyBound, keepings>& of = here ? bounds.here : bounds.away;
        if (!none(begin, end, of[static_cast<std::size_t>(keeping)])) {
          std::optional<std::optional<Picoseconds>>& known = slow[static_cast<std::size_t>(keeping)];
          if (!known) known = least_of_slow_sharded(keeping);
          if (*known) {
            range(begin, end);
            add(part, Family::Level::plan, std::max(least, **known), family_.peak);
          } else if (here) {
            each_here(begin, end, keeping);
          } else {
            look_into(begin, end, keeping);
          }
        }
        begin = end;
      }
      part.first += states;
      ++part.split;
    }
  }

  /// Bounder::any_state of plan_, which has the family's schedule and the split of that number.
  Picoseconds any_state(std::uint32_t split) {
    std::vector<std::vector<Picoseconds>>& passes = on_layout().passes;
    if (passes.size() <= family_.schedule) passes.resize(family_.schedule + 1);
    std::vector<Picoseconds>& known = passes[family_.schedule];
    if (known.size() <= split) known.resize(split + 1, -1);
    if (known[split] < 0) {
      const std::optional<Bytes> chunk = plan_.parameter_chunk;
      if (shape_.chunks_parameters()) plan_.parameter_chunk.reset();
      known[split] = bounder_.any_state(plan_);
      plan_.parameter_chunk = chunk;
    }
    return known[split];
  }

  bool too_slow(Picoseconds step) const { return worst_ < rating(objective_, step, family_.peak); }

  /// The least of `bound()` over the states begin .. end - 1 that `stands(state)` says stand for all of them, where all
  /// of those are too slow; else none, as soon as one is not.
  template <class Stands, class Bound>
  std::optional<Picoseconds> least_if_slow(std::size_t begin, std::size_t end, Stands&& stands, Bound&& bound) {
    if (!worst_is_known()) return std::nullopt;
    std::optional<Picoseconds> least;
    for (std::size_t i = end; i-- > begin;) {
      if (!stands(i)) continue;
      choose(plan_, shape_.states[i]);
      if (shape_.offloads_states) plan_.offload_states = 8;  // nothing is updated on cores that ranks may share
      const Picoseconds step = bound();
      if (!too_slow(step)) return std::nullopt;
      least = least ? std::min(*least, step) : step;
    }
    return least;
  }

  /// A bound on all plans like plan_ with ZeRO 0 or 1, wherever their states live, where it is too slow: those with
  /// overlap and their weights on the device are bounded up to the update, and no other takes less up to there.
  std::optional<Picoseconds> least_of_slow_plain() {
    const std::vector<StateChoice>& states = shape_.states;
    return least_if_slow(
        0, shape_.plain_on_device,
        [&](std::size_t i) {  // with overlap, behind that without
          return i + 1 == shape_.plain_on_device || states[i + 1].zero_stage != states[i].zero_stage;
        },
        [&] { return bounder_.time_before_update(plan_); });
  }

  bool on_device(std::size_t state) const { return shape_.states[state].offload_states == 0; }

  Keeping keeping_at(std::size_t state) const {
    const StateChoice& s = shape_.states[state];
    return s.zero_stage < 2              ? Keeping::plain
           : s.zero_stage == 2           ? Keeping::zero_2
           : s.parameter_chunk > Bytes() ? Keeping::zero_3_chunks
           : s.reshard_after_forward     ? Keeping::zero_3_anew
                                         : Keeping::zero_3_kept;
  }

  /// The same for ZeRO 2 and 3 that keep weights and gradients so: whatever is gathered anew for every pass is no
  /// faster than what is kept.  In chunks nothing is kept, but bounds know what that would take.
  std::optional<Picoseconds> least_of_slow_sharded(Keeping keeping) {
    return least_if_slow(
        shape_.plain_states, shape_.states.size(),
        [&](std::size_t i) {
          const Keeping stands = keeping == Keeping::zero_3_anew ? Keeping::zero_3_kept : keeping;
          return shape_.states[i].overlap_gradients && keeping_at(i) == stands && on_device(i);
        },
        [&] {
          plan_.reshard_after_forward = plan_.zero_stage == 2;
          return bounder_.any_sharded(plan_);
        });
  }

  /// What plans of the family need, by how they keep weights and gradients: with all states on the device, or anywhere.
  struct KeepingBounds {
    FamilyBounds::ByKeeping here, away;
  };
  /// The least of those that go with a schedule, which has so many of the shape's states.
  FamilyBound least_of(const FamilyBounds::ByKeeping& bounds, std::size_t states) const {
    std::optional<FamilyBound> least;
    std::uint64_t peak = ~std::uint64_t{0};
    for (std::size_t k = 0; k < (states > shape_.plain_states ? keepings : 1); ++k) {
      if (static_cast<Keeping>(k) == Keeping::zero_3_chunks && states == shape_.states_without_chunks) continue;
      peak = std::min(peak, bounds[k].peak);
      if (bounds[k].peak > capacity_) continue;
      least =
          least ? FamilyBound{std::min(least->peak, bounds[k].peak), std::min(least->step, bounds[k].step)} : bounds[k];
    }
    return least.value_or(FamilyBound{peak, 0});
  }
  /// Those on the device are bounded apart.
  KeepingBounds bounds_of_keepings(const MicrobatchSpace& m, const FamilyBounds::ByKeeping& anywhere) {
    if (!shape_.offloads_states) return {anywhere, anywhere};
    choose(plan_, shape_.states.front());
    if (shape_.chunks_parameters()) plan_.parameter_chunk.reset();
    return {bounds_of_keepings({&pipelines_with(m, block())[family_.schedule], 1}).front(), anywhere};
  }

  static bool same_but_offloaded(StateChoice a, const StateChoice& b) {
    a.offload_states = b.offload_states;
    a.offload_parameters = b.offload_parameters;
    return a == b;
  }

  /// One choice of states.
  void one(Family part, Picoseconds least) {
    part.count = part.states = 1;
    choose(plan_, shape_.states[part.state]);
    start_fewest(plan_, block());
    if (repeats_less_offloaded(plan_)) {
      ++out_.same;
      return;
    }
    // More recomputed or copied takes no less time: its memory need not be known where this is too slow.
    const bool open = plan_.recompute_layers || *plan_.offload_activations > 0;
    if (open && worst_is_known()) least = std::max(least, bounder_.step_time(plan_));
    if (worst_ < rating(objective_, least, family_.peak)) {
      add(part, Family::Level::plan, least, family_.peak);
      return;
    }
    if (no_host_holds(HostHeld::plan)) {
      ++out_.infeasible;
      return;
    }
    if (!fewest(Bounder::Memory::closed_form)) return;
    const std::uint64_t peak = least_peak(bounder_.peak_memory(plan_));
    if (peak > capacity_) {
      ++out_.infeasible;
      return;
    }
    const auto in_host =
        on_tiers(HostHeld::plan, [&](const Plan& plan) { return worst_is_known() ? bounder_.step_time(plan) : least; });
    if (!in_host) {
      ++out_.infeasible;
      return;
    }
    const Picoseconds step = std::max(least, *in_host);
    const bool slow = worst_ < rating(objective_, step, std::max(peak, family_.peak));
    if (!slow && stands_elsewhere()) return;
    // ZeRO 0 and 1 share their passes.
    if (slow || part.state >= shape_.plain_on_device) {
      add(part, Family::Level::plan, step, peak);
    } else if (!plain_) {
      plain_ = part;
      plain_->step = step;
      plain_->peak = peak;
    } else {
      ++plain_->count;
      plain_->states |= std::uint32_t{1} << (part.state - plain_->state);
      plain_->step = std::min(plain_->step, step);
      plain_->peak = std::min(plain_->peak, peak);
    }
  }

  /// Whether plan_ needs more than its hosts hold, and they have no disks; then it does with more activations there,
  /// too.
  bool no_host_holds(HostHeld what) {
    return !space_.disks && offloads(plan_) && bounder_.host_memory(plan_, what) > host_room_;
  }

  /// The least of bounds on plan_ wherever its hosts, and disks, may hold what it offloads; none where they cannot.
  template <class Bound>
  std::optional<Picoseconds> on_tiers(HostHeld what, Bound&& bound) {
    if (!offloads(plan_)) return bound(plan_);
    return least_on_tiers(plan_, bounder_, host_room_, space_.disks, what, bound);
  }

  /// Where the choices from `begin` on end that differ in what is offloaded alone, with parameters there or without.
  std::uint32_t end_of_kind(std::uint32_t begin, std::uint32_t end) const {
    const StateChoice& first = shape_.states[begin];
    std::uint32_t at = begin + 1;
    while (at < end && same_but_offloaded(first, shape_.states[at]) &&
           (shape_.states[at].offload_parameters > 0) == (first.offload_parameters > 0)) {
      ++at;
    }
    return at;
  }

  /// Looks into a range of choices that have something in host memory, of ZeRO 0 and 1, or 2 and 3: of one kind those
  /// are looked at one by one, else kind by kind.
  void look_into_range() {
    const std::uint32_t end = family_.state + static_cast<std::uint32_t>(family_.count);
    if (end_of_kind(family_.state, end) == end) {
      Family single = family_;
      for (; single.state < end; ++single.state) one(single, family_.step);
      return;
    }
    Picoseconds least = family_.step;
    start_fewest(plan_, block());
    if (family_.state < shape_.plain_states) {
      // What the last, which holds the least, recomputes or copies all of them do.
      choose(plan_, shape_.states[end - 1]);
      if (!fits_with_fewest() || least_peak(bounder_.peak_memory(plan_)) > capacity_) {
        out_.infeasible += family_.count;
        return;
      }
      const bool more = (has_open_counts(plan_) &&
                         *std::max_element(plan_.recompute_layers->begin(), plan_.recompute_layers->end()) > 0) ||
                        *plan_.offload_activations > 1;
      if (more) {
        least = std::max(least, bounder_.any_state(plan_));
        if (const auto slow = least_of_slow_plain()) least = std::max(least, *slow);
      }
      if (worst_ < rating(objective_, least, family_.peak)) {
        add(family_, Family::Level::plan, least, family_.peak);
        return;
      }
    }
    const Fewest all{plan_.recompute_layers, *plan_.offload_activations};
    Family part = family_;
    for (part.state = family_.state; part.state < end;) {
      const std::uint32_t next = end_of_kind(part.state, end);
      part.count = next - part.state;
      offloaded_alike(part, least, all);
      part.state = next;
    }
  }

  /// What plan_ recomputes or copies.
  struct Fewest {
    std::optional<std::vector<std::uint32_t>> recomputed;
    std::uint32_t activations = 0;
  };
  void choose_fewest(const Fewest& fewest) {
    plan_.recompute_layers = fewest.recomputed;
    plan_.offload_activations = fewest.activations;
  }

  /// Those of one such kind, all of which recompute or copy at least `least_fewest`.
  void offloaded_alike(const Family& part, Picoseconds least, const Fewest& least_fewest) {
    // The first copies the fewest weights, the last holds the least.
    const StateChoice& first = shape_.states[part.state];
    const StateChoice& last = shape_.states[part.state + part.count - 1];
    choose(plan_, first);
    choose_fewest(least_fewest);
    Picoseconds step = worst_is_known() ? std::max(least, bounder_.more_offloaded(plan_)) : least;
    const auto slow = [&] { return worst_ < rating(objective_, step, family_.peak); };
    if (!slow()) {
      if (no_host_holds(HostHeld::more_offloaded)) {
        out_.infeasible += part.count;
        return;
      }
      choose(plan_, last);
      if (!fits_with_fewest() || least_peak(bounder_.peak_memory(plan_)) > capacity_) {
        out_.infeasible += part.count;
        return;
      }
      choose(plan_, first);
      const auto raise = [&](auto&& bound) {
        const auto in_host = on_tiers(HostHeld::more_offloaded, bound);
        step = std::max(step, in_host.value_or(step));
        return in_host.has_value();
      };
      if (!raise([&](const Plan& plan) { return worst_is_known() ? bounder_.more_offloaded(plan) : least; })) {
        out_.infeasible += part.count;
        return;
      }
      if (worst_is_known() && !slow()) {
        static_cast<void>(raise([&](const Plan& plan) { return bounder_.closer_more_offloaded(plan); }));
      }
    }
    add(part, Family::Level::plan, step, family_.peak);
  }

  /// Whether all plans of a family can be left out that need so much.
  bool left_out(const FamilyBound& bound) const {
    return bound.peak > capacity_ || worst_ < rating(objective_, bound.step, bound.peak);
  }

  /// Steps above it are too slow.
  Picoseconds slowest_step() const {
    return objective_ == Objective::memory ? std::numeric_limits<Picoseconds>::max() : worst_.first;
  }

  /// Leaves out all of `times` as many plans as the part has where the bound says so.
  bool leave_all(Family part, std::uint64_t times, const FamilyBound& bound) {
    if (!left_out(bound)) return false;
    part.count *= times;
    add(part, part.level, bound.step, bound.peak);
    return true;
  }

  /// Gives plan_ as many recomputed layers, or eighths of activations in host memory, as it needs by a closed form.
  bool fits_with_fewest(Bounder::Memory by = Bounder::Memory::closed_form) {
    if (*plan_.offload_activations > 0) return bounder_.offload_fewest(plan_, capacity_, by);
    return !plan_.recompute_layers || bounder_.recompute_fewest(plan_, capacity_, by);
  }
  /// The same; false where it is left out.
  bool fewest(Bounder::Memory by) {
    if (!fits_with_fewest(by)) {
      ++out_.infeasible;
      return false;
    }
    if (!has_open_counts(plan_) || !bounder_.knows_memory(plan_) || !is_listed_elsewhere(space_, plan_)) return true;
    // The process may ask for more of them than its tensors do.
    Plan safe = plan_;
    std::fill(safe.recompute_layers->begin(), safe.recompute_layers->end(), 0U);
    if (!counts_are_all(space_, plan_) && (!bounder_.recompute_fewest(safe, safe_, Bounder::Memory::closed_form) ||
                                           safe.recompute_layers != plan_.recompute_layers)) {
      return true;
    }
    ++out_.same;
    return false;
  }

  /// Whether another plan with less in host memory stands for it, as far as closed forms say so.
  bool stands_elsewhere() {
    const bool elsewhere = is_outdone(plan_, bounder_, [&](Plan& less) {
      if (!bounder_.knows_memory(less)) return false;
      if (*less.offload_activations > 0) {
        return bounder_.offload_fewest(less, safe_, Bounder::Memory::closed_form);
      }
      if (less.recompute_layers) return bounder_.recompute_fewest(less, safe_, Bounder::Memory::closed_form);
      return bounder_.peak_memory(less) <= safe_;
    });
    out_.same += elsewhere ? 1 : 0;
    return elsewhere;
  }

  /// The Program, or its process, may ask for more recomputed layers or offloaded activations than a closed form, and
  /// then hold less.
  std::uint64_t least_peak(std::uint64_t known) const {
    const bool open = plan_.recompute_layers || *plan_.offload_activations > 0;
    return open && (known > safe_ || !bounder_.knows_memory(plan_)) ? family_.peak : known;
  }

  void look() {
    const ScheduleChoice& schedule = on_mesh().schedules[family_.schedule];
    choose(plan_, schedule);
    plan_.stage_layers = splits_of(space_, shape_, schedule)[family_.split];
    if (family_.states == 0) {
      look_into_range();
      return;
    }
    Family part = family_;
    part.count = 1;
    part.kind = kind_of(plan_);
    for (std::uint32_t i = 0; family_.states >> i != 0; ++i) {
      if ((family_.states >> i & 1U) == 0) continue;
      const std::uint32_t state = family_.state + i;
      choose(plan_, shape_.states[state]);
      part.first = family_.first + state;
      start_fewest(plan_, block());
      if (!fewest(Bounder::Memory::closed_form)) continue;
      Bounder::Look closer = bounder_.closer(plan_, capacity_);
      const bool open = plan_.recompute_layers || *plan_.offload_activations > 0;
      if (open && closer.peak > capacity_) {
        if (!fewest(Bounder::Memory::passes)) continue;
        closer = bounder_.closer(plan_, capacity_);
      }
      if (offloads(plan_)) {
        const auto in_host =
            on_tiers(HostHeld::plan, [&](const Plan& plan) { return bounder_.closer(plan, capacity_).step; });
        if (!in_host) {
          ++out_.infeasible;
          continue;
        }
        closer.step = std::max(closer.step, *in_host);
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

  Family family_;  ///< what is looked into, or a part of it
  const Space& space_;
  const ShapeSpace& shape_;
  const std::uint64_t capacity_;
  const std::uint64_t safe_;
  const std::uint64_t host_room_;
  const Objective objective_;
  const Rating worst_;
  Bounder& bounder_;
  ShapeMeshes& orders_;
  const std::vector<Mesh>* of_shape_ = nullptr;      ///< once asked for
  const std::vector<std::size_t>* alike_ = nullptr;  ///< likewise
  Plan plan_;
  std::vector<FamilyPipeline> pipelines_;  ///< of the microbatches looked at last
  const MicrobatchSpace* pipelines_of_ = nullptr;
  std::vector<Mesh> meshes_;       ///< of the shape one for each layout of blocks, once known
  std::vector<OnLayout> layouts_;  ///< by the first order with that layout
  std::optional<Family> plain_;    ///< of ZeRO 0 and 1 on the device, of one split
  Expansion out_;
};

}  // namespace

Expansion expand(const Family& family, const Space& space, const Room& room, Objective objective, const Rating& worst,
                 Bounder& bounder, ShapeMeshes& orders) {
  return Expander(family, space, room, objective, worst, bounder, orders).run();
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
