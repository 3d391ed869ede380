#pragma once

#include <type_traits>

#include "core/base/translate.hpp"
#include "core/plan/dimension.hpp"

// Building blocks for the rows of the table; only the files that hold rows include this header.

namespace orrery {

/// The rows of each part of a plan file, in its order.
[[nodiscard]] std::vector<Dimension> run_dimensions();
[[nodiscard]] std::vector<Dimension> mesh_dimensions();
[[nodiscard]] std::vector<Dimension> schedule_dimensions();
[[nodiscard]] std::vector<Dimension> layer_dimensions();
[[nodiscard]] std::vector<Dimension> state_dimensions();
[[nodiscard]] std::vector<Dimension> pricing_dimensions();

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// Value of a member of Plan; where the member may be open, 0 is "auto" and its values follow.
template <auto member>
std::uint64_t plan_value(const PlannedRun& run) {
  const auto& value = run.plan.*member;
  if constexpr (is_optional<std::decay_t<decltype(value)>>) {
    return value ? 1 + static_cast<std::uint64_t>(*value) : 0;
  } else {
    return static_cast<std::uint64_t>(value);
  }
}
template <auto member>
bool put_plan(PlannedRun& run, std::uint64_t value, std::string&) {
  auto& into = run.plan.*member;
  using Value = std::decay_t<decltype(into)>;
  if constexpr (is_optional<Value>) {
    into = value == 0 ? std::nullopt : Value(static_cast<typename Value::value_type>(value - 1));
  } else {
    into = static_cast<Value>(value);
  }
  return true;
}

/// The put() of values that are only read and written: 0 drops the value, and 1 keeps it.
template <std::uint64_t (*has)(const PlannedRun&), void (*drop)(PlannedRun&)>
bool put_written(PlannedRun& run, std::uint64_t value, std::string& reason) {
  if (value == 0) drop(run);
  if (has(run) == value) return true;
  reason = "Nothing is written there.";
  return false;
}

/// Whether several ranks hold the same weights, so that gradients are summed and states can be sharded.
[[nodiscard]] bool shares_weights(const PlannedRun&);

/// The whole numbers that divide n >= 1, ascending.
[[nodiscard]] std::vector<std::uint64_t> divisors_of(std::uint64_t n);
/// from, 2 from, 4 from, ... up to `to`.
[[nodiscard]] std::vector<std::uint64_t> doublings(std::uint64_t from, std::uint64_t to);
[[nodiscard]] std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to);

/// "off" and "on".
[[nodiscard]] std::vector<std::string_view> switch_names();
/// "auto" and the names of the list.
[[nodiscard]] std::vector<std::string_view> or_auto(std::vector<std::string_view> names);
/// Names of values that are only read and written; the first one is the default.
[[nodiscard]] std::vector<std::string_view> as_written(std::string_view usual);

}  // namespace orrery
