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

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// Rules with long runs of numbers: "expert=2,3,4,5" is "expert=2-5".
std::string shortened(std::string_view rule) {
  std::string out;
  std::uint64_t first = 0, last = 0;
  const auto flush = [&] {
    if (last > first + 1) out += fmt::format("-{}", last);
    if (last == first + 1) out += fmt::format(",{}", last);
    first = last = 0;
  };
  for (std::size_t i = 0; i < rule.size();) {
    std::size_t end = i;
    while (end < rule.size() && rule[end] >= '0' && rule[end] <= '9') ++end;
    const bool number = end > i && i > 0 && (rule[i - 1] == '=' || rule[i - 1] == ',') &&
                        (end == rule.size() || rule[end] == ',' || rule[end] == ' ') && end - i < 10;
    if (!number) {
      flush();
      out += rule[i++];
      continue;
    }
    const std::uint64_t value = std::stoull(std::string(rule.substr(i, end - i)));
    if (last != 0 && value == last + 1) {
      last = value;
      out.pop_back();  // the comma
    } else {
      if (last != 0 && out.ends_with(',')) {
        out.pop_back();
        flush();
        out += ',';
      }
      out += std::to_string(value);
      first = last = value;
    }
    i = end;
    if (i < rule.size() && rule[i] == ',') out += rule[i++];
  }
  flush();
  return out;
}

/// The values of each dimension of a table of plan files; those that may have any stand in one line.
std::string table_text(const char* title, std::string_view table, const SearchLimits& can) {
  std::string out = fmt::format("\n{}\n", title), any;
  for (const Dimension& d : dimensions()) {
    if (!is_searched(d) || d.table() != table) continue;
    const auto at = can.only.find(d.key);
    if (at != can.only.end()) {
      out += fmt::format("  {:<21}  {}\n", d.word(), values_text(d, at->second));
    } else {
      any += fmt::format("{}{}", any.empty() ? "" : ", ", d.word());
    }
  }
  if (!any.empty()) out += fmt::format("  {:<21}  {}\n", "any value of", any);
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

/// "expert not 1, zero=2,3": a condition as a person reads it.
std::string condition_text(std::string_view words) {
  std::string out = shortened(words);
  for (std::size_t at = out.find("=!"); at != std::string::npos; at = out.find("=!")) out.replace(at, 2, " not ");
  return out;
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
    out += fmt::format("{}{}\n", f.name, f.name == f.title ? "" : fmt::format(": {}", f.title));
    if (!f.formats.empty()) out += fmt::format("  reads   {}\n", fmt::join(names_of(f.formats), ", "));
    if (!f.writings.empty()) out += fmt::format("  writes  {}\n", fmt::join(names_of(f.writings), ", "));
    if (!f.abilities.empty()) out += fmt::format("  search  orrery plan --for {}\n", f.name);
  }
  out += "orrery show framework NAME: what one can launch\n";
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
                                listed(names_of(f->formats)), listed(names_of(f->writings)),
                                f->software.empty() ? "the usual program on the device" : std::string(f->software));
  if (f->abilities.empty()) {
    print_wrapped(out + "  searched  no; `plan --for` takes a program that it uses, or that shards alike\n");
    return status_fine;
  }
  const SearchLimits can = abilities_of(*f);
  out += table_text("Ranks along each axis that it launches, [mesh] of a plan", "mesh", can);
  out += table_text("Values of [plan] that it launches", "plan", can);
  if (!f->rules.empty()) out += "\nRules\n";
  for (const AbilityRule& r : f->rules) {
    out += r.also != nullptr
               ? fmt::format("  {}\n", r.reason)
               : fmt::format("  with {}: only {}  ({})\n", condition_text(r.when), condition_text(r.then), r.reason);
  }
  if (!f->abilities_source.empty()) out += fmt::format("\nRead in {}\n", f->abilities_source);
  print_wrapped(out);
  return status_fine;
}

}  // namespace orrery
