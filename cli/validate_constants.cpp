#include "cli/validate_constants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/status.hpp"
#include "cli/table.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

std::string error_text(const FittedCost& c) {
  return c.spread == 0.0 ? "fixed" : fmt::format("{:.0f} %", 100.0 * std::expm1(c.uncertainty));
}

std::string constants_text(const std::vector<CostFile>& files) {
  Table table({"<key", "<cost", "prior", "value", "error", "runs", "MAPE"});
  std::size_t fitted = 0, fixed = 0;
  for (const CostFile& file : files) {
    for (const FittedCost& c : file.costs) {
      ++(c.spread > 0.0 ? fitted : fixed);
      table.row({file.name, std::string(name_of(c.cost)), fmt::format("{:.3g}", c.prior),
                 fmt::format("{:.3g}", c.value), error_text(c), fmt::format("{}", file.runs.size()),
                 fmt::format("{:.1f} %", file.errors.mape_pct)});
    }
  }
  return fmt::format(
      "Constants of training software (models/software): {} fitted, {} fixed by what\nthey count\n{}\n"
      "MAPE: held out, the mean absolute error of the key's runs, each without its\narchitecture and size\n",
      fitted, fixed, table.str(""));
}

nlohmann::ordered_json constants_json(const std::vector<CostFile>& files) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const CostFile& file : files) {
    for (const FittedCost& c : file.costs) {
      out.push_back({{"key", file.name},
                     {"device", file.device},
                     {"framework", file.framework},
                     {"cost", std::string(name_of(c.cost))},
                     {"prior", c.prior},
                     {"value", c.value},
                     {"spread", c.spread},
                     {"uncertainty", c.uncertainty},
                     {"runs", file.runs},
                     {"held_out_mape_pct", file.errors.mape_pct},
                     {"source", file.source}});
    }
  }
  return out;
}

}  // namespace

int validate_constants(const CommonFlags& flags, const Library& library) {
  const std::vector<CostFile>& files = shipped_costs(library);
  const nlohmann::ordered_json json = {{"schema", 1}, {"constants", constants_json(files)}};
  answer(flags, json, constants_text(files));
  return status_fine;
}

}  // namespace orrery
