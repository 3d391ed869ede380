#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sweep/sweep_key.hpp"

namespace orrery {

/// A file that says what a sweep varies (docs/sweep.md):
///
///     schema = 1
///     [sweep]
///     model = "llama-3-8b"
///     cluster = "dgx-h100"
///     gpus = [8, 16, 32]
///     sequence = ["8k", "32k"]
///     batch = "64..512"
///
///     [[sweep.case]]     # a grid for each case, in place of the one above: its own keys replace those of [sweep]
///     gpus = 64
///     batch = 1024
///
/// A key has one value or a list of values.
struct SweepFile {
  std::string name;
  /// What is the same at every point, by key: "plan", "objective", "only", "all", "software", "memory_margin",
  /// "keep_below", "tokens".
  std::map<std::string, std::string, std::less<>> settings;
  std::vector<SweepAxis> base;
  std::vector<std::vector<SweepAxis>> cases;
};

inline constexpr std::uint64_t sweep_schema = 1;

/// Codes: those of the TOML reader, and sweep.value for a value that a key does not have
[[nodiscard]] std::optional<SweepFile> parse_sweep(std::string text, const std::string& file, Diagnostics&);

/// The grids of a sweep: each case's axes in place of the base's of the same keys.
[[nodiscard]] std::vector<std::vector<SweepAxis>> grids_of(const std::vector<SweepAxis>& base,
                                                           const std::vector<std::vector<SweepAxis>>& cases);

}  // namespace orrery
