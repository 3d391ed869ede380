#include "planner/neighbours.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/plan/axis_sizes.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/plan/stage_split.hpp"
#include "planner/follow.hpp"
#include "planner/openings.hpp"

namespace orrery {
namespace {

/// A bucket follows a rule, and which algorithm a collective takes is the library's choice.
bool follows_a_rule(const Dimension& d) {
  return d.key == "plan.gradient_bucket" || d.key == "plan.collective_algorithm";
}

std::string text_of(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(a.axis), a.size);
  }
  return text.empty() ? "one rank" : text;
}

/// Values of a dimension that are looked at from its own on.
std::vector<std::uint64_t> near(const Dimension& d, const PlannedRun& run) {
  std::vector<std::uint64_t> all = values(d, run);
  const bool open = is_named(d) && d.kind != DimensionKind::share && d.names.front() == "auto";
  if (open) std::erase(all, 0U);
  if (d.kind == DimensionKind::share) std::erase(all, d.names.size() - 1);  // auto
  const std::uint64_t own = d.get(run);
  constexpr std::size_t few = 9;
  if (d.kind == DimensionKind::count && all.size() > few) {
    // Two steps each way, and twice or half as many.
    const auto at = std::lower_bound(all.begin(), all.end(), own) - all.begin();
    std::vector<std::uint64_t> close;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_close = std::abs(static_cast<std::ptrdiff_t>(i) - at) <= 2;
      if (is_close || all[i] == 2 * own || 2 * all[i] == own) close.push_back(all[i]);
    }
    all = std::move(close);
  }
  std::erase(all, own);
  return all;
}

class Neighbours {
 public:
  Neighbours(const PlannedRun& from, const SearchLimits& limits, Dimensions table)
      : from_(unplaced(from)), run_(from_), limits_(limits), table_(table), hosts_(hosts_are_known(*from.cluster)) {
    std::erase_if(from_.plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
  }

  std::vector<Neighbour> all(Reach reach) {
    switch (reach) {
      case Reach::plan:
        for (const Dimension& d : table_) turn(d);
        chunks();
        orders();
        stages();
        break;
      case Reach::pairs: pairs(); break;
      case Reach::mesh:
        factors();
        grids();
        break;
    }
    return std::move(list_);
  }

 private:
  /// Nothing goes to hosts of which the cluster does not say what they hold, and no schedule but 1F1B is looked at
  /// without a pipeline, unless the plan itself says so.
  [[nodiscard]] bool is_turned(const Dimension& d) const {
    if (d.kind == DimensionKind::share && !hosts_ && d.get(from_) == d.usual) return false;
    const bool pipelined = from_.plan.mesh.size(Axis::pipeline) > 1;
    if (!pipelined && (d.key == "plan.schedule" || d.key == "plan.chunks") && d.get(from_) == d.usual) return false;
    return d.label != nullptr && d.table() == "plan" && !follows_a_rule(d);
  }

  /// Puts the run with what follows on the list, where it is valid and `kept(run)` says that it is what was asked for.
  template <class Kept>
  bool add(const Dimension* turned, std::string dimension, std::string from, std::string to, Kept&& kept) {
    return add_from(from_, turned, std::move(dimension), std::move(from), std::move(to), std::forward<Kept>(kept));
  }
  /// The same where the run was turned before, so that what follows is from `before` on.
  template <class Kept>
  bool add_from(const PlannedRun& before, const Dimension* turned, std::string dimension, std::string from,
                std::string to, Kept&& kept) {
    std::string reason;
    if (!settle(before, run_, turned, reason, table_) || !kept(run_)) return false;
    if (!limits_.allow(run_, table_) || run_.plan == from_.plan) return false;
    list_.push_back({std::move(dimension), std::move(from), std::move(to), run_.plan});
    std::erase_if(list_.back().plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
    return true;
  }
  bool add(const Dimension& d, std::uint64_t value) {
    return add(&d, std::string(d.word()), orrery::text_of(d, d.get(from_)), orrery::text_of(d, value),
               [&](const PlannedRun& run) { return d.get(run) == value; });
  }
  void begin() { run_.plan = from_.plan; }
  /// The run with the value in place, nothing that follows yet.
  bool put_from(const Dimension& d, std::uint64_t value) {
    begin();
    std::string reason;
    return put(run_, d, value, reason);
  }

  /// Every value of a decision; and where it makes others apply, each of theirs beside it.
  void turn(const Dimension& d) {
    if (!is_turned(d) || !applies(d, from_)) return;
    for (const std::uint64_t value : near(d, from_)) {
      if (!put_from(d, value) || !add(d, value)) continue;
      const Plan turned = run_.plan;
      for (const Dimension& other : table_) {
        if (!is_turned(other) || applies(other, from_)) continue;
        run_.plan = turned;
        if (!applies(other, run_) || other.kind == DimensionKind::share) continue;
        for (const std::uint64_t beside : near(other, run_)) {
          run_.plan = turned;
          std::string reason;
          if (!put(run_, other, beside, reason)) continue;
          add(&other, fmt::format("{} {}, {}", d.word(), orrery::text_of(d, value), other.word()),
              orrery::text_of(other, other.get(from_)), orrery::text_of(other, beside),
              [&](const PlannedRun& run) { return d.get(run) == value && other.get(run) == beside; });
        }
      }
    }
  }

  /// Schedules of any number of chunks, with twice, four times, ... as many as they ask for.
  void chunks() {
    if (from_.plan.mesh.size(Axis::pipeline) == 1) return;
    const Dimension& schedule = dimension("plan.schedule");
    const Dimension& count = dimension("plan.chunks");
    for (const std::uint64_t value : near(schedule, from_)) {
      const ScheduleRules& rules = rules_of(static_cast<ScheduleName>(value));
      const std::uint64_t most = from_.model.layers / from_.plan.mesh.size(Axis::pipeline);
      for (std::uint64_t n = 2 * std::uint64_t{rules.least_chunks}; rules.most_chunks == 0 && n <= most; n *= 2) {
        std::string reason;
        if (!put_from(schedule, value) || !put(run_, count, n, reason)) continue;
        add(&count, "schedule", orrery::text_of(schedule, schedule.get(from_)),
            fmt::format("{} of {} chunks", orrery::text_of(schedule, value), n),
            [&](const PlannedRun& run) { return schedule.get(run) == value && count.get(run) == n; });
      }
    }
  }

  /// One axis to the place of another, and two in each other's place.
  void orders() {
    if (!from_.plan.placement.empty()) return;
    const std::vector<MeshAxis> axes = from_.plan.mesh.axes;
    std::vector<std::vector<MeshAxis>> found{axes};
    const auto offer = [&](std::vector<MeshAxis> other) {
      if (std::find(found.begin(), found.end(), other) != found.end()) return;
      found.push_back(other);
      begin();
      run_.plan.mesh.axes = std::move(other);
      const Mesh wished = run_.plan.mesh;
      add(nullptr, "order of mesh axes", text_of(from_.plan.mesh), text_of(wished),
          [&](const PlannedRun& run) { return run.plan.mesh == wished; });
    };
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (std::size_t k = 0; k < axes.size(); ++k) {
        if (i == k) continue;
        std::vector<MeshAxis> moved = axes;
        moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(i));
        moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(k), axes[i]);
        offer(std::move(moved));
        std::vector<MeshAxis> swapped = axes;
        std::swap(swapped[i], swapped[k]);
        offer(std::move(swapped));
      }
    }
  }

  /// First and last stage a layer longer or shorter, the others as even as they can be.
  void stages() {
    if (!from_.plan.stage_layers || from_.plan.stage_layers->size() == 1) return;
    const std::vector<std::uint32_t>& now = *from_.plan.stage_layers;
    const auto by_one = [](std::uint32_t a, std::uint32_t b) { return a <= b + 1 && b <= a + 1; };
    const auto count = static_cast<std::uint32_t>(now.size());
    if (count > from_.model.layers) return;
    for (std::vector<std::uint32_t>& split : uneven_stages(from_.model.layers, count, split_reach)) {
      if (!by_one(split.front(), now.front()) || !by_one(split.back(), now.back()) || split == now) continue;
      begin();
      run_.plan.stage_layers = split;
      add(nullptr, "stage_layers", fmt::format("[{}]", fmt::join(now, ", ")),
          fmt::format("[{}]", fmt::join(split, ", ")),
          [&](const PlannedRun& run) { return run.plan.stage_layers == split; });
    }
  }

  /// Another schedule, and with it a split of the layers that it is not given by itself.
  void splits() {
    const Dimension& schedule = dimension("plan.schedule");
    for (const std::uint64_t value : near(schedule, from_)) {
      std::string reason;
      if (!put_from(schedule, value) || !settle(from_, run_, &schedule, reason, table_)) continue;
      const PlannedRun turned = run_;
      const std::uint32_t stages = stage_map(turned.plan).stages();
      if (stages > from_.model.layers) continue;
      for (std::vector<std::uint32_t>& split : uneven_stages(from_.model.layers, stages, 1)) {
        run_.plan = turned.plan;
        run_.plan.stage_layers = split;
        add_from(turned, nullptr, "schedule", orrery::text_of(schedule, schedule.get(from_)),
                 fmt::format("{}, stage_layers [{}]", orrery::text_of(schedule, value), fmt::join(split, ", ")),
                 [&](const PlannedRun& run) { return schedule.get(run) == value && run.plan.stage_layers == split; });
      }
    }
  }

  /// Two decisions at once: both shares, another ZeRO stage and a share, or both halves of how attention is cut.
  void pairs() {
    std::vector<const Dimension*> shares;
    for (const Dimension& d : table_) {
      if (is_turned(d) && d.kind == DimensionKind::share) shares.push_back(&d);
    }
    const auto both = [&](const Dimension& a, const Dimension& b) {
      for (const std::uint64_t x : near(a, from_)) {
        for (const std::uint64_t y : near(b, from_)) {
          std::string reason;
          if (!put_from(a, x) || !put(run_, b, y, reason)) continue;
          add(&b, fmt::format("{} {}, {}", a.word(), orrery::text_of(a, x), b.word()), orrery::text_of(b, b.get(from_)),
              orrery::text_of(b, y), [&](const PlannedRun& run) { return a.get(run) == x && b.get(run) == y; });
        }
      }
    };
    const bool pipelined = from_.plan.mesh.size(Axis::pipeline) > 1;
    if (from_.plan.mesh.size(Axis::context) > 1) {
      both(dimension("plan.context"), dimension("plan.zigzag"));
      if (pipelined) both(dimension("plan.context"), dimension("plan.schedule"));
    }
    if (pipelined) {
      both(dimension("plan.microbatch_size"), dimension("plan.schedule"));
      splits();
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (const Dimension& zero = dimension("plan.zero_stage"); applies(zero, from_)) both(zero, *shares[i]);
      for (std::size_t k = i + 1; k < shares.size(); ++k) both(*shares[i], *shares[k]);
    }
  }

  /// Factors of one axis to another.
  void factors() {
    if (!from_.plan.placement.empty()) return;
    std::vector<const Dimension*> axes;
    for (const Dimension& d : table_) {
      if (d.kind == DimensionKind::axis && d.label != nullptr) axes.push_back(&d);
    }
    for (const Dimension* giver : axes) {
      const std::uint64_t given = giver->get(from_);
      for (const Dimension* taker : axes) {
        const std::uint64_t taken = taker->get(from_);
        for (std::uint64_t k = 2; giver != taker && k <= given; ++k) {
          std::string reason;
          if (given % k != 0 || !put_from(*giver, given / k) || !put(run_, *taker, taken * k, reason)) continue;
          const Mesh wished = run_.plan.mesh;
          add(nullptr, "mesh", text_of(from_.plan.mesh), text_of(wished),
              [&](const PlannedRun& run) { return giver->get(run) == given / k && taker->get(run) == taken * k; });
        }
      }
    }
  }

  /// Other algorithms of matrix products, on other numbers of ranks too: data ranks make up for them.
  void grids() {
    const Dimension& algorithm = dimension("plan.tensor");
    const Dimension& ranks = dimension("mesh.tensor");
    constexpr std::uint64_t most_ranks = 64;
    for (const std::uint64_t value : near(algorithm, from_)) {
      for (const std::uint64_t n : values(ranks, from_)) {
        if (n > most_ranks) break;
        begin();
        if (!set_tensor(run_.plan, static_cast<TensorAlgorithm>(value), n)) continue;
        add(&algorithm, "tensor", orrery::text_of(algorithm, algorithm.get(from_)),
            fmt::format("{} on {} ranks", orrery::text_of(algorithm, value), n),
            [&](const PlannedRun& run) { return algorithm.get(run) == value && ranks.get(run) == n; });
      }
    }
  }

  PlannedRun from_, run_;
  const SearchLimits& limits_;
  Dimensions table_;
  bool hosts_;
  std::vector<Neighbour> list_;
};

}  // namespace

std::vector<Neighbour> neighbours(const PlannedRun& run, Reach reach, const SearchLimits& limits, Dimensions table) {
  return Neighbours(run, limits, table).all(reach);
}

std::string describe(const Neighbour& n) { return fmt::format("{} {} -> {}", n.dimension, n.from, n.to); }

}  // namespace orrery
