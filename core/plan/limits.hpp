#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/dimension.hpp"

namespace orrery {

/// Values that are allowed, by key: "plan.zero_stage".
using LimitedValues = std::map<std::string, std::vector<std::uint64_t>, std::less<>>;

/// Values that go together only under a condition: a run whose values are all in `when` has its others in `then`.
struct LimitRule {
  LimitedValues when, then;
  std::string reason;
  [[nodiscard]] bool holds(const PlannedRun&) const;
};

/// What a search may decide: of the dimensions named here only these values, of all others any.
struct SearchLimits {
  LimitedValues only;
  std::vector<LimitRule> rules = {};

  [[nodiscard]] bool allow(std::string_view key, std::uint64_t value) const;
  /// Whether the run's value of a dimension is allowed, is "auto", or does not apply.
  [[nodiscard]] bool allow_one(const PlannedRun&, const Dimension&) const;
  /// Whether every dimension of the run has a value that is allowed.
  [[nodiscard]] bool allow(const PlannedRun&, Dimensions = dimensions()) const;
};

/// What both allow. A dimension of which no value is left keeps none, so that nothing is allowed.
[[nodiscard]] SearchLimits both(SearchLimits, const SearchLimits&);

/// Values as a person reads them: "1f1b, interleaved"; "1, 4 to 512".
[[nodiscard]] std::string values_text(const Dimension&, const std::vector<std::uint64_t>& values);

/// Whether a search turns the dimension: it belongs to the plan, and a person can turn it.
[[nodiscard]] bool is_searched(const Dimension&);

/// The axes pipeline, data, tensor in 1D and expert, ZeRO 0 and 1, GPipe and 1F1B, each layer recomputed or none, and
/// all on the device.
[[nodiscard]] SearchLimits basic_limits();

/// Reads "tensor=8 pp=2 zero=0,1 schedule=1f1b,zb-v context=off": keys of plan files by their last word or an alias,
/// each with the values that are allowed, in the words of plan files.  `off` is an axis of size 1, and elsewhere the
/// first value; `offload=off` and `disks=off` stand for all dimensions of that kind.  What is wrong is in the
/// diagnostics (cli.only).
[[nodiscard]] SearchLimits limits_of(std::string_view text, Diagnostics&, Dimensions = dimensions());

}  // namespace orrery
