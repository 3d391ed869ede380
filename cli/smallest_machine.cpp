#include "cli/smallest_machine.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

SmallestMachine smallest_machine(const SearchQuestion& question, const SearchOptions& wanted, std::uint32_t most) {
  SmallestMachine out;
  std::vector<std::uint32_t> sizes;
  for (std::uint64_t gpus = 1; gpus < most; gpus *= 2) sizes.push_back(static_cast<std::uint32_t>(gpus));
  sizes.push_back(most);
  for (const std::uint32_t gpus : sizes) {
    SearchQuestion q = question;
    q.flags.gpus = gpus;
    out.task = search_task(std::move(q));
    SearchOptions options = wanted;
    options.top = 1;
    options.simulate = false;
    const SearchResult result = search(*out.task, options);
    if (!result.complete) {
      out.complete = false;
      break;
    }
    TriedMachine& tried = out.tried.emplace_back(TriedMachine{gpus, !result.plans.empty(), ""});
    const Bytes room = out.task->headroom;
    if (tried.fits) {
      tried.memory = text_of(memory_verdict(result.plans.front().report, room));
      break;
    }
    if (result.rejected) tried.memory = text_of(memory_verdict(result.rejected->report, room));
  }
  return out;
}

std::string smallest_text(const SmallestMachine& found) {
  std::string out;
  for (const TriedMachine& t : found.tried) {
    out += fmt::format(
        "  {:>9}  {}{}\n", counted(t.gpus, "device"), t.fits ? "fits" : "no plan fits",
        t.memory.empty() ? "" : fmt::format(": {} {}", t.fits ? "the best needs" : "the best would need", t.memory));
  }
  const bool fits = !found.tried.empty() && found.tried.back().fits;
  if (!found.complete) return out + "Interrupted before a machine was found that fits.\n\n";
  return fmt::format("{}{}\n\n", out,
                     fits ? fmt::format("The smallest machine of those tried that fits has {}.",
                                        counted(found.tried.back().gpus, "device"))
                          : "No machine that was tried fits.");
}

nlohmann::ordered_json smallest_json(const SmallestMachine& found) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const TriedMachine& t : found.tried) json.push_back({{"gpus", t.gpus}, {"fits", t.fits}, {"memory", t.memory}});
  return json;
}

}  // namespace orrery
