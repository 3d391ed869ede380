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

/// What is asked of a run's values: each key's is one of these, and none of those.
struct Condition {
  LimitedValues one_of, none_of;
  /// Whether it holds. A dimension that does not apply to the run has its default; with `idle_too` it meets whatever is
  /// asked of it.
  [[nodiscard]] bool holds(const PlannedRun&, bool idle_too) const;
  [[nodiscard]] bool asks_nothing() const { return one_of.empty() && none_of.empty(); }
  /// A key that it asks of, for messages.
  [[nodiscard]] std::string_view first_key() const;
};
/// Reads "expert=!1 zero=2,3": as limits_of() does, and "!" before the values means none of them.
[[nodiscard]] Condition condition_of(std::string_view text, Diagnostics&);

/// Values that go together only under a condition: where `when` holds, so does `then`.
struct LimitRule {
  Condition when, then;
  std::string reason;
  std::string key = {};  ///< what `also` is about: "plan.stage_layers"
  /// What no list of values says, as the order of axes; null: nothing. What a plan leaves open passes.
  bool (*also)(const PlannedRun&) = nullptr;
  [[nodiscard]] bool holds(const PlannedRun& run) const {
    return !when.holds(run, false) || (then.holds(run, true) && (also == nullptr || also(run)));
  }
};

/// What a search may decide: of the dimensions named here only these values, of all others any.
struct SearchLimits {
  LimitedValues only;
  std::vector<LimitRule> rules = {};
  /// Gives what a plan leaves open the one value that it may have, where it is no list of values that says so; null:
  /// nothing is so.
  void (*close)(PlannedRun&) = nullptr;

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

/// The plainest plans: the axes pipeline, data, tensor in 1D and expert, ZeRO 0 and 1, GPipe and 1F1B, each layer
/// recomputed or none, and all on the device.
[[nodiscard]] SearchLimits plainest_limits();

/// Reads "tensor=8 pp=2 zero=0,1 schedule=1f1b,zb-v context=off": keys of plan files by their last word or an alias,
/// each with the values that are allowed, in the words of plan files.  `off` is an axis of size 1, and elsewhere the
/// first value; `offload=off` and `disks=off` stand for all dimensions of that kind.  What is wrong is in the
/// diagnostics (cli.only).
[[nodiscard]] SearchLimits limits_of(std::string_view text, Diagnostics&, Dimensions = dimensions());

}  // namespace orrery
