#include "cli/calibrate_fit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/source_excerpt.hpp"
#include "validate/fit.hpp"
#include "validate/run_table.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

std::string key_text(const CostFile& file) {
  if (file.device.empty() && file.framework.empty()) return "all";
  if (file.device.empty() || file.framework.empty()) return file.device + file.framework;
  return file.device + ", " + file.framework;
}

void error_cells(Table& table, const std::string& name, const ErrorSummary& s) {
  table.row({name, fmt::format("{}", s.n), fmt::format("{:.1f} %", s.mape_pct), fmt::format("{:.1f} %", s.median_pct),
             fmt::format("{:.1f} %", s.p90_pct), fmt::format("{:.1f} %", s.max_pct),
             fmt::format("{:+.1f} %", s.bias_pct)});
}

std::string fit_text(const Fit& fit, const FitComparison& compared) {
  Table constants({"<key", "<cost", "value", "prior", "error", "runs"});
  for (const CostFile& file : fit.files) {
    for (const FittedCost& c : file.costs) {
      constants.row({key_text(file), std::string(name_of(c.cost)), fmt::format("{:.3g}", c.value),
                     fmt::format("{:.3g}", c.prior),
                     c.spread > 0.0 ? fmt::format("{:.0f} %", 100.0 * std::expm1(c.uncertainty)) : "fixed",
                     fmt::format("{}", file.errors.runs)});
    }
  }
  Table keys({"<held out, by key", "n", "MAPE", "median", "bias", "from", "to"});
  for (const CostFile& file : fit.files) {
    const HeldOutErrors& e = file.errors;
    if (e.runs == 0) continue;
    keys.row({key_text(file), fmt::format("{}", e.runs), fmt::format("{:.1f} %", e.mape_pct),
              fmt::format("{:.1f} %", e.median_pct), fmt::format("{:+.1f} %", e.bias_pct), fmt::format("{:.3f}", e.low),
              fmt::format("{:.3f}", e.high)});
  }
  Table errors({"", "n", "MAPE", "median", "p90", "max", "bias"});
  error_cells(errors, "fitted to all runs", fit.in_sample);
  error_cells(errors, "each without its architecture and size", fit.held_out);
  error_cells(errors, "each without its training program", fit.without_program);
  error_cells(errors, "each without its device", fit.without_device);
  error_cells(errors, "each without its source", fit.without_source);
  return fmt::format(
      "{}\n{}\n{}\n{} free constants, {} runs: one for {:.1f}\n{} runs not seen before: {:.2f} % with the constants so "
      "far, {:.2f} % held out with the new ones\n",
      constants.str(), keys.str(), errors.str(), fit.free_constants, fit.runs,
      static_cast<double>(fit.runs) / static_cast<double>(std::max<std::size_t>(1, fit.free_constants)),
      compared.unseen, compared.before_pct, compared.after_pct);
}

nlohmann::ordered_json to_json(const ErrorSummary& s) {
  return {{"n", s.n},
          {"mape_pct", s.mape_pct},
          {"median_pct", s.median_pct},
          {"p90_pct", s.p90_pct},
          {"max_pct", s.max_pct},
          {"bias_pct", s.bias_pct}};
}

nlohmann::ordered_json fit_json(const Fit& fit, const std::vector<PreparedRun>& runs, const FitComparison& compared,
                                bool written) {
  nlohmann::ordered_json keys = nlohmann::ordered_json::array();
  for (const CostFile& file : fit.files) {
    nlohmann::ordered_json key{{"name", file.name}, {"device", file.device}, {"framework", file.framework}};
    key["runs"] = file.errors.runs;
    key["mape_pct"] = file.errors.mape_pct;
    key["costs"] = nlohmann::ordered_json::object();
    for (const FittedCost& c : file.costs) {
      key["costs"][std::string(name_of(c.cost))] = {
          {"value", c.value}, {"prior", c.prior}, {"spread", c.spread}, {"uncertainty", c.uncertainty}};
    }
    keys.push_back(std::move(key));
  }
  nlohmann::ordered_json held_out = nlohmann::ordered_json::object();  // by run
  std::size_t at = 0;
  for (const PreparedRun& run : runs) {
    if (!run.inconsistent) held_out[run.id] = fit.held_out_pct[at++];
  }
  return {{"complete", true},
          {"written", written},
          {"runs", fit.runs},
          {"free_constants", fit.free_constants},
          {"in_sample", to_json(fit.in_sample)},
          {"held_out", to_json(fit.held_out)},
          {"without_program", to_json(fit.without_program)},
          {"without_device", to_json(fit.without_device)},
          {"without_source", to_json(fit.without_source)},
          {"held_out_pct", std::move(held_out)},
          {"unseen_runs", compared.unseen},
          {"before_mape_pct", compared.before_pct},
          {"after_mape_pct", compared.after_pct},
          {"keys", std::move(keys)}};
}

/// Rows whose time was measured and can be predicted; empty when interrupted.
std::optional<std::vector<PreparedRun>> prepared(const std::vector<MeasuredRun>& table, const Library& library) {
  std::vector<PreparedRun> out;
  for (const MeasuredRun& row : table) {
    if (interrupted().load()) return std::nullopt;
    auto run = prepare(row, library);
    if (auto* good = std::get_if<PreparedRun>(&run); good != nullptr && good->measured) out.push_back(std::move(*good));
  }
  return out;
}

}  // namespace

int fit_to_runs(const CommonFlags& flags, const std::string& table) {
  const Library library = library_of(flags);
  const std::filesystem::path folder =
      flags.output ? std::filesystem::path(*flags.output) : library.directory() / "software";
  if (!std::filesystem::is_directory(folder)) {
    refuse("cli.flags", fmt::format("{} is not a folder", escaped(folder.string())),
           {"With --from, -o names the folder that gets one file for each device and training program."});
  }
  Diagnostics d;
  const std::optional<std::vector<MeasuredRun>> rows = read_runs(table, d);
  require_none(d);
  const std::vector<CostFile>& before = shipped_costs(library);
  catch_interrupt();
  std::optional<Ticker> ticker(std::in_place, "calibrate");
  const auto runs = prepared(*rows, library);
  std::optional<Fit> fit;
  if (runs) {
    fit = fit_costs(*runs, before, [&](double share) {
      ticker->show("calibrate", static_cast<std::uint64_t>(share * 1000.0), 1000);
      return !interrupted().load();
    });
  }
  ticker.reset();
  if (!fit) {
    print(flags.json ? "{\n  \"complete\": false\n}\n" : "Interrupted: nothing was written.\n");
    return status_no;
  }
  const FitComparison compared = compare_fits(*runs, before, *fit);
  if (!compared.worse()) {
    for (const CostFile& file : fit->files) write_file(folder / (file.name + ".toml"), costs_text(file));
  }
  if (flags.json) {
    print_json(fit_json(*fit, *runs, compared, !compared.worse()));
  } else {
    print(fit_text(*fit, compared) + (compared.worse() ? "Nothing was written: the new constants are worse.\n"
                                                       : fmt::format("written to {}\n", folder.string())));
  }
  return compared.worse() ? status_no : status_fine;
}

}  // namespace orrery
