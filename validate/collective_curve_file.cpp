#include "validate/collective_curve_file.hpp"

#include <algorithm>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/record/calibration_file.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t newest_schema = 1;
constexpr Limits<double> percents{0.0, 1e6};
constexpr Limits<double> ratios{1e-6, 1e6};
constexpr std::size_t most_names = 10000;

}  // namespace

std::optional<CurveFile> parse_curve(std::string text, std::string file, Diagnostics& diagnostics) {
  auto root = parse_toml(std::move(text), std::move(file), diagnostics);
  if (!root) return std::nullopt;
  const std::size_t before = diagnostics.size();
  if (!read_schema(*root, "constants of links", newest_schema)) return std::nullopt;
  CurveFile c;
  root->read("name", c.name);
  root->read("machines", c.machines, most_names, Need::optional);
  root->read("sources", c.sources, most_names, Need::optional);
  if (auto t = root->table("curve")) {
    read_link_curve(*t, c.curve);
    t->finish();
  }
  if (auto t = root->table("errors", Need::optional)) {
    std::uint64_t rows = 0;
    t->read("rows", rows, {0, 1000000});
    c.errors.rows = rows;
    t->read("from_1_mib_pct", c.errors.from_pct, percents);
    t->read("from_64_mib_pct", c.errors.large_pct, percents);
    t->read("held_out_from_1_mib_pct", c.errors.held_out_pct, percents);
    t->read("low_below_1_mib", c.errors.low, ratios);
    t->read("high_below_1_mib", c.errors.high, ratios);
    t->finish();
  }
  root->finish();
  if (diagnostics.size() != before) return std::nullopt;
  return c;
}

std::optional<std::vector<CurveFile>> read_curves(const std::filesystem::path& folder, Diagnostics& diagnostics) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  if (failure) {
    diagnostics.error("file.open", "the folder of constants of links cannot be read", {folder.string()});
    return std::nullopt;
  }
  std::sort(files.begin(), files.end());
  std::vector<CurveFile> out;
  for (const std::filesystem::path& file : files) {
    std::optional<std::string> text = read_text(file, diagnostics);
    if (!text) return std::nullopt;
    std::optional<CurveFile> one = parse_curve(std::move(*text), file.string(), diagnostics);
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

std::string curve_text(const CurveFile& c) {
  TomlWriter out;
  out.whole("schema", newest_schema).text("name", c.name);
  if (!c.machines.empty()) out.texts("machines", c.machines);
  if (!c.sources.empty()) out.texts("sources", c.sources);
  write_link_curve(out.table("curve"), c.curve);
  if (c.errors != CurveErrors{}) {
    out.table("errors").whole("rows", c.errors.rows).number("from_1_mib_pct", c.errors.from_pct);
    out.number("from_64_mib_pct", c.errors.large_pct).number("held_out_from_1_mib_pct", c.errors.held_out_pct);
    out.number("low_below_1_mib", c.errors.low).number("high_below_1_mib", c.errors.high);
  }
  return out.str();
}

LinkCurves curves_of(const std::vector<CurveFile>& files) {
  LinkCurves out;
  for (const CurveFile& file : files) out[file.name] = file.curve;
  return out;
}

}  // namespace orrery
