#pragma once

#include <cmath>
#include <cstdint>

#include "exec/kernels/cpu/heads.hpp"

namespace orrery::cpu {

/// ALiBi's slope of a head, of so many heads of the model: with n the largest power of two up to `heads`
///
///     head < n    2^(-8 (head + 1) / n)
///     beyond      2^(-4 (2 (head - n) + 1) / n)        those of 2 n heads, every second one
///
/// Source: Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
/// Extrapolation", ICLR 2022, section 3, and its code for other numbers of heads.
[[nodiscard]] ORRERY_ON_DEVICE inline double alibi_slope(std::uint64_t head, std::uint64_t heads) {
  std::uint64_t n = 1;
  while (2 * n <= heads) n *= 2;
  const auto of = static_cast<double>(n);
  if (head < n) return std::exp2(-8.0 * static_cast<double>(head + 1) / of);
  return std::exp2(-4.0 * static_cast<double>(2 * (head - n) + 1) / of);
}

/// What becomes of the scaled product of a query and a key before the softmax: a soft cap, and a fall with distance
/// (core/program/kernel.hpp).
template <class T>
class ScoreRule {
 public:
  /// `qkv` is the place of packed projections, which says which of the model's heads there are.
  ScoreRule(const Kernel& k, const Place& qkv, const Heads& shape)
      : cap_(static_cast<T>(k.softcap)), alibi_(k.options.alibi), heads_(qkv, shape) {}

  [[nodiscard]] ORRERY_ON_DEVICE bool caps() const { return cap_ > T{0}; }
  /// Whether scores are the scaled products.
  [[nodiscard]] ORRERY_ON_DEVICE bool plain() const { return !caps() && !alibi_; }
  /// ALiBi slope of a local head; 0 without ALiBi.
  [[nodiscard]] ORRERY_ON_DEVICE T slope(std::uint64_t head) const {
    return alibi_ ? static_cast<T>(alibi_slope(heads_.first + head, heads_.all)) : T{0};
  }
  [[nodiscard]] ORRERY_ON_DEVICE T capped(T product) const {
    return caps() ? cap_ * std::tanh(product / cap_) : product;
  }
  /// The derivative of the cap, by what it has made.
  [[nodiscard]] ORRERY_ON_DEVICE T derivative(T capped) const {
    return caps() ? T{1} - capped / cap_ * (capped / cap_) : T{1};
  }
  [[nodiscard]] ORRERY_ON_DEVICE T score(T product, T slope, std::uint64_t query, std::uint64_t key) const {
    return capped(product) + fall(slope, query, key);
  }
  [[nodiscard]] ORRERY_ON_DEVICE static T fall(T slope, std::uint64_t query, std::uint64_t key) {
    return slope * static_cast<T>(static_cast<std::int64_t>(key) - static_cast<std::int64_t>(query));
  }

  /// Turns a row of products into scores; key_at(j) is the position of the row's key j. `derivatives`, where given, get
  /// those of the cap.
  template <class KeyAt>
  void apply(T* row, std::uint64_t count, T slope, std::uint64_t query, KeyAt key_at, T* derivatives = nullptr) const {
    if (plain()) return;
    for (std::uint64_t j = 0; j < count; ++j) {
      const T c = capped(row[j]);
      if (derivatives != nullptr) derivatives[j] = derivative(c);
      row[j] = c + fall(slope, query, key_at(j));
    }
  }

 private:
  T cap_;
  bool alibi_;
  GlobalHeads heads_;
};

}  // namespace orrery::cpu
