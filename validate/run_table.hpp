#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// Reads a table of measured runs: a CSV file whose first row names every column of MeasuredRun once, in any order, and
/// whose other rows have as many cells. Numbers are positive; an empty cell means that the figure is not published.
/// Every row has an id, and no two the same.
///
/// Codes, with line and column: csv.quote  runs.column  runs.cells
/// runs.number  runs.id  runs.empty; file.* of the file itself
[[nodiscard]] std::optional<std::vector<MeasuredRun>> read_runs(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<std::vector<MeasuredRun>> parse_runs(std::string text, std::string name, Diagnostics&);

/// The table as text that reads back equal.
[[nodiscard]] std::string write_runs(const std::vector<MeasuredRun>&);

}  // namespace orrery
