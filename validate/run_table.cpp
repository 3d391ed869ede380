#include "validate/run_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/nearest.hpp"
#include "core/base/toml_reader.hpp"
#include "validate/csv.hpp"

namespace orrery {
namespace {

using Text = std::string MeasuredRun::*;
using Count = std::optional<std::uint64_t> MeasuredRun::*;
using Number = std::optional<double> MeasuredRun::*;

struct Column {
  const char* name;
  std::variant<Text, Count, Number> into;
};
using R = MeasuredRun;
/// In the order in which tables are written.
const std::array<Column, 46> columns = {{{"id", &R::id},
                                         {"source", &R::source},
                                         {"citation", &R::citation},
                                         {"provenance", &R::provenance},
                                         {"gpu", &R::gpu},
                                         {"gpu_mem_gb", &R::gpu_mem_gb},
                                         {"gpus", &R::gpus},
                                         {"gpus_per_node", &R::gpus_per_node},
                                         {"intra_link", &R::intra_link},
                                         {"inter_net", &R::inter_net},
                                         {"model", &R::model},
                                         {"layers", &R::layers},
                                         {"hidden", &R::hidden},
                                         {"ffn", &R::ffn},
                                         {"heads", &R::heads},
                                         {"kv_heads", &R::kv_heads},
                                         {"seq", &R::seq},
                                         {"vocab", &R::vocab},
                                         {"experts", &R::experts},
                                         {"topk", &R::topk},
                                         {"activation", &R::activation},
                                         {"precision", &R::precision},
                                         {"gbs", &R::gbs},
                                         {"mbs", &R::mbs},
                                         {"tp", &R::tp},
                                         {"pp", &R::pp},
                                         {"vp", &R::vp},
                                         {"dp", &R::dp},
                                         {"cp", &R::cp},
                                         {"ep", &R::ep},
                                         {"etp", &R::etp},
                                         {"sp", &R::sp},
                                         {"zero", &R::zero},
                                         {"recompute", &R::recompute},
                                         {"framework", &R::framework},
                                         {"iter_s", &R::iter_s},
                                         {"tflops_gpu", &R::tflops_gpu},
                                         {"tok_s_gpu", &R::tok_s_gpu},
                                         {"samples_s", &R::samples_s},
                                         {"mfu_pct", &R::mfu_pct},
                                         {"hfu_pct", &R::hfu_pct},
                                         {"peak_mem_gb", &R::peak_mem_gb},
                                         {"peak_mem_kind", &R::peak_mem_kind},
                                         {"flop_convention", &R::flop_convention},
                                         {"derived", &R::derived},
                                         {"notes", &R::notes}}};

/// Counts above this are no sizes of a run.
constexpr std::uint64_t most = std::uint64_t{1} << 32;

class Reader {
 public:
  Reader(const Origin& origin, Diagnostics& out) : origin_(origin), out_(out) {}

  /// The column that each cell of a row is for.
  std::vector<const Column*> header(const CsvRow& row) {
    std::vector<const Column*> found;
    std::map<std::string_view, bool> seen;
    for (const CsvCell& cell : row) {
      const Column* at = nullptr;
      for (const Column& c : columns) {
        if (cell.text == c.name) at = &c;
      }
      if (at == nullptr) {
        std::vector<std::string> names;
        for (const Column& c : columns) names.emplace_back(c.name);
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
    for (const Column& c : columns) {
      if (!seen.contains(c.name)) missing.emplace_back(c.name);
    }
    if (!missing.empty()) {
      error(row.front().at, "runs.column", "the table lacks columns",
            {fmt::format("Missing: {}. What is not known is an empty cell.", fmt::join(missing, ", "))});
    }
    return found;
  }

  MeasuredRun run(const CsvRow& row, const std::vector<const Column*>& header) {
    MeasuredRun run;
    if (row.size() != header.size()) {
      error(row.front().at, "runs.cells", "a row does not have a cell for each column",
            {fmt::format("It has {} cells; the first row names {} columns.", row.size(), header.size()),
             "A text with a comma stands in quotes."});
      return run;
    }
    const CsvCell* id = &row.front();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (header[i]->into == decltype(Column::into){&R::id}) id = &row[i];
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
      error(cell.at, "runs.number", fmt::format("{} is no count", name),
            {fmt::format("It is \"{}\"; a whole number from 1 to {} is wanted, or an empty cell.", cell.text, most)});
      return;
    }
    into = value;
  }
  void read(const CsvCell& cell, const char* name, std::optional<double>& into) {
    if (cell.text.empty()) return;
    double value = 0.0;
    const auto [end, fault] = std::from_chars(cell.text.data(), cell.text.data() + cell.text.size(), value);
    if (fault != std::errc{} || end != cell.text.data() + cell.text.size() || !(value > 0.0 && value <= 1e15)) {
      error(cell.at, "runs.number", fmt::format("{} is no measured figure", name),
            {fmt::format("It is \"{}\"; a number above 0 is wanted, or an empty cell.", cell.text)});
      return;
    }
    into = value;
  }

  const Origin& origin_;
  Diagnostics& out_;
  std::map<std::string, std::uint32_t> ids_;
};

std::string cell_text(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::optional<std::vector<MeasuredRun>> parse_runs(std::string text, std::string name, Diagnostics& diagnostics) {
  Diagnostics found;
  const Origin origin{std::move(name), std::move(text), {}};
  std::vector<MeasuredRun> runs;
  const std::vector<CsvRow> rows = read_csv(origin, found);
  if (found.empty() && rows.empty()) {
    found.error_at(origin, {1, 1}, "runs.empty", "the table is empty", {"Its first row names the columns."});
  }
  if (found.empty()) {
    Reader reader(origin, found);
    const std::vector<const Column*> header = reader.header(rows.front());
    // Cells of unknown columns mean nothing: the header is mended first.
    for (std::size_t i = 1; i < rows.size() && (i > 1 || found.empty()) && found.size() < 20; ++i) {
      runs.push_back(reader.run(rows[i], header));
    }
  }
  for (const Diagnostic& d : found.list()) diagnostics.add(d);
  if (!found.empty()) return std::nullopt;
  return runs;
}

std::optional<std::vector<MeasuredRun>> read_runs(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_runs(std::move(*text), file.string(), diagnostics);
}

std::string write_runs(const std::vector<MeasuredRun>& runs) {
  std::string out;
  for (const Column& c : columns) out += fmt::format("{}{}", &c == columns.data() ? "" : ",", c.name);
  out += "\n";
  struct Writer {
    const MeasuredRun& run;
    std::string operator()(Text t) const { return cell_text(run.*t); }
    std::string operator()(Count c) const { return run.*c ? fmt::to_string(*(run.*c)) : ""; }
    std::string operator()(Number n) const { return run.*n ? fmt::to_string(*(run.*n)) : ""; }
  };
  for (const MeasuredRun& run : runs) {
    for (const Column& c : columns) {
      out += (&c == columns.data() ? "" : ",") + std::visit(Writer{run}, c.into);
    }
    out += "\n";
  }
  return out;
}

}  // namespace orrery
