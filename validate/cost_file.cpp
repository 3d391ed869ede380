#include "validate/cost_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t newest_schema = 1;
constexpr Limits<double> values{1e-9, 1e6};
constexpr Limits<double> spreads{0.0, 10.0};
constexpr Limits<double> percents{-1e6, 1e6};
constexpr Limits<double> ratios{1e-6, 1e6};
constexpr std::size_t most_runs = 100000;
constexpr std::size_t fewest_runs = 7;    ///< of a key, for an interval: their extremes hold three in four
constexpr std::size_t fewest_alike = 20;  ///< of one kind of model within a key

const std::vector<std::string_view>& cost_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (std::size_t i = 0; i < software_cost_count; ++i) list.push_back(name_of(static_cast<SoftwareCost>(i)));
    return list;
  }();
  return names;
}

/// Reads a label, or nothing: constants depend only on devices and software.
void read_label(TomlTable& from, const char* key, const std::vector<std::string_view>& known, std::string& into) {
  if (!from.read(key, into, Need::optional) || into.empty()) return;
  if (std::find(known.begin(), known.end(), into) != known.end()) return;
  const std::vector<std::string> names(known.begin(), known.end());
  from.error(key, "costs.key", fmt::format("no {} is called \"{}\"", key, into),
             {"Constants belong to devices and training software, never to a model, a size or a run.",
              fmt::format("Known: {}.", fmt::join(names, ", "))});
}

void read_errors(TomlTable& t, HeldOutErrors& into) {
  std::uint64_t runs = 0;
  t.read("runs", runs, {0, most_runs});
  into.runs = runs;
  t.read("mape_pct", into.mape_pct, percents);
  t.read("median_pct", into.median_pct, percents);
  t.read("bias_pct", into.bias_pct, percents);
  t.read("low", into.low, ratios);
  t.read("high", into.high, ratios);
  t.finish();
}

void write_errors(TomlWriter& out, const char* name, const HeldOutErrors& e) {
  if (e == HeldOutErrors{}) return;
  out.table(name).whole("runs", e.runs).number("mape_pct", e.mape_pct);
  out.number("median_pct", e.median_pct).number("bias_pct", e.bias_pct);
  out.number("low", e.low).number("high", e.high);
}

std::optional<CostFile> read_root(TomlTable root, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  if (!read_schema(root, "costs of software", newest_schema)) return std::nullopt;
  CostFile c;
  root.read("name", c.name);
  read_label(root, "device", known_device_labels(), c.device);
  read_label(root, "framework", known_framework_labels(), c.framework);
  root.read("source", c.source, Need::optional);
  for (TomlTable& t : root.tables("costs", software_cost_count, Need::optional)) {
    FittedCost f;
    t.read_enum("cost", cost_names(), f.cost);
    t.read("value", f.value, values);
    t.read("prior", f.prior, values);
    t.read("spread", f.spread, spreads);
    t.read("uncertainty", f.uncertainty, spreads, Need::optional);
    if (std::any_of(c.costs.begin(), c.costs.end(), [&](const auto& o) { return o.cost == f.cost; })) {
      t.error("cost", "costs.duplicate", fmt::format("{} stands twice", name_of(f.cost)));
    }
    t.finish();
    c.costs.push_back(f);
  }
  if (auto t = root.table("held_out", Need::optional)) read_errors(*t, c.errors);
  if (auto t = root.table("held_out_dense", Need::optional)) read_errors(*t, c.dense);
  if (auto t = root.table("held_out_mixtures", Need::optional)) read_errors(*t, c.mixtures);
  if (auto t = root.table("seen", Need::optional)) read_errors(*t, c.seen);
  if (auto t = root.table("seen_dense", Need::optional)) read_errors(*t, c.seen_dense);
  if (auto t = root.table("seen_mixtures", Need::optional)) read_errors(*t, c.seen_mixtures);
  if (auto t = root.table("unnamed", Need::optional)) read_errors(*t, c.unnamed);
  if (auto t = root.table("unmeasured", Need::optional)) read_errors(*t, c.unmeasured);
  if (auto t = root.table("unmeasured_named", Need::optional)) read_errors(*t, c.unmeasured_named);
  for (TomlTable& t : root.tables("devices", most_runs, Need::optional)) {
    std::string calibration;
    std::uint64_t runs = 0;
    t.read("calibration", calibration);
    t.read("runs", runs, {1, most_runs});
    t.finish();
    c.devices[calibration] = runs;
  }
  root.read("architectures", c.architectures, most_runs, Need::optional);
  root.read("runs", c.runs, most_runs, Need::optional);
  root.finish();
  if (diagnostics.size() != before) return std::nullopt;
  return c;
}

bool holds(const std::vector<std::string_view>& labels, const std::string& label) {
  return label.empty() || std::find(labels.begin(), labels.end(), label) != labels.end();
}

}  // namespace

std::optional<CostFile> parse_costs(std::string text, std::string file, Diagnostics& diagnostics) {
  auto root = parse_toml(std::move(text), std::move(file), diagnostics);
  if (!root) return std::nullopt;
  return read_root(std::move(*root), diagnostics);
}

std::optional<std::vector<CostFile>> read_costs(const std::filesystem::path& folder, Diagnostics& diagnostics) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<CostFile> out;
  bool good = true;
  for (const auto& file : files) {
    auto root = open_toml(file, diagnostics);
    auto read = root ? read_root(std::move(*root), diagnostics) : std::nullopt;
    good = good && read;
    if (read) out.push_back(std::move(*read));
  }
  if (!good) return std::nullopt;
  return out;
}

std::string costs_text(const CostFile& c) {
  TomlWriter out;
  out.whole("schema", newest_schema).text("name", c.name);
  if (!c.device.empty()) out.text("device", c.device);
  if (!c.framework.empty()) out.text("framework", c.framework);
  if (!c.source.empty()) out.text("source", c.source);
  if (!c.runs.empty()) out.texts("runs", c.runs);
  if (!c.architectures.empty()) out.texts("architectures", c.architectures);
  write_errors(out, "held_out", c.errors);
  write_errors(out, "held_out_dense", c.dense);
  write_errors(out, "held_out_mixtures", c.mixtures);
  write_errors(out, "seen", c.seen);
  write_errors(out, "seen_dense", c.seen_dense);
  write_errors(out, "seen_mixtures", c.seen_mixtures);
  write_errors(out, "unnamed", c.unnamed);
  write_errors(out, "unmeasured", c.unmeasured);
  write_errors(out, "unmeasured_named", c.unmeasured_named);
  for (const auto& [calibration, runs] : c.devices) {
    out.array_table("devices").text("calibration", calibration).whole("runs", runs);
  }
  for (const FittedCost& f : c.costs) {
    out.array_table("costs").text("cost", name_of(f.cost)).number("value", f.value).number("prior", f.prior);
    out.number("spread", f.spread);
    if (f.uncertainty > 0.0) out.number("uncertainty", f.uncertainty);
  }
  return out.str();
}

bool applies(const CostFile& file, const CostLabels& labels) {
  return holds(labels.devices, file.device) && holds(labels.frameworks, file.framework);
}

SoftwareCosts costs_of(const std::vector<CostFile>& files, const CostLabels& labels) {
  SoftwareCosts all;
  for (const CostFile& file : files) {
    if (!applies(file, labels)) continue;
    SoftwareCosts own;
    for (const FittedCost& f : file.costs) own[f.cost] = f.value;
    all = combined(all, own);
  }
  return all;
}

HeldOutErrors errors_of(const std::vector<CostFile>& files, const CostLabels& labels,
                        const std::optional<ModelKnown>& model) {
  const bool seen = model && std::any_of(files.begin(), files.end(), [&](const CostFile& file) {
                      return std::find(file.architectures.begin(), file.architectures.end(), model->architecture) !=
                             file.architectures.end();
                    });
  HeldOutErrors best;
  for (const CostFile& file : files) {
    if (!applies(file, labels)) continue;
    const bool of_all = file.device.empty() && file.framework.empty();
    const auto look = [&](const HeldOutErrors& errors, const std::string& kind, bool last_resort) {
      const std::size_t fewest = kind.empty() ? fewest_runs : fewest_alike;
      if (errors.runs == 0 || (errors.runs < fewest && !last_resort)) return;
      if (best.runs > 0 && errors.runs >= best.runs) return;
      best = errors;
      best.group = file.name + kind + (seen ? ", model seen" : "");
    };
    look(seen ? file.seen : file.errors, "", of_all);
    if (!model) continue;
    if (model->mixture) {
      look(seen ? file.seen_mixtures : file.mixtures, ", mixtures", false);
    } else {
      look(seen ? file.seen_dense : file.dense, ", dense", false);
    }
  }
  return best;
}

}  // namespace orrery
