#pragma once

#include <compare>

namespace orrery {

/// A number that carries powers of (byte, flop, second).
///
/// Bytes / Bandwidth is Seconds; Bytes + Seconds does not compile.
/// The only way in or out is a named unit: `Bytes::of(4)` is four bytes,
/// `memory.in(gibibyte)` is a plain number of GiB.
template <int Byte, int Flop, int Second>
class Quantity {
 public:
  constexpr Quantity() = default;
  [[nodiscard]] static constexpr Quantity of(double in_base_units) { return Quantity(in_base_units); }
  [[nodiscard]] constexpr double in(Quantity unit) const { return value_ / unit.value_; }
  /// The number of base units (bytes, flops, seconds and their ratios).
  [[nodiscard]] constexpr double base() const { return value_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(double s, Quantity a) { return Quantity(s * a.value_); }
  friend constexpr Quantity operator*(Quantity a, double s) { return Quantity(s * a.value_); }
  friend constexpr Quantity operator/(Quantity a, double s) { return Quantity(a.value_ / s); }
  constexpr Quantity& operator+=(Quantity b) {
    value_ += b.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity b) {
    value_ -= b.value_;
    return *this;
  }

 private:
  constexpr explicit Quantity(double v) : value_(v) {}
  double value_ = 0.0;
};

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator*(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 + B2 == 0 && F1 + F2 == 0 && S1 + S2 == 0) {
    return a.base() * b.base();
  } else {
    return Quantity<B1 + B2, F1 + F2, S1 + S2>::of(a.base() * b.base());
  }
}

template <int B1, int F1, int S1, int B2, int F2, int S2>
constexpr auto operator/(Quantity<B1, F1, S1> a, Quantity<B2, F2, S2> b) {
  if constexpr (B1 == B2 && F1 == F2 && S1 == S2) {
    return a.base() / b.base();
  } else {
    return Quantity<B1 - B2, F1 - F2, S1 - S2>::of(a.base() / b.base());
  }
}

using Bytes = Quantity<1, 0, 0>;
using Flops = Quantity<0, 1, 0>;
using Seconds = Quantity<0, 0, 1>;
using Bandwidth = Quantity<1, 0, -1>;
using FlopRate = Quantity<0, 1, -1>;

inline constexpr Bytes byte = Bytes::of(1);
inline constexpr Bytes kibibyte = Bytes::of(1024.0);
inline constexpr Bytes mebibyte = Bytes::of(1024.0 * 1024.0);
inline constexpr Bytes gibibyte = Bytes::of(1024.0 * 1024.0 * 1024.0);
inline constexpr Bytes gigabyte = Bytes::of(1e9);
inline constexpr Seconds second = Seconds::of(1);
inline constexpr Seconds millisecond = Seconds::of(1e-3);
inline constexpr Seconds microsecond = Seconds::of(1e-6);
inline constexpr Bandwidth gigabyte_per_second = Bandwidth::of(1e9);
inline constexpr FlopRate teraflop_per_second = FlopRate::of(1e12);

}  // namespace orrery
