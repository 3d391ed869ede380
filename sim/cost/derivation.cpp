#include "sim/cost/derivation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/base/units_text.hpp"

namespace orrery {

std::string_view name_of(NumberSource s) {
  constexpr std::array<std::string_view, 8> names{"program",     "placement", "device", "cluster",
                                                  "calibration", "software",  "nccl",   "formula"};
  return names[static_cast<std::size_t>(s)];
}

std::string_view name_of(NumberBy by) {
  constexpr std::array<std::string_view, 7> names{"given",   "sum",   "product",   "quotient",
                                                  "largest", "least", "saturation"};
  return names[static_cast<std::size_t>(by)];
}

double evaluate(const DerivedNumber& n) {
  if (n.by == NumberBy::given) return n.value;
  ORRERY_ASSERT(!n.from.empty(), n.name);
  double out = evaluate(n.from.front());
  if (n.by == NumberBy::saturation) return -std::expm1(-out);
  for (std::size_t i = 1; i < n.from.size(); ++i) {
    const double next = evaluate(n.from[i]);
    switch (n.by) {
      case NumberBy::sum: out += next; break;
      case NumberBy::product: out *= next; break;
      case NumberBy::quotient: out /= next; break;
      case NumberBy::largest: out = std::max(out, next); break;
      case NumberBy::least: out = std::min(out, next); break;
      case NumberBy::given:
      case NumberBy::saturation: break;
    }
  }
  return out;
}

std::string value_text(const DerivedNumber& n) {
  const auto is = [&](int bytes, int flops, int seconds) {
    return n.bytes == bytes && n.flops == flops && n.seconds == seconds;
  };
  constexpr int digits = 4;
  if (is(0, 0, 1)) return short_text(Seconds::of(n.value), digits);
  if (is(1, 0, 0)) return short_text(Bytes::of(n.value), digits);
  if (is(1, 0, -1)) return short_text(Bandwidth::of(n.value), digits);
  if (is(0, 1, -1)) return short_text(FlopRate::of(n.value), digits);
  if (is(0, 1, 0)) return short_count(n.value, digits) + (std::abs(n.value) < 1000.0 ? " FLOP" : "FLOP");
  return std::abs(n.value) < 1e5 ? fmt::format("{:.{}g}", n.value, digits + 1) : short_count(n.value, digits);
}

DerivedNumber Derivation::take() {
  ORRERY_ASSERT(!stack_.empty());
  DerivedNumber out = std::move(stack_.back());
  stack_.pop_back();
  return out;
}

void Derivation::push(std::string name, double value, int bytes, int flops, int seconds, NumberBy by, std::size_t parts,
                      NumberSource source, std::string where) {
  ORRERY_ASSERT(parts <= stack_.size() && (by == NumberBy::given) == (parts == 0), parts, stack_.size());
  DerivedNumber n{std::move(name),
                  value,
                  static_cast<std::int8_t>(bytes),
                  static_cast<std::int8_t>(flops),
                  static_cast<std::int8_t>(seconds),
                  by,
                  source,
                  std::move(where),
                  {}};
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(parts);
  n.from.assign(std::make_move_iterator(first), std::make_move_iterator(stack_.end()));
  stack_.erase(first, stack_.end());
  stack_.push_back(std::move(n));
}

}  // namespace orrery
