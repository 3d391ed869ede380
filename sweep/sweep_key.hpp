#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/dimension.hpp"

namespace orrery {

/// A thing that a sweep may vary: the model, the cluster, the training program, or a dimension of the table
/// (core/plan/dimension.hpp) that a person turns.
struct SweepKey {
  std::string word;                      ///< "model", "cluster", "for", or a dimension's key: "plan.zero_stage"
  const Dimension* dimension = nullptr;  ///< null for the first three

  /// What a person calls it: "zero_stage".
  [[nodiscard]] std::string_view name() const;
  friend bool operator==(const SweepKey& a, const SweepKey& b) { return a.word == b.word; }
};

/// The key of this name, "seq", "zero" or "plan.zero_stage"; empty where there is none.
[[nodiscard]] std::optional<SweepKey> sweep_key_named(std::string_view name);
/// The names that are nearest to one that is no key, for messages.
[[nodiscard]] std::vector<std::string> nearest_sweep_keys(const std::string& name);
/// Order in which keys are nested: the model outermost, then the cluster, the program, devices, workload, mesh, plan.
[[nodiscard]] std::size_t nesting_of(const SweepKey&);

/// One key and the values that it takes, in the words of plan files: 8192 and not 8k, "1f1b".
struct SweepAxis {
  SweepKey key;
  std::vector<std::string> values;  ///< at least one
  friend bool operator==(const SweepAxis&, const SweepAxis&) = default;
};

/// Reads a list of values, "8,16,32". A whole number may end in k or M, which stand for 1024 and 1024^2. "8..64" is 8
/// and its doublings up to 64, "64..256+64" is 64, 128, 192 and 256. Empty with the reason in `why` after a mistake.
[[nodiscard]] std::optional<SweepAxis> sweep_axis(const SweepKey&, std::string_view list, std::string& why);

/// The number that a value of a count or an axis is; empty for names.
[[nodiscard]] std::optional<double> number_of(const SweepKey&, const std::string& value);

}  // namespace orrery
