#pragma once

#include "core/base/diagnostics.hpp"
#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/device/reduction_share.hpp"

namespace orrery::device {

/// Most ranks of a group where all of them are on one device.
inline constexpr std::size_t most_members = 64;

/// A ReductionShare as one kernel: it adds what a ring of the host adds, in that order, and rounds where the ring
/// rounds.
template <class T>
struct Reduce {
  const std::byte* chain[most_members];
  std::byte* results[most_members];
  const std::byte* base;
  const std::byte* base2;
  std::uint32_t links, copies;
  DType dtype;
  Collective::Reduction reduction;

  [[nodiscard]] ORRERY_ON_DEVICE T load(const std::byte* x, std::uint64_t i) const {
    return Elements(const_cast<std::byte*>(x), dtype).template load<T>(i);
  }
  [[nodiscard]] ORRERY_ON_DEVICE T rounded(T x) const {
    if (dtype == DType::bf16) return static_cast<T>(from_bf16(bf16_of(static_cast<float>(x))));
    if (dtype == DType::f16) return static_cast<T>(from_f16(f16_of(static_cast<float>(x))));
    return x;
  }
  /// Combines a sum and a part, as combine() of exec/kernels does.
  [[nodiscard]] ORRERY_ON_DEVICE T combined(T sum, T part) const {
    if (reduction == Collective::Reduction::sum) return rounded(sum + part);
    return sum < part ? part : sum;
  }
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    T value{0};
    for (std::uint32_t n = 0; n < links; ++n) value = n == 0 ? load(chain[0], i) : combined(load(chain[n], i), value);
    if (base != nullptr) {
      T own = load(base, i);
      if (base2 != nullptr) own = combined(own, load(base2, i));
      value = links > 0 ? combined(own, value) : own;
    }
    for (std::uint32_t n = 0; n < copies; ++n) Elements(results[n], dtype).store(i, value);
  }
};

template <class T, class Launcher>
void launch_reduction_as(Launcher& l, const ReductionShare& share) {
  Reduce<T> body{};
  for (std::size_t i = 0; i < share.chain.size(); ++i) body.chain[i] = share.chain[i];
  for (std::size_t i = 0; i < share.results.size(); ++i) body.results[i] = share.results[i];
  body.base = share.base;
  body.base2 = share.base2;
  body.links = static_cast<std::uint32_t>(share.chain.size());
  body.copies = static_cast<std::uint32_t>(share.results.size());
  body.dtype = share.dtype;
  body.reduction = share.reduction;
  for_each(l, share.count, body);
}

template <class Launcher>
void launch_reduction(Launcher& l, const ReductionShare& share) {
  ORRERY_ASSERT(share.chain.size() <= most_members && share.results.size() <= most_members, share.chain.size());
  if (share.dtype == DType::f64) {
    launch_reduction_as<double>(l, share);
  } else {
    launch_reduction_as<float>(l, share);
  }
}

}  // namespace orrery::device
