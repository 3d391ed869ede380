#pragma once

#include <string>
#include <string_view>

#include "core/base/units.hpp"

namespace orrery {

/// Quantities as people write them: a number, a space, a unit.
///
///     bytes       B  kB MB GB TB (powers of 1000)  KiB MiB GiB TiB (powers of 1024)
///     bandwidth   any of these per second ("3.35 TB/s"), and bit/s kbit/s Mbit/s Gbit/s Tbit/s
///     flop rate   FLOP/s, kFLOP/s to EFLOP/s
///     time        ps ns us ms s min h d
///
/// The unit is required.  Returns false with a sentence in `problem` for
/// anything else: no unit, an unknown one, not a number, not finite.
bool parse_quantity(std::string_view text, Bytes& into, std::string& problem);
bool parse_quantity(std::string_view text, Bandwidth& into, std::string& problem);
bool parse_quantity(std::string_view text, FlopRate& into, std::string& problem);
bool parse_quantity(std::string_view text, Seconds& into, std::string& problem);

/// The shortest text that parses back to exactly the same quantity: "80 GiB".
[[nodiscard]] std::string exact_text(Bytes);
[[nodiscard]] std::string exact_text(Bandwidth);
[[nodiscard]] std::string exact_text(FlopRate);
[[nodiscard]] std::string exact_text(Seconds);

/// For people: `digits` significant digits in the unit that gives 1 to 999 ("12.4 GiB", "1.31 s", "381 us"). Bytes use
/// powers of 1024, rates powers of 1000.
[[nodiscard]] std::string short_text(Bytes, int digits = 3);
[[nodiscard]] std::string short_text(Bandwidth, int digits = 3);
[[nodiscard]] std::string short_text(FlopRate, int digits = 3);
[[nodiscard]] std::string short_text(Seconds, int digits = 3);
/// A plain count with k, M, G, T after it: 70553706496 is "70.6 G".
[[nodiscard]] std::string short_count(double count, int digits = 3);
/// A whole number with commas between groups of three: "70,553,706,496".
[[nodiscard]] std::string with_commas(unsigned long long value);

}  // namespace orrery
