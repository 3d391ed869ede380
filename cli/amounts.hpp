#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace orrery {

/// A count as people write it, "1T", "300B", "1.5e12", "70 M": k, M, B or G, T. Refuses (code cli.amount) what is none,
/// and what is not above 0 and at most 1e24; `flag` names it.
[[nodiscard]] double count_of(const std::string& text, const char* flag);

/// A number from `least` to `most`. Refuses (code cli.amount) all else.
[[nodiscard]] double number_of(const std::string& text, const char* flag, double least, double most);

/// Money: "$2M", "2M", "1.5M EUR", "900000 USD".
struct Money {
  double amount = 0.0;
  std::string currency = "USD";
};
[[nodiscard]] Money money_of(const std::string& text, const char* flag);

/// A day, "2027-06-01". Refuses (code cli.date) what is none.
[[nodiscard]] std::chrono::sys_days date_of(const std::string& text, const char* flag);
/// The clock's day in UTC.
[[nodiscard]] std::chrono::sys_days today();
[[nodiscard]] std::string text_of(std::chrono::sys_days);

/// "12.3 d", "3.4 h", "45 min".
[[nodiscard]] std::string days_text(double seconds);
/// "1.23 M USD".
[[nodiscard]] std::string money_text(double amount, const std::string& currency);
/// "4.56 MWh".
[[nodiscard]] std::string energy_text(double joules);

}  // namespace orrery
