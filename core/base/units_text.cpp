#include "core/base/units_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace orrery {
namespace {

struct Unit {
  std::string_view name;
  double base;     ///< base units in one
  bool preferred;  ///< may appear in our output
};

constexpr double ki = 1024.0;

// Each list ascends among its preferred units.
constexpr std::array<Unit, 9> byte_units{{{"B", 1, true},
                                          {"KiB", ki, true},
                                          {"MiB", ki* ki, true},
                                          {"GiB", ki* ki* ki, true},
                                          {"TiB", ki* ki* ki* ki, true},
                                          {"kB", 1e3, false},
                                          {"MB", 1e6, false},
                                          {"GB", 1e9, false},
                                          {"TB", 1e12, false}}};
constexpr std::array<Unit, 14> bandwidth_units{{{"B/s", 1, true},
                                                {"kB/s", 1e3, true},
                                                {"MB/s", 1e6, true},
                                                {"GB/s", 1e9, true},
                                                {"TB/s", 1e12, true},
                                                {"KiB/s", ki, false},
                                                {"MiB/s", ki* ki, false},
                                                {"GiB/s", ki* ki* ki, false},
                                                {"TiB/s", ki* ki* ki* ki, false},
                                                {"bit/s", 0.125, false},
                                                {"kbit/s", 125, false},
                                                {"Mbit/s", 125e3, false},
                                                {"Gbit/s", 125e6, false},
                                                {"Tbit/s", 125e9, false}}};
constexpr std::array<Unit, 7> flop_units{{{"FLOP/s", 1, true},
                                          {"kFLOP/s", 1e3, true},
                                          {"MFLOP/s", 1e6, true},
                                          {"GFLOP/s", 1e9, true},
                                          {"TFLOP/s", 1e12, true},
                                          {"PFLOP/s", 1e15, true},
                                          {"EFLOP/s", 1e18, true}}};
constexpr std::array<Unit, 8> time_units{{{"ps", 1e-12, true},
                                          {"ns", 1e-9, true},
                                          {"us", 1e-6, true},
                                          {"ms", 1e-3, true},
                                          {"s", 1, true},
                                          {"min", 60, false},
                                          {"h", 3600, false},
                                          {"d", 86400, false}}};

/// 3 us is 3 / 1e6, correctly rounded, and not 3 * 1e-6, which is not.
double scaled(double number, const Unit& unit) {
  return unit.base < 1.0 ? number / std::round(1.0 / unit.base) : number * unit.base;
}
double in_unit(double base, const Unit& unit) {
  return unit.base < 1.0 ? base * std::round(1.0 / unit.base) : base / unit.base;
}

std::string names_of(std::span<const Unit> units) {
  std::string out;
  for (const Unit& u : units) out += (out.empty() ? "" : " ") + std::string(u.name);
  return out;
}

std::optional<double> parse(std::string_view text, std::span<const Unit> units, std::string_view example,
                            std::string& problem) {
  const auto trim = [](std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  };
  text = trim(text);
  const std::string_view unsigned_text = !text.empty() && text.front() == '-' ? text.substr(1) : text;
  // from_chars would also take "inf" and "nan".
  const bool digit_first = !unsigned_text.empty() && (unsigned_text.front() >= '0' && unsigned_text.front() <= '9');
  double number = 0.0;
  const char* end = text.data();
  if (digit_first) {
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{}) {
      problem = "the number is too large or too small";
      return std::nullopt;
    }
    end = stop;
  } else {
    problem = fmt::format("a number and a unit are needed, for example \"{}\"", example);
    return std::nullopt;
  }
  const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  if (unit.empty()) {
    problem = fmt::format("the unit is missing; write for example \"{}\"", example);
    return std::nullopt;
  }
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == unit; });
  if (found == units.end()) {
    problem = fmt::format("the unit must be one of {}", names_of(units));
    return std::nullopt;
  }
  const double value = scaled(number, *found);
  if (!std::isfinite(value)) {
    problem = "the number is too large or too small";
    return std::nullopt;
  }
  return value;
}

std::string exact(double base, std::span<const Unit> units) {
  std::string best;
  for (const Unit& u : units) {
    const double number = in_unit(base, u);
    if (!std::isfinite(number) || scaled(number, u) != base) continue;
    const std::string text = fmt::format("{} {}", number, u.name);
    // Shortest wins, then the number without an exponent, then the larger unit.
    const auto cost = [](const std::string& s) { return s.size() + (s.find('e') != std::string::npos ? 8 : 0); };
    if (best.empty() || cost(text) < cost(best) || (cost(text) == cost(best) && u.preferred && std::abs(number) >= 1)) {
      best = text;
    }
  }
  return best;
}

std::string significant(double number, int digits) {
  // The exponent after rounding: with three digits 99.96 prints as 100, not as 100.0.
  const std::string rounded = fmt::format("{:.{}e}", std::abs(number), digits - 1);
  const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
  return fmt::format("{:.{}f}", number, std::max(0, digits - 1 - std::max(0, exponent)));
}

std::string brief(double base, std::span<const Unit> units, int digits) {
  const Unit* chosen = nullptr;
  for (const Unit& u : units) {
    // When a value such as 999.6 would print with three digits as 1000, the next unit is taken.
    if (u.preferred && (chosen == nullptr || std::abs(in_unit(base, u)) >= 0.9995)) chosen = &u;
  }
  if (base == 0.0) return fmt::format("0 {}", units.front().base < 1.0 ? "s" : units.front().name);
  const double number = in_unit(base, *chosen);
  if (units.data() == byte_units.data() && chosen == byte_units.data()) return fmt::format("{:.0f} B", number);
  return fmt::format("{} {}", significant(number, digits), chosen->name);
}

template <class Q>
bool store(std::optional<double> value, Q& into) {
  if (!value) return false;
  into = Q::of(*value);
  return true;
}

}  // namespace

bool parse_quantity(std::string_view text, Bytes& into, std::string& problem) {
  return store(parse(text, byte_units, "80 GiB", problem), into);
}
bool parse_quantity(std::string_view text, Bandwidth& into, std::string& problem) {
  return store(parse(text, bandwidth_units, "3.35 TB/s", problem), into);
}
bool parse_quantity(std::string_view text, FlopRate& into, std::string& problem) {
  return store(parse(text, flop_units, "989 TFLOP/s", problem), into);
}
bool parse_quantity(std::string_view text, Seconds& into, std::string& problem) {
  return store(parse(text, time_units, "5 us", problem), into);
}

std::string exact_text(Bytes q) { return exact(q.base(), byte_units); }
std::string exact_text(Bandwidth q) { return exact(q.base(), bandwidth_units); }
std::string exact_text(FlopRate q) { return exact(q.base(), flop_units); }
std::string exact_text(Seconds q) {
  const std::string text = exact(q.base(), time_units);
  return text.empty() ? fmt::format("{} s", q.base()) : text;
}

std::string short_text(Bytes q, int digits) { return brief(q.base(), byte_units, digits); }
std::string short_text(Bandwidth q, int digits) { return brief(q.base(), bandwidth_units, digits); }
std::string short_text(FlopRate q, int digits) { return brief(q.base(), flop_units, digits); }
std::string short_text(Seconds q, int digits) { return brief(q.base(), time_units, digits); }

std::string short_count(double count, int digits) {
  constexpr std::array<std::string_view, 6> suffixes{"", " k", " M", " G", " T", " P"};
  std::size_t at = 0;
  while (at + 1 < suffixes.size() && std::abs(count) >= 999.5) {
    count /= 1000.0;
    ++at;
  }
  if (at == 0 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  return significant(count, digits) + std::string(suffixes[at]);
}

std::string with_commas(unsigned long long value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace orrery
