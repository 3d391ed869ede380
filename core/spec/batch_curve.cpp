#include "core/spec/batch_curve.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "core/base/csv.hpp"

namespace orrery {
namespace {

std::optional<double> number_of(const std::string& cell) {
  double value = 0.0;
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (failure != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

double steps_over_least(double batch, double critical) { return 1.0 + critical / batch; }
double examples_over_least(double batch, double critical) { return 1.0 + batch / critical; }

double BatchCurve::steps_at(double batch) const {
  double steps = 0.0, before = 0.0;
  for (const Row& row : rows) {
    steps += (row.progress - before) * (base_batch / batch) * (row.noise + batch) / (row.noise + base_batch);
    before = row.progress;
  }
  return steps;
}

double BatchCurve::examples_at(double batch) const {
  return rows.empty() ? 1.0 : steps_at(batch) * batch / (rows.back().progress * base_batch);
}

std::optional<BatchCurve> parse_batch_curve(const std::string& text, const std::string& file, double base_batch,
                                            Diagnostics& d) {
  constexpr const char* wanted[] = {"progress", "grad_sqr", "grad_var"};
  const Origin origin{file, text, {}};
  const std::size_t mistakes = d.size();
  const std::vector<CsvRow> table = read_csv(origin, d);
  if (d.size() != mistakes) return std::nullopt;
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; !table.empty() && i < table[0].size(); ++i) columns[table[0][i].text] = i;
  for (const char* column : wanted) {
    if (columns.contains(column)) continue;
    d.error_at(origin, {1, 1}, "batch.curve", fmt::format("the table has no column {}", column),
               {"It needs progress, grad_sqr and grad_var, named in its first line."});
    return std::nullopt;
  }
  BatchCurve curve;
  curve.base_batch = base_batch;
  for (std::size_t n = 1; n < table.size(); ++n) {
    const CsvRow& cells = table[n];
    std::optional<double> values[3];
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t at = columns[wanted[i]];
      if (at < cells.size()) values[i] = number_of(cells[at].text);
    }
    const double before = curve.rows.empty() ? 0.0 : curve.rows.back().progress;
    constexpr double most = 1e15;
    const bool good = values[0] && values[1] && values[2] && *values[0] > before && *values[0] <= most &&
                      *values[1] > 0.0 && *values[2] >= 0.0 && base_batch * *values[2] / *values[1] <= most;
    if (!good) {
      d.error_at(
          origin, cells[0].at, "batch.curve", "this row of the curve cannot be used",
          {fmt::format(
              "Progress ascends from {:g}, grad_sqr is above 0, grad_var at least 0; a noise scale is at most 1e15.",
              before)});
      return std::nullopt;
    }
    curve.rows.push_back({*values[0], base_batch * *values[2] / *values[1]});
  }
  if (curve.rows.empty()) {
    d.error_at(origin, {1, 1}, "batch.curve", "the table has no rows", {"A row says the noise up to its progress."});
    return std::nullopt;
  }
  return curve;
}

}  // namespace orrery
