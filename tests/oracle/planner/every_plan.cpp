#include "tests/oracle/planner/every_plan.hpp"

#include <algorithm>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "planner/complete.hpp"

namespace orrery::test {
namespace {

class Every {
 public:
  Every(const PlannedRun& run, const SearchLimits& limits, const Extent& extent,
        const std::function<bool(const Plan&)>& visit)
      : run_(run), limits_(limits), extent_(extent), visit_(visit), plan_(run_.plan) {}

  bool all() {
    plan_ = {};
    for (const TensorAlgorithm a :
         {TensorAlgorithm::one_d, TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
      if (!allow("plan.tensor", static_cast<std::uint64_t>(a))) continue;
      plan_.tensor = a;
      grids(a, run_.cluster->devices());
    }
    return !stop_;
  }

 private:
  [[nodiscard]] bool allow(const char* key, std::uint64_t value) const { return limits_.allow(key, value); }

  void grids(TensorAlgorithm a, std::uint64_t devices) {
    for (std::uint32_t side = 1; side <= devices; ++side) {
      for (std::uint32_t depth = 1; depth <= devices; ++depth) {
        std::vector<MeshAxis> axes;
        std::uint64_t ranks = side;
        switch (a) {
          case TensorAlgorithm::one_d: axes = {{Axis::tensor, side}}; break;
          case TensorAlgorithm::two_d: axes = {{Axis::row, side}, {Axis::column, side}}; break;
          case TensorAlgorithm::two_half_d:
          case TensorAlgorithm::three_d: axes = {{Axis::depth, depth}, {Axis::row, side}, {Axis::column, side}}; break;
        }
        if (a != TensorAlgorithm::one_d) ranks = std::uint64_t{side} * side * axes[0].size;
        if (a == TensorAlgorithm::two_d) ranks = std::uint64_t{side} * side;
        const bool deep = a == TensorAlgorithm::two_half_d || a == TensorAlgorithm::three_d;
        if (!deep && depth > 1) break;
        if (a != TensorAlgorithm::one_d && side == 1) break;
        if (a == TensorAlgorithm::three_d && depth != side) continue;
        if (a == TensorAlgorithm::two_half_d && depth == 1) continue;
        if (devices % ranks != 0 || !allow("mesh.tensor", ranks)) continue;
        others(std::move(axes), devices / ranks);
      }
    }
  }

  void others(const std::vector<MeshAxis>& tensor, std::uint64_t devices) {
    const auto axis = [&](std::uint64_t rest, const char* key, auto&& next) {
      for (std::uint32_t n = 1; n <= rest; ++n) {
        if (rest % n == 0 && allow(key, n)) next(n);
      }
    };
    axis(devices, "mesh.pipeline", [&](std::uint32_t p) {
      axis(devices / p, "mesh.replica", [&](std::uint32_t r) {
        axis(devices / p / r, "mesh.context", [&](std::uint32_t c) {
          axis(devices / p / r / c, "mesh.expert", [&](std::uint32_t e) {
            const auto d = static_cast<std::uint32_t>(devices / p / r / c / e);
            if (!allow("mesh.data", d)) return;
            std::vector<MeshAxis> axes{
                {Axis::pipeline, p}, {Axis::replica, r}, {Axis::data, d}, {Axis::context, c}, {Axis::expert, e}};
            axes.insert(axes.end(), tensor.begin(), tensor.end());
            std::erase_if(axes, [](const MeshAxis& a) { return a.size == 1; });
            orders(std::move(axes));
          });
        });
      });
    });
  }

  void orders(std::vector<MeshAxis> axes) {
    const auto before = [](const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; };
    std::sort(axes.begin(), axes.end(), before);
    do {
      plan_.mesh.axes = axes;
      microbatches();
    } while (!stop_ && std::next_permutation(axes.begin(), axes.end(), before));
  }

  void microbatches() {
    const std::uint64_t ranks = size(plan_.mesh, sequence_axes(plan_));
    if (run_.workload.global_batch % ranks != 0) return;
    const std::uint64_t own = run_.workload.global_batch / ranks;
    for (std::uint32_t n = 1; n <= own && !stop_; ++n) {
      if (own % n != 0 || !allow("plan.microbatch_size", n)) continue;
      plan_.microbatch_size = n;
      schedules();
    }
  }

  void schedules() {
    const std::uint32_t ranks = plan_.mesh.size(Axis::pipeline);
    const auto most = static_cast<std::uint32_t>(run_.model.layers / ranks);
    for (auto s = static_cast<unsigned>(ScheduleName::gpipe); s <= static_cast<unsigned>(ScheduleName::dualpipe); ++s) {
      plan_.schedule = static_cast<ScheduleName>(s);
      if (plan_.schedule == ScheduleName::custom || !allow("plan.schedule", s)) continue;
      if (ranks == 1 && plan_.schedule != ScheduleName::one_f_one_b) continue;  // no pipeline to schedule
      const ScheduleRules& rules = rules_of(plan_.schedule);
      for (std::uint32_t n = rules.least_chunks; n <= (rules.most_chunks == 0 ? most : rules.most_chunks); ++n) {
        if (!allow("plan.chunks", n)) continue;
        plan_.chunks = n;
        splits();
      }
    }
    plan_.schedule = ScheduleName::one_f_one_b;
    plan_.chunks = 1;
  }

  /// As even as can be between the first and the last stage, larger ones first.
  void splits() {
    const auto layers = static_cast<int>(run_.model.layers), stages = static_cast<int>(stage_map(plan_).stages());
    const int share = layers / stages, more = share + (layers % stages > 0 ? 1 : 0);
    constexpr int reach = 2;
    for (int first = share - reach; first <= more + reach; ++first) {
      for (int last = share - reach; last <= more + reach && !stop_; ++last) {
        const int rest = layers - first - last, between = stages - 2;
        std::vector<std::uint32_t> split;
        if (stages == 1) {
          split = {static_cast<std::uint32_t>(layers)};
        } else if (first < 1 || last < 1 || (between == 0 ? rest != 0 : rest < between)) {
          continue;
        } else {
          split.push_back(static_cast<std::uint32_t>(first));
          for (int i = 0; i < between; ++i) {
            split.push_back(static_cast<std::uint32_t>(rest / between + (i < rest % between ? 1 : 0)));
          }
          split.push_back(static_cast<std::uint32_t>(last));
        }
        plan_.stage_layers = std::move(split);
        cuts();
        if (stages == 1) return;
      }
    }
  }

  /// Calls next() with the member at each of its values, and leaves it at `usual`.
  template <class T, class Next>
  void each(const char* key, T Plan::*member, std::initializer_list<T> values, bool applies, T usual, Next&& next) {
    if (!applies) {
      plan_.*member = usual;
      return next();
    }
    for (const T value : values) {
      if (stop_) break;
      if (!allow(key, static_cast<std::uint64_t>(value))) continue;
      plan_.*member = value;
      next();
    }
    plan_.*member = usual;
  }

  void cuts() {
    const bool tensor = plan_.mesh.size(Axis::tensor) > 1, context = plan_.mesh.size(Axis::context) > 1;
    const bool cube = plan_.tensor == TensorAlgorithm::three_d;
    using enum ContextAlgorithm;
    each("plan.sequence_parallel", &Plan::sequence_parallel, {false, true}, tensor, false, [&] {
      each("plan.save_gathered", &Plan::save_gathered, {false, true}, cube, false, [&] {
        each("plan.context", &Plan::context, {all_gather, ulysses, ring, ring_self_attention}, context, all_gather,
             [&] {
               each("plan.zigzag", &Plan::zigzag, {false, true}, context, false, [&] { inner_rings(); });
             });
      });
    });
  }
  void inner_rings() {
    const std::uint32_t all = plan_.mesh.size(Axis::context);
    for (std::uint32_t n = 0; n < all; ++n) {
      if (n == 1 || (n > 0 && (plan_.context != ContextAlgorithm::ring || all % n != 0))) continue;
      if (plan_.context == ContextAlgorithm::ring && !allow("plan.inner_ring", n)) continue;
      plan_.inner_ring = n;
      recomputations();
    }
    plan_.inner_ring = 0;
  }

  void recomputations() {
    each("plan.recompute", &Plan::recompute, {Recompute::none, Recompute::selective, Recompute::full}, true,
         Recompute::none, [&] {
           plan_.attention.reset();
           states();
           if (!extent_.kernels || plan_.recompute == Recompute::selective) return;
           plan_.attention = AttentionKernel::unfused;  // auto is flash wherever there is a choice
           states();
           plan_.attention.reset();
         });
  }

  void states() {
    const bool shared = !shard_axes_of(plan_).empty();
    each("plan.zero_stage", &Plan::zero_stage, {0U, 1U, 2U, 3U}, shared, 0U, [&] {
      const bool three = plan_.zero_stage == 3;
      each("plan.reshard_after_forward", &Plan::reshard_after_forward, {false, true}, three, true, [&] {
        each("plan.prefetch", &Plan::prefetch, {0U, 1U}, three, 1U, [&] {
          overlaps();
          if (!three || !extent_.chunks_of_parameters) return;
          plan_.parameter_chunk.reset();
          overlaps();
          plan_.parameter_chunk = Bytes();
        });
      });
    });
  }
  void overlaps() {
    const bool reduces = size(plan_.mesh, batch_axes) * plan_.mesh.size(Axis::context) > 1;
    for (const bool on : {false, true}) {
      if (on && !reduces) break;
      // In the table "auto" stands before "off" and "on".
      if (reduces && !allow("plan.overlap_gradients", on ? 2 : 1)) continue;
      plan_.overlap_gradients = on;
      hosts();
    }
    plan_.overlap_gradients.reset();
  }

  void hosts() {
    const std::uint32_t most = run_.cluster->host_memory.base() > 0 ? 8 : 0;
    for (std::uint32_t s = 0; s <= most; ++s) {
      for (std::uint32_t p = 0; p <= s; ++p) {
        for (std::uint32_t a = 0; a <= most && !stop_; ++a) {
          if (!allow("plan.offload_states", s) || !allow("plan.offload_parameters", p) ||
              !allow("plan.offload_activations", a)) {
            continue;
          }
          plan_.offload_states = s;
          plan_.offload_parameters = p;
          plan_.offload_activations = a;
          offer();
        }
      }
    }
  }

  void offer() {
    if (stop_ = stop_ || looks_++ == extent_.looks; stop_) return;
    Diagnostics wrong;
    check(plan_, run_.model, run_.workload, &*run_.cluster, wrong);
    if (!wrong.empty()) return;
    run_.plan = plan_;
    complete(run_.plan, run_.model, run_.workload);
    check(run_.plan, run_.model, run_.workload, &*run_.cluster, wrong);
    if (!wrong.empty() || !limits_.allow(run_)) return;
    stop_ = !visit_(run_.plan);
  }

  PlannedRun run_;
  const SearchLimits& limits_;
  const Extent& extent_;
  const std::function<bool(const Plan&)>& visit_;
  Plan plan_;
  std::size_t looks_ = 0;
  bool stop_ = false;
};

}  // namespace

bool every_plan(const PlannedRun& run, const SearchLimits& limits, const Extent& extent,
                const std::function<bool(const Plan&)>& visit) {
  return Every(run, limits, extent, visit).all();
}

}  // namespace orrery::test
