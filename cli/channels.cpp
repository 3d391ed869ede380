#include "cli/channels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"

namespace orrery {

std::string channels_text(const NcclChannelReport& r) {
  std::string out = fmt::format("{} on {}\n", counted(r.ranks, "rank"), counted(r.nodes, "node"));
  for (const ChannelGraph& g : r.graphs) {
    fmt::format_to(std::back_inserter(out), "{}: {} of {}{}\n", name_of(g.kind), counted(g.channels, "channel"),
                   short_text(g.inside), g.nodes > 1 ? " within nodes, " + short_text(g.between) + " between" : "");
  }
  // Channels that go round alike share a line.
  std::vector<std::pair<std::vector<std::uint32_t>, std::vector<std::size_t>>> alike;
  for (std::size_t c = 0; c < r.rings.size(); ++c) {
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& a) { return a.first == r.rings[c]; });
    same == alike.end() ? alike.push_back({r.rings[c], {c}}) : same->second.push_back(c);
  }
  for (const auto& [order, channels] : alike) {
    fmt::format_to(std::back_inserter(out), "ring of channel{} {}: {}\n", channels.size() == 1 ? "" : "s",
                   fmt::join(channels, ", "), fmt::join(order, " "));
  }
  for (const NcclChannelReport::TreePlace& t : r.trees) {
    if (t.parent) continue;
    fmt::format_to(std::back_inserter(out), "tree of channel {}: root {}, below it {}\n", t.channel, t.rank,
                   t.children.empty() ? "nothing" : fmt::format("{}", fmt::join(t.children, " ")));
  }
  for (const auto& [way, count] : r.transports)
    out += fmt::format("{} over {}\n", counted(count, "connection"), escaped(way));
  for (const std::string& n : r.notes) out += "note: " + n + "\n";
  return out;
}

nlohmann::ordered_json channels_json(const NcclChannelReport& r) {
  nlohmann::ordered_json json{{"ranks", r.ranks}, {"nodes", r.nodes}};
  json["graphs"] = nlohmann::ordered_json::array();
  for (const ChannelGraph& g : r.graphs) {
    json["graphs"].push_back({{"kind", name_of(g.kind)},
                              {"channels", g.channels},
                              {"inside_bytes_per_s", g.inside.base()},
                              {"between_bytes_per_s", g.between.base()}});
  }
  json["rings"] = r.rings;
  json["trees"] = nlohmann::ordered_json::array();
  for (const NcclChannelReport::TreePlace& t : r.trees) {
    nlohmann::ordered_json place{{"channel", t.channel}, {"rank", t.rank}, {"children", t.children}};
    place["parent"] = t.parent ? nlohmann::ordered_json(*t.parent) : nlohmann::ordered_json();
    json["trees"].push_back(std::move(place));
  }
  json["transports"] = nlohmann::ordered_json::object();
  for (const auto& [way, count] : r.transports) json["transports"][escaped(way)] = count;
  json["notes"] = r.notes;
  return json;
}

}  // namespace orrery
