#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/kernels/device/optimizer.hpp"
#include "exec/kernels/tensor_runs.hpp"

/// Updates whose rate is each tensor's own, as exec/kernels/cpu/trust_ratio.cpp has them.  LAMB: You et al., "Large
/// batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2.  LARS: You et al.,
/// "Large batch training of convolutional networks", 2017, algorithm 1.
namespace orrery::device {

/// Tensors of a segment that one launch works on, passed as its argument.
struct TensorRuns {
  static constexpr std::uint32_t most = 32;
  TensorRun runs[most];
  std::uint32_t count = 0;
};

template <class Visit>
void for_each_batch(const std::vector<TensorRun>& all, Visit visit) {
  for (std::size_t at = 0; at < all.size(); at += TensorRuns::most) {
    TensorRuns batch;
    while (batch.count < TensorRuns::most && at + batch.count < all.size()) {
      batch.runs[batch.count] = all[at + batch.count];
      ++batch.count;
    }
    visit(batch);
  }
}

/// A block's thread calls f(i) for its elements of a tensor.
template <class Block, class F>
ORRERY_ON_DEVICE void for_own_elements(const Block& b, const TensorRun& run, F f) {
  const std::uint64_t end = run.first + run.count;
  for (std::uint64_t i = run.first + b.index() * b.threads() + b.thread(); i < end; i += b.blocks() * b.threads()) f(i);
}

/// Every block's two sums for each tensor, [run][block][2].
struct PartialPairs {
  double* sums;
  std::uint64_t blocks;
  template <class Block>
  ORRERY_KERNEL_BODY void put(Block& b, std::uint32_t run, double first, double second) const {
    first = b.sum(first);
    second = b.sum(second);
    if (b.thread() != 0) return;
    sums[2 * (run * blocks + b.index())] = first;
    sums[2 * (run * blocks + b.index()) + 1] = second;
  }
};

/// norms[tensor] += share {first, second}; where there is a gradient's factor, its square multiplies the second.
struct AddPairs {
  TensorRuns tensors;
  PartialPairs partial;
  Elements norms, factor;  ///< factor: none where data is null
  double share;
  bool second_by_factor;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (factor.data != nullptr && factor.load<double>(1) != 0.0) return;
    const double by = second_by_factor && factor.data != nullptr ? factor.load<double>(0) : 1.0;
    for (std::uint32_t r = 0; r < tensors.count; ++r) {
      double first = 0.0, second = 0.0;
      for (std::uint64_t i = b.thread(); i < partial.blocks; i += b.threads()) {
        first += partial.sums[2 * (r * partial.blocks + i)];
        second += partial.sums[2 * (r * partial.blocks + i) + 1];
      }
      first = b.sum(first);
      second = b.sum(second);
      if (b.thread() != 0) continue;
      const std::uint64_t at = 2 * tensors.runs[r].tensor;
      norms.store(at, norms.load<double>(at) + share * first);
      norms.store(at + 1, norms.load<double>(at + 1) + share * by * by * second);
    }
  }
};

/// Adam's direction and the decay.
template <class T>
struct LambDirection {
  double beta1, beta2;
  T epsilon, decay;
  T correct1 = T{1}, correct2 = T{1};

  explicit LambDirection(const Optimizer& o)
      : beta1(o.beta1), beta2(o.beta2), epsilon(static_cast<T>(o.epsilon)), decay(static_cast<T>(o.weight_decay)) {}
  [[nodiscard]] ORRERY_ON_DEVICE LambDirection at(double step) const {
    LambDirection d = *this;
    d.correct1 = static_cast<T>(1.0 / (1.0 - std::pow(beta1, step)));
    d.correct2 = static_cast<T>(1.0 / (1.0 - std::pow(beta2, step)));
    return d;
  }
  [[nodiscard]] ORRERY_ON_DEVICE T operator()(T m, T v, T w) const {
    return m * correct1 / (std::sqrt(v * correct2) + epsilon) + decay * w;
  }
};

template <class T>
struct LambMoments {
  TensorRuns tensors;
  UpdateOperands u;  ///< its weight is the exact one
  LambDirection<T> directions;
  PartialPairs partial;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const LambDirection<T> direction = directions.at(u.steps.load<double>(0));
    const T multiplier = u.multiplier<T>();
    const auto keep1 = static_cast<T>(directions.beta1);
    const auto keep2 = static_cast<T>(directions.beta2);
    const auto rest1 = static_cast<T>(1.0 - directions.beta1);
    const auto rest2 = static_cast<T>(1.0 - directions.beta2);
    for (std::uint32_t r = 0; r < tensors.count; ++r) {
      double of_weight = 0.0, of_direction = 0.0;
      for_own_elements(b, tensors.runs[r], [&](std::uint64_t i) {
        const T g = u.gradient.load<T>(i) * multiplier;
        const T m = keep1 * u.moments[0].template load<T>(i) + rest1 * g;
        const T v = keep2 * u.moments[1].template load<T>(i) + rest2 * g * g;
        u.moments[0].store(i, m);
        u.moments[1].store(i, v);
        const T w = u.weight.load<T>(i);
        const auto d = static_cast<double>(direction(m, v, w));
        of_weight += static_cast<double>(w) * static_cast<double>(w);
        of_direction += d * d;
      });
      partial.put(b, r, of_weight, of_direction);
    }
  }
};

template <class T>
struct LambUpdate {
  TensorRuns tensors;
  UpdateOperands u;  ///< its gradient are the norms
  LearningRate schedule;
  LambDirection<T> directions;
  double trust_clip;  ///< below 0: none
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const double step = u.steps.load<double>(0);
    const double rate = schedule.at(step);
    const LambDirection<T> direction = directions.at(step);
    for (std::uint32_t r = 0; r < tensors.count; ++r) {
      const double weight = std::sqrt(u.gradient.load<double>(2 * tensors.runs[r].tensor));
      const double length = std::sqrt(u.gradient.load<double>(2 * tensors.runs[r].tensor + 1));
      const double trusted = trust_clip >= 0.0 && trust_clip < weight ? trust_clip : weight;
      const auto scale = static_cast<T>(rate * (weight > 0.0 && length > 0.0 ? trusted / length : 1.0));
      for_own_elements(b, tensors.runs[r], [&](std::uint64_t i) {
        const T w = u.exact<T>(i);
        u.put(i, w - scale * direction(u.moments[0].template load<T>(i), u.moments[1].template load<T>(i), w));
      });
    }
  }
};

template <class T>
struct LarsNorms {
  TensorRuns tensors;
  Elements gradient, exact, factor;
  PartialPairs partial;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (factor.data != nullptr && factor.load<double>(1) != 0.0) return;
    for (std::uint32_t r = 0; r < tensors.count; ++r) {
      double of_weight = 0.0, of_gradient = 0.0;
      for_own_elements(b, tensors.runs[r], [&](std::uint64_t i) {
        const auto w = static_cast<double>(exact.load<T>(i));
        const auto g = static_cast<double>(gradient.load<T>(i));
        of_weight += w * w;
        of_gradient += g * g;
      });
      partial.put(b, r, of_weight, of_gradient);
    }
  }
};

template <class T>
struct LarsUpdate {
  TensorRuns tensors;
  UpdateOperands u;  ///< its second moments are the norms; none where data is null
  LearningRate schedule;
  double momentum, decay, trust_coefficient;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const double rate = schedule.at(u.steps.load<double>(0));
    const T multiplier = u.multiplier<T>();
    const auto kept = static_cast<T>(momentum);
    const auto drawn = static_cast<T>(decay);
    for (std::uint32_t r = 0; r < tensors.count; ++r) {
      double ratio = 1.0;
      if (u.moments[1].data != nullptr) {
        const double weight = std::sqrt(u.moments[1].template load<double>(2 * tensors.runs[r].tensor));
        const double gradient = std::sqrt(u.moments[1].template load<double>(2 * tensors.runs[r].tensor + 1));
        if (weight > 0.0 && gradient > 0.0) ratio = trust_coefficient * weight / (gradient + decay * weight);
      }
      const auto scale = static_cast<T>(rate * ratio);
      for_own_elements(b, tensors.runs[r], [&](std::uint64_t i) {
        const T w = u.exact<T>(i);
        const T m = kept * u.moments[0].template load<T>(i) + scale * (u.gradient.load<T>(i) * multiplier + drawn * w);
        u.moments[0].store(i, m);
        u.put(i, w - m);
      });
    }
  }
};

template <class T, class Launcher>
bool run_trust_ratios(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  // Four elements a thread, as other updates have.
  const auto blocks_of = [](const TensorRuns& batch, std::uint64_t most) {
    std::uint64_t longest = 1;
    for (std::uint32_t r = 0; r < batch.count; ++r) longest = std::max(longest, batch.runs[r].count);
    return std::min(most, (longest + 4 * usual_threads - 1) / (4 * usual_threads));
  };
  const auto update = [&](const std::vector<TensorRun>& runs, const auto& body_of) {
    for_each_batch(runs, [&](const TensorRuns& batch) {
      l.launch(body_of(batch), blocks_of(batch, most_blocks), usual_threads, 0);
    });
  };
  /// Makes both norms of each tensor: `body_of(batch, partial)` leaves every block's sums.
  const auto norms = [&](const std::vector<TensorRun>& runs, const Elements& factor, bool second_by_factor,
                         const auto& body_of) {
    for_each_batch(runs, [&](const TensorRuns& batch) {
      const std::uint64_t blocks = blocks_of(batch, sum_blocks);
      const PartialPairs partial{static_cast<double*>(l.scratch(2 * batch.count * blocks * sizeof(double))), blocks};
      l.launch(body_of(batch, partial), blocks, usual_threads, 0);
      l.launch(AddPairs{batch, partial, Elements(o[N::norms]), factor, k.parameter, second_by_factor}, 1, usual_threads,
               0);
    });
  };
  switch (k.kind) {
    case KernelKind::lamb_moments: {
      const UpdateOperands u(o, N::gradient, N::exact, N::m, N::v);
      norms(tensor_runs(o[N::exact], c), u.factor, false, [&](const TensorRuns& batch, const PartialPairs& partial) {
        return LambMoments<T>{batch, u, LambDirection<T>(c.workload->optimizer), partial};
      });
      return true;
    }
    case KernelKind::lamb_update: {
      const Optimizer& how = c.workload->optimizer;
      update(tensor_runs(o[N::weight], c), [&](const TensorRuns& batch) {
        return LambUpdate<T>{batch, UpdateOperands(o, N::norms, N::weight, N::m, N::v), LearningRate(*c.workload),
                             LambDirection<T>(how), how.trust_clip.value_or(-1.0)};
      });
      return true;
    }
    case KernelKind::lars_norms: {
      const Elements factor = elements_if(o, N::factor);
      norms(tensor_runs(o[N::exact], c), factor, true, [&](const TensorRuns& batch, const PartialPairs& partial) {
        return LarsNorms<T>{batch, Elements(o[N::gradient]), Elements(o[N::exact]), factor, partial};
      });
      return true;
    }
    case KernelKind::lars_update: {
      const Optimizer& how = c.workload->optimizer;
      const std::vector<TensorRun> whole{{0, 0, o[N::gradient].count}};
      update(k.depth == 0 ? whole : tensor_runs(o[N::weight], c), [&](const TensorRuns& batch) {
        return LarsUpdate<T>{batch,
                             UpdateOperands(o, N::gradient, N::weight, N::m, N::norms),
                             LearningRate(*c.workload),
                             how.momentum,
                             k.options.decay ? how.weight_decay : 0.0,
                             how.trust_coefficient};
      });
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
