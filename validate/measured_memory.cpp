#include "validate/measured_memory.hpp"

#include <charconv>

#include "core/base/units.hpp"
#include "validate/cell_words.hpp"

namespace orrery {
namespace {

/// Bytes of a unit; none where there is none.
std::optional<double> take_unit(CellWords& words) {
  if (words.take("gib")) return gibibyte.base();
  if (words.take("gb")) return gigabyte.base();
  return std::nullopt;
}

/// "reserved=29.1 GiB" or "steady allocated=12.3 GiB" behind the first figure.
bool take_second(CellWords& words, std::optional<double>& reserved) {
  const bool steady = words.take("steady");
  std::string_view word = words.next();
  const std::string_view key = steady ? "allocated=" : "reserved=";
  if (!word.starts_with(key)) return false;
  word.remove_prefix(key.size());
  double value = 0.0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc{} || end != word.data() + word.size() || !(value > 0.0)) return false;
  words.take(words.next());
  const std::optional<double> unit = take_unit(words);
  if (unit && !steady) reserved = value * *unit;
  return unit.has_value();
}

}  // namespace

std::optional<MeasuredMemory> measured_memory(const MeasuredRun& run) {
  if (!run.peak_mem_gb) return std::nullopt;
  CellWords words(run.peak_mem_kind, ";");
  MeasuredMemory out;
  const std::optional<double> unit = take_unit(words);
  if (!unit) return std::nullopt;
  bool torchtitan = false;
  words.take_remarks([&](std::string_view remark) {
    // torchtitan logs the allocator's max_reserved.
    torchtitan = torchtitan || remark == "torchtitan memory reading";
    out.last_rank = out.last_rank || remark == "logged rank";
    return torchtitan || remark == "logged rank" || remark == "max over ranks" || remark == "mb/1024" ||
           remark == "torchtitan log";
  });
  if (words.take("max_allocated") || (!torchtitan && words.take("max") && words.take("allocated"))) {
    out.allocated = *run.peak_mem_gb * *unit;
  } else if (words.take("max_reserved") ||
             (torchtitan && words.take("max") && words.take("across") && words.take("gpus"))) {
    out.reserved = *run.peak_mem_gb * *unit;
  } else {
    return std::nullopt;
  }
  if (!words.next().empty() && !take_second(words, out.reserved)) return std::nullopt;
  return words.done() ? std::optional(out) : std::nullopt;
}

}  // namespace orrery
