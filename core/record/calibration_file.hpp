#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

class TomlTable;
class TomlWriter;

/// Reads a calibration file (TOML, schema 1).  Empty when anything is wrong;
/// every mistake is in `diagnostics`.
///
/// Codes besides those of the reader: calibration.axes (sizes do not increase),
/// calibration.values (their number is not the product of the axes),
/// calibration.dimensions (a kernel's table has the wrong number of axes),
/// calibration.duplicate (two entries for one kernel and type).
[[nodiscard]] std::optional<Calibration> read_calibration(const std::filesystem::path&, Diagnostics&);

/// The same from text; `file` is the name shown in messages.
[[nodiscard]] std::optional<Calibration> parse_calibration(std::string text, std::string file, Diagnostics&);

/// The file's text; parse_calibration gives an equal calibration back.
[[nodiscard]] std::string calibration_text(const Calibration&);

/// The keys of a LinkCurve: floor, stretch, fill, fill_time and, optional, pairs.
void read_link_curve(TomlTable&, LinkCurve&);
void write_link_curve(TomlWriter&, const LinkCurve&);

}  // namespace orrery
