#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/calibration.hpp"
#include "validate/collective_validation.hpp"

namespace orrery {

/// Errors of the rows that a curve was fitted to, in percent: means of the absolute errors.
struct CurveErrors {
  std::size_t rows = 0;
  double from_pct = 0.0;         ///< from 1 MiB on
  double large_pct = 0.0;        ///< from 64 MiB on
  double held_out_pct = 0.0;     ///< from 1 MiB on, each size predicted without the rows of that size
  double low = 1.0, high = 1.0;  ///< ratios of measured to predicted time below 1 MiB: a tenth lie below `low`, a tenth
                                 ///< above `high`
  friend bool operator==(const CurveErrors&, const CurveErrors&) = default;
};

/// One file of models/collectives: constants of one kind of link, and the rows that they were fitted to.
struct CurveFile {
  std::string name;
  LinkCurve curve;
  CurveErrors errors;
  std::vector<std::string> machines;  ///< whose rows they were fitted to
  std::vector<std::string> sources;
  friend bool operator==(const CurveFile&, const CurveFile&) = default;
};

/// Codes: file.* of the reader
[[nodiscard]] std::optional<CurveFile> parse_curve(std::string text, std::string file, Diagnostics&);
/// All files of a folder in order of their names.
[[nodiscard]] std::optional<std::vector<CurveFile>> read_curves(const std::filesystem::path& folder, Diagnostics&);
[[nodiscard]] std::string curve_text(const CurveFile&);

[[nodiscard]] LinkCurves curves_of(const std::vector<CurveFile>&);

}  // namespace orrery
