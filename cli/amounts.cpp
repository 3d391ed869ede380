#include "cli/amounts.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "cli/common.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

struct Scale {
  std::string_view letter;
  double factor;
};
constexpr std::array<Scale, 5> scales{{{"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}}};

/// The number at the beginning of `text`, with its letter; what follows is left in `rest`.
std::optional<double> leading_count(std::string_view text, std::string_view& rest) {
  double value = 0.0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, value);
  if (failure != std::errc{} || !std::isfinite(value)) return std::nullopt;
  rest = std::string_view(end, static_cast<std::size_t>(last - end));
  std::string_view after = rest;
  while (after.starts_with(' ')) after.remove_prefix(1);
  for (const Scale& s : scales) {
    if (!after.starts_with(s.letter) || (after.size() > 1 && after[1] != ' ')) continue;
    value *= s.factor;
    rest = after.substr(1);
    break;
  }
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return value;
}

[[noreturn]] void no_amount(const std::string& text, const char* flag, const char* right) {
  refuse("cli.amount", fmt::format("{}: \"{}\" is no amount above 0", flag, escaped(text)), {right});
}

}  // namespace

double count_of(const std::string& text, const char* flag) {
  std::string_view rest;
  const std::optional<double> value = leading_count(text, rest);
  if (!value || !rest.empty() || !(*value > 0.0 && *value <= 1e24)) {
    no_amount(text, flag, "1T, 300B, 1.5e12 are right; k, M, B (or G) and T are powers of 1000. At most 1e24.");
  }
  return *value;
}

double number_of(const std::string& text, const char* flag, double least, double most) {
  double value = 0.0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, value);
  if (failure != std::errc{} || end != last) {
    refuse("cli.amount", fmt::format("{}: \"{}\" is no number", flag, escaped(text)));
  }
  if (!(value >= least && value <= most)) {
    refuse("cli.amount", fmt::format("{} is out of range", flag),
           {fmt::format("It is {}; from {} to {} is allowed.", escaped(text), least, most)});
  }
  return value;
}

Money money_of(const std::string& text, const char* flag) {
  std::string_view number = text, rest;
  if (number.starts_with('$')) number.remove_prefix(1);
  const std::optional<double> value = leading_count(number, rest);
  bool letters = rest.size() == 3 || rest.empty();
  for (const char c : rest) letters = letters && c >= 'A' && c <= 'Z';
  if (!value || !letters || (text.starts_with('$') && !rest.empty() && rest != "USD") ||
      !(*value > 0.0 && *value <= 1e15)) {
    no_amount(text, flag, "\"$2M\", 2M and \"1.5M EUR\" are right. At most 1e15.");
  }
  return {*value, rest.empty() ? "USD" : std::string(rest)};
}

std::chrono::sys_days date_of(const std::string& text, const char* flag) {
  int parts[3] = {};
  const bool shape = text.size() == 10 && text[4] == '-' && text[7] == '-';
  bool good = shape;
  const int begin[3] = {0, 5, 8}, end[3] = {4, 7, 10};
  for (int i = 0; shape && i < 3; ++i) {
    const auto [at, failure] = std::from_chars(text.data() + begin[i], text.data() + end[i], parts[i]);
    good = good && failure == std::errc{} && at == text.data() + end[i] && parts[i] > 0;
  }
  const std::chrono::year_month_day date{std::chrono::year(parts[0]),
                                         std::chrono::month(static_cast<unsigned>(parts[1])),
                                         std::chrono::day(static_cast<unsigned>(parts[2]))};
  if (!good || !date.ok()) {
    refuse("cli.date", fmt::format("{}: \"{}\" is no date", flag, escaped(text)), {"2027-06-01 is one."});
  }
  return date;
}

std::chrono::sys_days today() { return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()); }

std::string text_of(std::chrono::sys_days day) {
  const std::chrono::year_month_day date{day};
  return fmt::format("{:04}-{:02}-{:02}", int{date.year()}, unsigned{date.month()}, unsigned{date.day()});
}

std::string days_text(double seconds) {
  if (seconds >= 86400.0 * 9999.5) return short_count(seconds / 86400.0) + " d";
  if (seconds >= 86400.0) return fmt::format("{:.{}f} d", seconds / 86400.0, seconds >= 86400.0 * 100 ? 0 : 1);
  if (seconds >= 7200.0) return fmt::format("{:.1f} h", seconds / 3600.0);
  if (seconds >= 120.0) return fmt::format("{:.1f} min", seconds / 60.0);
  return short_text(std::fmax(0.0, seconds) * second);
}

std::string money_text(double amount, const std::string& currency) {
  return fmt::format("{} {}", short_count(amount), currency);
}

std::string energy_text(double joules) {
  const double kwh = joules / 3.6e6;
  if (kwh >= 1e6) return fmt::format("{:.3g} GWh", kwh / 1e6);
  return kwh >= 1e3 ? fmt::format("{:.3g} MWh", kwh / 1e3) : fmt::format("{:.3g} kWh", kwh);
}

}  // namespace orrery
