#include "core/spec/reliability_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr std::size_t most_groups = 16;
/// Every figure of three belongs to slow nodes, and they mean nothing alone.
void check_slow_nodes(TomlTable& t, const ReliabilitySpec& r) {
  const int given = int{r.slow_nodes_per_1000_node_days.has_value()} + int{r.slow_factor.has_value()} +
                    int{r.slow_until_found.has_value()};
  if (given == 0 || given == 3) return;
  t.error(r.slow_factor        ? "slow_factor"
          : r.slow_until_found ? "slow_until_found"
                               : "slow_nodes_per_1000_node_days",
          "reliability.slow", "slow nodes need three figures",
          {"They are slow_nodes_per_1000_node_days, slow_factor and slow_until_found."});
}

std::optional<ReliabilitySpec> whole(std::optional<TomlTable> root) {
  if (!root || !read_schema(*root, "reliability", spec_schema)) return std::nullopt;
  const std::size_t before = root->diagnostics().size();
  std::optional<TomlTable> table = root->table("reliability");
  root->finish();
  std::optional<ReliabilitySpec> r;
  if (table) r = read_reliability(*table);
  return root->diagnostics().size() == before ? r : std::nullopt;
}

std::string text_of_figure(double v) { return fmt::format("{}", v); }
std::string text_of_figure(std::uint32_t v) { return fmt::format("{}", v); }
template <class Q>
std::string text_of_figure(Q v) {
  return toml_quoted(exact_text(v));
}

}  // namespace

std::optional<ReliabilitySpec> read_reliability(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  ReliabilitySpec r;
  r.origin = t.origin();
  t.read("name", r.name, Need::required, 200);
  std::uint32_t gpus = 0;
  if (t.read("gpus_per_node", gpus, {1U, 65536U}, Need::optional)) r.gpus_per_node = gpus;
  std::optional<TomlTable> sources = t.table("source", Need::optional);
  std::optional<TomlTable> bases = t.table("basis", Need::optional);
  for_each_figure(r, [&](const char* key, auto& figure, const auto& limits) {
    typename std::decay_t<decltype(figure)>::value_type read;
    if (!t.has(key)) return;
    const bool good = t.read(key, read.value, limits, Need::optional);
    if (sources) sources->read(key, read.source, Need::optional);
    if (bases && bases->has(key)) bases->read_enum(key, figure_basis_names(), read.basis);
    if (!good) return;
    if (read.source.empty()) {
      t.error(key, "reliability.source", fmt::format("{} has no source", key),
              {fmt::format("Say where it is from: {} = \"...\" in the table [reliability.source].", key)});
    }
    figure = std::move(read);
  });
  for (TomlTable& row : t.tables("groups", most_groups, Need::optional)) {
    NodeGroup g;
    SourcedFigure<double>& events = g.events_per_1000_group_days;
    row.read("name", g.name, Need::required, 200);
    row.read("nodes", g.nodes, {1U, 1'000'000U});
    row.read("events_per_1000_group_days", events.value, failure_rate_limits);
    row.read("source", events.source);
    if (row.has("basis")) row.read_enum("basis", figure_basis_names(), events.basis);
    row.finish();
    r.groups.push_back(std::move(g));
  }
  if (sources) sources->finish();
  if (bases) bases->finish();
  check_slow_nodes(t, r);
  t.finish();
  if (t.diagnostics().size() != before) return std::nullopt;
  return r;
}

std::optional<ReliabilitySpec> parse_reliability(std::string text, std::string name, Diagnostics& d) {
  return whole(parse_toml(std::move(text), std::move(name), d));
}

std::optional<ReliabilitySpec> find_reliability(const Library& library, const std::string& reference,
                                                const std::filesystem::path& relative_to, Diagnostics& d) {
  if (is_path(reference)) return whole(open_toml(relative_to / reference, d));
  const std::vector<std::string> known = library.reliabilities();
  if (std::binary_search(known.begin(), known.end(), reference)) {
    return whole(open_toml(library.directory() / "reliability" / (reference + ".toml"), d));
  }
  const std::vector<std::string> near = nearest(reference, known, 4);
  d.error(
      "library.unknown-reliability", fmt::format("no reliability is named \"{}\"", reference),
      {fmt::format("{}: {}.", near.empty() ? "Known" : "Nearest names", fmt::join(near.empty() ? known : near, ", "))});
  return std::nullopt;
}

std::optional<ReliabilitySpec> reliability_of(const ClusterSpec& cluster, const Library& library, Diagnostics& d) {
  const std::filesystem::path file = cluster.origin.file;
  if (cluster.origin.text.empty()) return std::nullopt;  // a cluster in one word
  std::optional<TomlTable> root = parse_toml(cluster.origin.text, file.string(), d);
  if (!root || !root->has("cluster") || !root->has("reliability")) return std::nullopt;
  if (root->is_text("reliability")) {
    std::string name;
    root->read("reliability", name, Need::required, 4096);
    Diagnostics found;
    std::optional<ReliabilitySpec> r = find_reliability(library, name, file.parent_path(), found);
    root->add_from("reliability", found);
    return r;
  }
  std::optional<TomlTable> table = root->table("reliability");
  return table ? read_reliability(*table) : std::nullopt;
}

void check_reliability_key(TomlTable& root) {
  std::string name;
  if (!root.has("reliability")) return;
  if (root.is_text("reliability")) {
    root.read("reliability", name, Need::required, 4096);
  } else if (std::optional<TomlTable> table = root.table("reliability")) {
    static_cast<void>(read_reliability(*table));  // its mistakes are in the diagnostics
  }
}

std::string write_reliability(const ReliabilitySpec& r) {
  TomlWriter out;
  out.whole("schema", spec_schema);
  out.table("reliability").text("name", r.name);
  if (r.gpus_per_node) out.whole("gpus_per_node", *r.gpus_per_node);
  for_each_figure(r, [&](const char* key, const auto& figure, const auto&) {
    if (figure) out.raw(key, text_of_figure(figure->value));
  });
  out.table("reliability.source");
  for_each_figure(r, [&](const char* key, const auto& figure, const auto&) {
    if (figure) out.text(key, figure->source);
  });
  out.table("reliability.basis");
  for_each_figure(r, [&](const char* key, const auto& figure, const auto&) {
    if (figure && figure->basis != FigureBasis::read) out.text(key, name_of(figure->basis));
  });
  for (const NodeGroup& g : r.groups) {
    const SourcedFigure<double>& events = g.events_per_1000_group_days;
    out.array_table("reliability.groups").text("name", g.name).whole("nodes", g.nodes);
    out.number("events_per_1000_group_days", events.value).text("source", events.source);
    if (events.basis != FigureBasis::read) out.text("basis", name_of(events.basis));
  }
  return out.str();
}

}  // namespace orrery
