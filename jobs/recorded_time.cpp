#include "jobs/recorded_time.hpp"

#include <charconv>
#include <chrono>

namespace orrery {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

/// Takes `size` digits, or any number from 1 on where it is 0, from the front. At most 12.
std::optional<std::int64_t> take_digits(std::string_view& text, std::size_t size) {
  std::size_t end = 0;
  while (end < text.size() && end < 12 && digit(text[end]) && (size == 0 || end < size)) ++end;
  if (end == 0 || (size > 0 && end != size)) return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + end, value);
  text.remove_prefix(end);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

/// Digits behind a point, as microseconds, rounded. Empty where there is none.
std::optional<Microseconds> take_fraction(std::string_view& text) {
  Microseconds value = 0, scale = microseconds_per_second / 10;
  std::size_t at = 0;
  for (; at < text.size() && digit(text[at]); ++at) {
    if (at < 6) value += (text[at] - '0') * scale;
    if (at == 6 && text[at] >= '5') ++value;
    scale /= 10;
  }
  if (at == 0) return std::nullopt;
  text.remove_prefix(at);
  return value;
}

/// "+08:00", "+0800", "Z" or nothing, in microseconds.
std::optional<Microseconds> take_zone(std::string_view& text) {
  if (text.empty() || take(text, 'Z')) return 0;
  const bool minus = text.front() == '-';
  if (!minus && text.front() != '+') return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2);
  if (!hours) return std::nullopt;
  std::optional<std::int64_t> minutes = 0;
  take(text, ':');
  if (!text.empty()) minutes = take_digits(text, 2);
  if (!minutes || *hours > 15 || *minutes > 59) return std::nullopt;
  return (minus ? -1 : 1) * (*hours * 3600 + *minutes * 60) * microseconds_per_second;
}

/// Decimal seconds up to `most` without a sign.
std::optional<Microseconds> decimal(std::string_view text, std::int64_t most) {
  if (text == ".") return std::nullopt;
  std::optional<std::int64_t> whole = 0;
  if (text.empty() || text.front() != '.') whole = take_digits(text, 0);
  if (!whole) return std::nullopt;
  Microseconds fraction = 0;
  if (take(text, '.') && !text.empty()) {
    const auto digits = take_fraction(text);
    if (!digits) return std::nullopt;
    fraction = *digits;
  }
  if (!text.empty() || *whole > most) return std::nullopt;
  const Microseconds value = *whole * microseconds_per_second + fraction;
  return value <= most * microseconds_per_second ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Microseconds> seconds_in(std::string_view text) {
  const bool minus = take(text, '-');
  const auto value = decimal(text, longest_time / microseconds_per_second);
  return value && minus ? -*value : value;
}

std::optional<Microseconds> instant_in(std::string_view text) {
  const auto date = date_in(text);
  return date ? date : decimal(text, 10'000'000'000);
}

std::optional<Microseconds> date_in(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || (!take(text, ' ') && !take(text, 'T'))) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  std::optional<Microseconds> fraction = 0;
  if (take(text, '.')) fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto zone = take_zone(text);
  if (!zone || !text.empty()) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (((days * 24 + *hour) * 60 + *minute) * 60 + *second) * microseconds_per_second + *fraction - *zone;
}

std::optional<std::uint32_t> count_in(std::string_view text) {
  const auto value = seconds_in(text);
  if (!value || *value < 0 || *value % microseconds_per_second != 0) return std::nullopt;
  return static_cast<std::uint32_t>(*value / microseconds_per_second);
}

}  // namespace orrery
