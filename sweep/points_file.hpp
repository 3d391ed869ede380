#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sweep/sweep_points.hpp"
#include "sweep/swept_point.hpp"

namespace orrery {

// A file of points: JSON, a line for the sweep and a line for each point that has been computed. While a sweep goes on
// points stand in the order in which they ended; a whole file has them in the sweep's order, so the same sweep gives
// the same bytes with any number of processes.

/// What a file of points is about: its first line.
struct SweepHeader {
  std::string version;   ///< of the program
  std::string name;      ///< of the sweep; may be empty
  std::string answers;   ///< "search" or "estimate"
  std::string settings;  ///< what is the same at all points, for people: "objective step-time, all"
  SweepPoints points;
  friend bool operator==(const SweepHeader&, const SweepHeader&) = default;
};

struct SweepRecord {
  SweepHeader header;
  std::vector<SweptPoint> points;  ///< those that are there, in the file's order
  bool torn = false;               ///< its last line was cut off and is left out
};

inline constexpr std::uint64_t points_schema = 1;
/// A larger file is not read.
inline constexpr std::size_t most_points_bytes = std::size_t{1} << 32;

/// One line each, with its newline.
[[nodiscard]] std::string header_line(const SweepHeader&);
[[nodiscard]] std::string point_line(const SweptPoint&, const SweepPoints&);
/// The header, then the points in the sweep's order.
[[nodiscard]] std::string write_points(const SweepHeader&, std::vector<SweptPoint>);

/// Whether a text says that it is a file of points.
[[nodiscard]] bool looks_like_points(std::string_view text);

/// Reads a file of points. A last line without its newline is what a killed process left of a point: it is left out.
///
/// Codes: points.file for a line that is no point, a key that is missing, or a newer schema
[[nodiscard]] std::optional<SweepRecord> read_points(std::string_view text, const std::string& file, Diagnostics&);

/// One record of all points out of the records of shards, in any order. A point that several have must be the same in
/// all.
///
/// Codes: points.merge where the records are of different sweeps, where a point differs, or where some are missing
[[nodiscard]] std::optional<SweepRecord> merged(const std::vector<std::pair<std::string, SweepRecord>>& files,
                                                Diagnostics&);

}  // namespace orrery
