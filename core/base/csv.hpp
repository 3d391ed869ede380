#pragma once

#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// One cell of a table, without the quotes around it, and the place where it begins.
struct CsvCell {
  std::string text;
  Position at;
  friend bool operator==(const CsvCell&, const CsvCell&) = default;
};
using CsvRow = std::vector<CsvCell>;

/// Cells of a comma-separated table in the form of RFC 4180 (Shafranovich, 2005). Lines end with LF or CRLF. A cell
/// with a comma, a quote or a line end stands in quotes, and a quote inside it is doubled. Empty lines are left out.
/// Adds one diagnostic at the first place that breaks this form, and returns what stands before it.
///
/// Codes: csv.quote
[[nodiscard]] std::vector<CsvRow> read_csv(const Origin&, Diagnostics&);

/// A cell as a table says it: in quotes where it has a comma, a quote or a line end.
[[nodiscard]] std::string csv_cell(const std::string& text);

}  // namespace orrery
