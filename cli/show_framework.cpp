#include "cli/show_framework.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "framework/framework.hpp"

namespace orrery {
namespace {

std::vector<std::string> names_of(const std::vector<LaunchFormat>& formats) {
  std::vector<std::string> out;
  for (const LaunchFormat& f : formats) out.emplace_back(f.name);
  return out;
}
std::vector<std::string> names_of(const std::vector<LaunchWriting>& writings) {
  std::vector<std::string> out;
  for (const LaunchWriting& w : writings) out.emplace_back(w.name);
  return out;
}

/// The values of one dimension: "1f1b, interleaved"; "any" where nothing is said.
std::string values_text(const Dimension& d, const SearchLimits& can) {
  const auto at = can.only.find(d.key);
  if (at == can.only.end()) return "any";
  std::string out;
  for (const std::uint64_t v : at->second) out += fmt::format("{}{}", out.empty() ? "" : ", ", text_of(d, v));
  return out;
}

nlohmann::ordered_json json_of(const Framework& f) {
  nlohmann::ordered_json json{{"name", f.name},
                              {"title", f.title},
                              {"software", f.software},
                              {"abilities_source", f.abilities_source},
                              {"reads", names_of(f.formats)},
                              {"writes", names_of(f.writings)}};
  const SearchLimits can = abilities_of(f);
  json["launches"] = nlohmann::ordered_json::object();
  for (const auto& [key, values] : can.only) {
    json["launches"][key] = nlohmann::ordered_json::array();
    for (const std::uint64_t v : values) json["launches"][key].push_back(text_of(dimension(key), v));
  }
  json["rules"] = nlohmann::ordered_json::array();
  for (const AbilityRule& r : f.rules) {
    json["rules"].push_back({{"when", r.when}, {"then", r.then}, {"key", r.key}, {"reason", r.reason}});
  }
  return json;
}

}  // namespace

int show_frameworks(const CommonFlags& flags) {
  if (flags.json || flags.output) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Framework& f : frameworks()) json.push_back(json_of(f));
    write_output(flags, json_text(json));
    if (!prints_output(flags) && flags.json) print_json(json);
    return status_fine;
  }
  std::string out;
  for (const Framework& f : frameworks()) {
    out += fmt::format("{} ({})\n", f.name, f.title);
    if (!f.formats.empty()) out += fmt::format("  reads   {}\n", fmt::join(names_of(f.formats), ", "));
    if (!f.writings.empty()) out += fmt::format("  writes  {}\n", fmt::join(names_of(f.writings), ", "));
    if (!f.abilities.empty()) out += fmt::format("  search  orrery plan --for {}\n", f.name);
  }
  print_wrapped(out);
  return status_fine;
}

int show_framework(const std::string& name, const CommonFlags& flags) {
  const Framework* f = framework_named(name);
  if (f == nullptr) {
    std::vector<std::string> known;
    for (const Framework& other : frameworks()) known.emplace_back(other.name);
    refuse("framework.name", fmt::format("no framework is named \"{}\"", escaped(name)),
           {fmt::format("Known: {}.", fmt::join(known, ", "))});
  }
  write_output(flags, json_text(json_of(*f)));
  if (prints_output(flags)) return status_fine;
  if (flags.json) {
    print_json(json_of(*f));
    return status_fine;
  }
  std::string out = fmt::format("{}\n  reads     {}\n  writes    {}\n  costs of  {}\n", f->title,
                                fmt::join(names_of(f->formats), ", "), fmt::join(names_of(f->writings), ", "),
                                f->software.empty() ? "the usual program on the device" : std::string(f->software));
  if (f->abilities.empty()) {
    print_wrapped(out + "  launches  by way of another framework\n");
    return status_fine;
  }
  out += "\nWhat it launches\n";
  const SearchLimits can = abilities_of(*f);
  for (const Dimension& d : dimensions()) {
    if (is_searched(d)) out += fmt::format("  {:<22} {}\n", d.word(), values_text(d, can));
  }
  for (const AbilityRule& r : f->rules) {
    out += r.also != nullptr ? fmt::format("  {}\n", r.reason)
                             : fmt::format("  with {}: only {}  ({})\n", r.when, r.then, r.reason);
  }
  if (!f->abilities_source.empty()) out += fmt::format("\nRead in {}\n", f->abilities_source);
  print_wrapped(out);
  return status_fine;
}

}  // namespace orrery
