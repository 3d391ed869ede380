#include "cli/tensors_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/base/units_text.hpp"

namespace orrery {

std::string tensors_text(const std::vector<PeakTensors>& stages) {
  std::string out;
  const auto size = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
  for (const PeakTensors& s : stages) {
    out += fmt::format("\n  stage {}: {} live at the peak, {} bytes\n", s.stage, size(s.bytes), with_commas(s.bytes));
    Table table({"tensor", "<role", "<shape", "<type", "count", "together", "of all", "<whose"});
    for (const LiveTensor& t : s.tensors) {
      table.row({t.name, t.role, t.shape, t.dtype, fmt::format("{}", t.count), size(t.bytes),
                 percent(static_cast<double>(t.bytes) / static_cast<double>(s.bytes)), t.where});
    }
    out += table.str("    ");
  }
  return out;
}

nlohmann::ordered_json tensors_json(const std::vector<PeakTensors>& stages) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const PeakTensors& s : stages) {
    nlohmann::ordered_json stage{{"stage", s.stage}, {"peak_bytes", s.bytes}};
    stage["tensors"] = nlohmann::ordered_json::array();
    for (const LiveTensor& t : s.tensors) {
      stage["tensors"].push_back({{"name", t.name},
                                  {"shape", t.shape},
                                  {"dtype", t.dtype},
                                  {"role", t.role},
                                  {"whose", t.where},
                                  {"count", t.count},
                                  {"bytes", t.bytes}});
    }
    out.push_back(std::move(stage));
  }
  return out;
}

}  // namespace orrery
