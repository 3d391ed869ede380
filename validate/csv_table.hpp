#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/counted.hpp"
#include "core/base/csv.hpp"
#include "core/base/nearest.hpp"

namespace orrery {

/// One column of a table of measured figures, and the member of a row that it fills.
template <class Row>
struct CsvColumn {
  using Text = std::string Row::*;
  using Count = std::optional<std::uint64_t> Row::*;
  using Number = std::optional<double> Row::*;
  const char* name;
  std::variant<Text, Count, Number> into;
};

/// Tables whose first row names every column once, in any order, and whose other rows have as many cells. Numbers are
/// positive; an empty cell means that the figure is not published. Every row has an id, and no two the same.
///
/// Codes, with line and column: csv.quote  runs.column  runs.cells  runs.number  runs.id  runs.empty
template <class Row>
class CsvTable {
 public:
  /// `columns` stand in the order in which tables are written.
  explicit CsvTable(std::span<const CsvColumn<Row>> columns) : columns_(columns) {}

  /// Empty when anything is wrong; at most twenty mistakes are reported. `lines` gets the line where each row begins.
  [[nodiscard]] std::optional<std::vector<Row>> parse(const Origin& origin, Diagnostics& diagnostics,
                                                      std::vector<std::uint32_t>* lines = nullptr) const {
    Diagnostics found;
    std::vector<Row> out;
    const std::vector<CsvRow> rows = read_csv(origin, found);
    if (found.empty() && rows.empty()) {
      found.error_at(origin, {1, 1}, "runs.empty", "the table is empty", {"Its first row names the columns."});
    }
    if (found.empty()) {
      Reader reader(columns_, origin, found);
      const std::vector<const CsvColumn<Row>*> header = reader.header(rows.front());
      // Cells of unknown columns mean nothing, so the header must be corrected first.
      for (std::size_t i = 1; i < rows.size() && (i > 1 || found.empty()) && found.size() < 20; ++i) {
        out.push_back(reader.row(rows[i], header));
        if (lines != nullptr) lines->push_back(rows[i].front().at.line);
      }
    }
    for (const Diagnostic& d : found.list()) diagnostics.add(d);
    if (!found.empty()) return std::nullopt;
    return out;
  }

  /// Text that reads back equal.
  [[nodiscard]] std::string write(const std::vector<Row>& rows) const {
    std::string out;
    for (const CsvColumn<Row>& c : columns_) out += fmt::format("{}{}", &c == columns_.data() ? "" : ",", c.name);
    out += "\n";
    for (const Row& row : rows) {
      for (const CsvColumn<Row>& c : columns_) {
        out += (&c == columns_.data() ? "" : ",") + std::visit([&](auto of) { return cell_text(row.*of); }, c.into);
      }
      out += "\n";
    }
    return out;
  }

 private:
  static std::string cell_text(const std::string& text) { return csv_cell(text); }
  template <class T>
  static std::string cell_text(const std::optional<T>& value) {
    return value ? fmt::to_string(*value) : "";
  }

  class Reader {
   public:
    using Column = CsvColumn<Row>;
    Reader(std::span<const Column> columns, const Origin& origin, Diagnostics& out)
        : columns_(columns), origin_(origin), out_(out) {}

    /// The column that each cell of a row is for.
    std::vector<const Column*> header(const CsvRow& row) {
      std::vector<const Column*> found;
      std::map<std::string_view, bool> seen;
      for (const CsvCell& cell : row) {
        const Column* at = nullptr;
        for (const Column& c : columns_) {
          if (cell.text == c.name) at = &c;
        }
        if (at == nullptr) {
          std::vector<std::string> names;
          for (const Column& c : columns_) names.emplace_back(c.name);
          const std::vector<std::string> near = nearest(cell.text, names);
          error(cell.at, "runs.column", fmt::format("no column is called \"{}\"", cell.text),
                {near.empty() ? "docs/validate.md lists the columns."
                              : fmt::format("Nearest: {}.", fmt::join(near, ", "))});
        } else if (std::exchange(seen[at->name], true)) {
          error(cell.at, "runs.column", fmt::format("the column {} stands twice", at->name),
                {"Each stands once, in any order."});
        }
        found.push_back(at);
      }
      std::vector<std::string> missing;
      for (const Column& c : columns_) {
        if (!seen.contains(c.name)) missing.emplace_back(c.name);
      }
      if (!missing.empty()) {
        error(row.front().at, "runs.column", "the table lacks columns",
              {fmt::format("Missing: {}. What is not known is an empty cell.", fmt::join(missing, ", "))});
      }
      return found;
    }

    Row row(const CsvRow& row, const std::vector<const Column*>& header) {
      Row run;
      if (row.size() != header.size()) {
        error(row.front().at, "runs.cells", "a row does not have a cell for each column",
              {fmt::format("It has {}; the first row names {}.", counted(row.size(), "cell"),
                           counted(header.size(), "column")),
               "A text with a comma stands in quotes."});
        return run;
      }
      const CsvCell* id = &row.front();
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (header[i]->into == decltype(Column::into){&Row::id}) id = &row[i];
        std::visit([&](auto into) { read(row[i], header[i]->name, run.*into); }, header[i]->into);
      }
      if (run.id.empty()) {
        error(id->at, "runs.id", "a row has no id", {"Results name their row by it."});
      } else if (const auto [first, fresh] = ids_.emplace(run.id, id->at.line); !fresh) {
        error(id->at, "runs.id", fmt::format("two rows have the id {}", run.id),
              {fmt::format("The first stands in line {}.", first->second)});
      }
      return run;
    }

   private:
    void error(Position at, const char* code, std::string message, std::vector<std::string> details) {
      out_.error_at(origin_, at, code, std::move(message), std::move(details));
    }
    static void read(const CsvCell& cell, const char*, std::string& into) { into = cell.text; }
    void read(const CsvCell& cell, const char* name, std::optional<std::uint64_t>& into) {
      if (cell.text.empty()) return;
      std::uint64_t value = 0;
      const auto [end, fault] = std::from_chars(cell.text.data(), cell.text.data() + cell.text.size(), value);
      if (fault != std::errc{} || end != cell.text.data() + cell.text.size() || value < 1 || value > most) {
        error(
            cell.at, "runs.number", fmt::format("{} is not a count", name),
            {fmt::format("It is \"{}\"; it must be a whole number from 1 to {}, or an empty cell.", cell.text, most)});
        return;
      }
      into = value;
    }
    void read(const CsvCell& cell, const char* name, std::optional<double>& into) {
      if (cell.text.empty()) return;
      double value = 0.0;
      const auto [end, fault] = std::from_chars(cell.text.data(), cell.text.data() + cell.text.size(), value);
      if (fault != std::errc{} || end != cell.text.data() + cell.text.size() || !(value > 0.0 && value <= 1e15)) {
        error(cell.at, "runs.number", fmt::format("{} is not a measured figure", name),
              {fmt::format("It is \"{}\"; it must be a number above 0, or an empty cell.", cell.text)});
        return;
      }
      into = value;
    }

    /// Counts above this are not sizes of anything.
    static constexpr std::uint64_t most = std::uint64_t{1} << 32;

    std::span<const Column> columns_;
    const Origin& origin_;
    Diagnostics& out_;
    std::map<std::string, std::uint32_t> ids_;
  };

  std::span<const CsvColumn<Row>> columns_;
};

}  // namespace orrery
