#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/base/diagnostics.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// A Report as JSON. Units stand in the names of keys: step_time_s, peak_memory_bytes. The same report gives the same
/// bytes: keys stand in a fixed order, numbers in the shortest form that reads back to the same value.
[[nodiscard]] nlohmann::ordered_json to_json(const Report&);
[[nodiscard]] std::string write_report(const Report&);

/// Reads what write_report wrote.  `file` names it in diagnostics.  Refuses
/// unknown keys, missing keys, wrong types and newer schema versions.
[[nodiscard]] std::optional<Report> read_report(std::string_view text, const std::string& file, Diagnostics&);

/// Whether a JSON text says that it is a report of ours.
[[nodiscard]] bool looks_like_report(std::string_view text);

/// The report as a person reads it: figures with units, time by operation,
/// memory by stage.
[[nodiscard]] std::string render(const Report&);

}  // namespace orrery
