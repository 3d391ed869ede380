#include "cli/collectives.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "validate/collective_fit.hpp"
#include "validate/collective_json.hpp"

namespace orrery {
namespace {

std::string microseconds(double us) { return fmt::format("{:.5g} us", us); }
std::string signed_percent(double pct) { return fmt::format("{:+.1f} %", pct); }

std::string rows_text(const std::vector<ValidatedCollective>& rows) {
  Table table({"collective", "NCCL's model", "predicted", "from", "to", "measured", "error", "<taken", "<really"});
  for (const ValidatedCollective& r : rows) {
    const double us = r.predicted.time.in(microsecond);
    const auto band = [&](const std::optional<double>& pct) {
      return pct ? microseconds(us * (1.0 + *pct / 100.0)) : std::string();
    };
    const std::string taken =
        r.predicted.algorithm ? fmt::format("{} {}", name_of(*r.predicted.algorithm), name_of(*r.predicted.protocol))
                              : "pairs";
    const std::string wrong = r.chosen_right == false ? "  (another)" : "";
    table.row({r.row.id, microseconds(r.predicted.modelled.in(microsecond)), microseconds(us), band(r.low_pct),
               band(r.high_pct), microseconds(*r.row.time_us), signed_percent(r.error_pct), taken,
               fmt::format("{}{}{}{}", r.row.algorithm, r.row.protocol.empty() ? "" : " ", r.row.protocol, wrong)});
  }
  return table.str();
}

std::string mean_text(const ErrorSummary& e) { return e.n == 0 ? "" : fmt::format("{:.1f} %", e.mape_pct); }

std::string validation_text(const CollectiveValidation& v) {
  std::string out = fmt::format(
      "Collectives predicted beside measured; below 1 MiB a tenth of times lies below from, a tenth above "
      "to\n{}",
      rows_text(v.rows));
  if (!v.noisy.empty()) out += fmt::format("\nNoisy by their own notes: in no summary\n{}", rows_text(v.noisy));
  if (!v.skipped.empty()) {
    Table table({"collective", "<reason"});
    for (const SkippedCollective& s : v.skipped) table.row({s.id, s.reason});
    out += fmt::format("\nNot predicted\n{}", table.str());
  }
  Table errors({"", "n", "below 1 MiB", "1 MiB on", "64 MiB on", "largest from 64 MiB", "bias from 1 MiB"});
  for (const CollectiveSummary& s : summaries(v)) {
    errors.row({s.machine, fmt::format("{}", s.runs), mean_text(s.below), mean_text(s.from), mean_text(s.large),
                s.large.n == 0 ? "" : fmt::format("{:.1f} %", s.large.max_pct),
                s.from.n == 0 ? "" : signed_percent(s.from.bias_pct)});
  }
  out += fmt::format("\nMean error in percent of what was measured\n{}", errors.str());
  const ChoiceCount c = choices(v);
  return out + fmt::format(
                   "\nNCCL's choice of algorithm (and protocol, where known) is reproduced in {} of the {} rows "
                   "that know it\n",
                   c.right, c.known);
}

std::string fit_text(const std::vector<CurveFile>& files) {
  Table table({"<link", "rows", "floor", "stretch", "fill", "fill time", "pairs", "1 MiB on", "held out", "64 MiB on"});
  for (const CurveFile& f : files) {
    table.row({f.name, fmt::format("{}", f.errors.rows), microseconds(f.curve.floor.in(microsecond)),
               fmt::format("{:.3f}", f.curve.stretch), microseconds(f.curve.fill.in(microsecond)),
               microseconds(f.curve.fill_time.in(microsecond)), fmt::format("{:.3f}", f.curve.pairs),
               fmt::format("{:.1f} %", f.errors.from_pct), fmt::format("{:.1f} %", f.errors.held_out_pct),
               fmt::format("{:.1f} %", f.errors.large_pct)});
  }
  return table.str();
}

nlohmann::ordered_json fit_json(const std::vector<CurveFile>& files) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const CurveFile& f : files) {
    links.push_back({{"name", f.name},
                     {"rows", f.errors.rows},
                     {"floor_s", f.curve.floor.base()},
                     {"stretch", f.curve.stretch},
                     {"fill_s", f.curve.fill.base()},
                     {"fill_time_s", f.curve.fill_time.base()},
                     {"pairs", f.curve.pairs},
                     {"from_1_mib_pct", f.errors.from_pct},
                     {"held_out_from_1_mib_pct", f.errors.held_out_pct},
                     {"from_64_mib_pct", f.errors.large_pct}});
  }
  return {{"links", std::move(links)}};
}

std::vector<MeasuredCollective> table_of(const std::filesystem::path& file) {
  Diagnostics d;
  std::optional<std::vector<MeasuredCollective>> rows = read_collectives(file, d);
  require_none(d);
  return std::move(*rows);
}

}  // namespace

int validate_collectives(const CommonFlags& flags, const std::optional<std::string>& table) {
  const Library library = library_of(flags);
  const std::filesystem::path file =
      table ? std::filesystem::path(*table)
            : library.directory().parent_path() / "traces" / "measured" / "collectives.csv";
  keep_apart(file, {flags.output});
  require_output(flags);
  const std::vector<MeasuredCollective> rows = table_of(file);
  Diagnostics d;
  const std::optional<std::vector<CurveFile>> curves = read_curves(library.directory() / "collectives", d);
  require_none(d);
  const CollectiveValidation v = validate(rows, curves_of(*curves));
  const nlohmann::ordered_json json = to_json(v);
  answer(flags, json, validation_text(v));
  return status_fine;
}

std::vector<CurveFile> fitted_links(const std::string& table) { return fit_curves(table_of(table)); }

int fit_to_collectives(const CommonFlags& flags, const std::string& table) {
  const Library library = library_of(flags);
  const std::filesystem::path folder =
      flags.output ? std::filesystem::path(*flags.output) : library.directory() / "collectives";
  if (!std::filesystem::is_directory(folder)) {
    refuse("cli.flags", fmt::format("{} is not a folder", escaped(folder.string())),
           {"With --collectives, -o names the folder that gets one file for each kind of link."});
  }
  const std::vector<CurveFile> files = fit_curves(table_of(table));
  for (const CurveFile& f : files) write_file(folder / (f.name + ".toml"), curve_text(f));
  if (flags.json) {
    print_json(fit_json(files));
  } else {
    print(fit_text(files) + fmt::format("written to {}\n", folder.string()));
  }
  return status_fine;
}

}  // namespace orrery
