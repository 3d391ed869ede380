#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

class Library;

inline constexpr std::uint64_t plan_schema = 1;

/// Reads a plan file (docs/plan-file.md) with everything it names.
///
///     schema = 1
///     name = "two by two by two"
///     model = "gpt2-124m"            # a built-in name or a path
///     cluster = "local-cpu"          # may be left out
///     gpus = 8                       # may be left out: the cluster file's size
///
///     [workload]
///     batch = 16
///     sequence = 128
///     precision = "fp32"
///
///     [mesh]
///     order = ["pipeline", "data", "tensor"]   # outermost first
///     pipeline = 2
///     data = 2
///     tensor = 2
///
///     [plan]
///     microbatch_size = 2
///     schedule = "1f1b"
///     stage_layers = "auto"
///
/// `file` is the name shown in messages; relative paths inside are relative to
/// its folder.  `gpus` stands in for the file's `gpus`.  A choice that is
/// missing or "auto" stays unset.  What is returned has passed check(); after
/// any mistake the result is empty, and every mistake found is in the
/// diagnostics with its line and column.
[[nodiscard]] std::optional<PlannedRun> read_plan(std::string text, const std::string& file, const Library&,
                                                  std::optional<std::uint32_t> gpus, Diagnostics&);

/// The same for a plan whose model may stand elsewhere, and without check(). With `model` the text needs none.
[[nodiscard]] std::optional<PlannedRun> read_unchecked_plan(std::string text, const std::string& file, const Library&,
                                                            std::optional<std::uint32_t> gpus, const ModelSpec* model,
                                                            Diagnostics&);

/// The same from a file; one that cannot be read is a diagnostic (file.open).
[[nodiscard]] std::optional<PlannedRun> read_plan_file(const std::filesystem::path&, const Library&,
                                                       std::optional<std::uint32_t> gpus, Diagnostics&);

/// A plan file that reads back equal: model and cluster by their references,
/// `gpus` from the cluster, "auto" for what is unset.
[[nodiscard]] std::string write_plan(const PlannedRun&);

/// One decision of a plan as its file states it: "plan.zero_stage", "1".
struct Decision {
  std::string key, value;
  friend bool operator==(const Decision&, const Decision&) = default;
};
/// All decisions, in the order of the file, so that code which compares plans forgets none.
[[nodiscard]] std::vector<Decision> decisions(const Plan&);

}  // namespace orrery
