#include <fmt/format.h>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/device_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr std::size_t max_levels = 8;
constexpr std::size_t max_rates = 64, max_graphs = 64;
constexpr Limits<Bytes> memory_limits{Bytes::of(1.0), Bytes::of(0x1p53)};
constexpr Limits<Bandwidth> bandwidth_limits{Bandwidth::of(1.0), Bandwidth::of(1e18)};

const std::vector<std::string_view>& channel_graph_names() {
  static const std::vector<std::string_view> names{"ring", "tree", "nvls"};
  return names;
}

/// Reads message_sizes = ["4 KiB", ...] and rates = ["1 GB/s", ...], which have equally many values.
void read_rates(TomlTable& row, NetworkLevel& level) {
  std::vector<std::string> sizes, rates;
  row.read("message_sizes", sizes, max_rates, Need::optional);
  row.read("rates", rates, max_rates, Need::optional);
  row.read("rates_source", level.rates_source, Need::optional);
  if (sizes.empty() && rates.empty() && level.rates_source.empty()) return;
  if (sizes.empty() || sizes.size() != rates.size() || level.rates_source.empty()) {
    row.error(rates.empty() ? sizes.empty() ? "rates_source" : "message_sizes" : "rates", "cluster.rates",
              "a curve of rates needs message_sizes, the same number of rates, and rates_source",
              {fmt::format("There are {} sizes and {} rates; the source says where they were measured.", sizes.size(),
                           rates.size())});
    return;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    SizedRate r;
    std::string problem;
    if (!parse_quantity(sizes[i], r.message, problem) || !memory_limits.contain(r.message)) {
      row.error("message_sizes", "cluster.rates", fmt::format("message size {} cannot be read", i + 1),
                {fmt::format("It is \"{}\"; \"64 KiB\" would be right.", sizes[i].substr(0, 100))});
      return;
    }
    if (!parse_quantity(rates[i], r.rate, problem) || !bandwidth_limits.contain(r.rate)) {
      row.error("rates", "cluster.rates", fmt::format("rate {} cannot be read", i + 1),
                {fmt::format("It is \"{}\"; \"20 GB/s\" would be right.", rates[i].substr(0, 100))});
      return;
    }
    level.rates.push_back(r);
  }
}

/// device = "h100", a path, or a table.
void read_device_at(TomlTable& t, const Origin& origin, const DeviceLookup& devices, DeviceSpec& into) {
  std::string name;
  if (t.has("device") && t.is_text("device")) {
    if (t.read("device", name, Need::required, 200)) {
      Diagnostics found;
      // A path is relative to this file, wherever the program was started.
      std::optional<DeviceSpec> device =
          is_path(name) ? read_device_file(std::filesystem::path(origin.file).parent_path() / name, found)
                        : devices(name, found);
      if (device) into = std::move(*device);
      t.add_from("device", found);
    }
  } else if (std::optional<TomlTable> table = t.table("device")) {
    if (std::optional<DeviceSpec> device = read_device(*table)) into = std::move(*device);
  }
}

/// Reads bandwidths = ["450 GB/s", "25 GB/s"], one for each level.
void read_bandwidths(TomlTable& row, const ClusterSpec& c, std::vector<Bandwidth>& into) {
  std::vector<std::string> texts;
  if (!row.read("bandwidths", texts, max_levels, Need::optional)) return;
  if (texts.size() != c.levels.size()) {
    row.error("bandwidths", "cluster.other-nodes", "other nodes need a bandwidth for each level",
              {fmt::format("There {} {}; the cluster has {}, innermost first.", texts.size() == 1 ? "is" : "are",
                           texts.size(), counted(c.levels.size(), "level"))});
    return;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Bandwidth b;
    std::string problem;
    if (!parse_quantity(texts[i], b, problem) || !bandwidth_limits.contain(b)) {
      row.error("bandwidths", "cluster.other-nodes", fmt::format("bandwidth {} cannot be read", i + 1),
                {fmt::format("It is \"{}\"; \"25 GB/s\" would be right.", texts[i].substr(0, 100))});
      return;
    }
    into.push_back(b);
  }
}

}  // namespace

std::optional<ClusterSpec> read_cluster(TomlTable& t, const DeviceLookup& devices) {
  const std::size_t before = t.diagnostics().size();
  ClusterSpec c;
  c.origin = t.origin();
  t.read("name", c.name, Need::required, 200);
  t.read("nodes", c.nodes, {1U, std::uint32_t{max_devices}});
  t.read("devices_per_node", c.devices_per_node, {1U, std::uint32_t{max_devices}});
  t.read("host_memory", c.host_memory, {Bytes::of(0.0), memory_limits.most}, Need::optional);
  Bandwidth rate;
  if (t.read("host_link", rate, bandwidth_limits, Need::optional)) c.host_link = rate;
  if (t.read("host_bandwidth", rate, bandwidth_limits, Need::optional)) c.host_bandwidth = rate;
  if (std::optional<TomlTable> table = t.table("disk", Need::optional)) {
    DiskSpec disk;
    table->read("capacity", disk.capacity, memory_limits);
    table->read("read", disk.read, bandwidth_limits);
    table->read("write", disk.write, bandwidth_limits);
    table->read("latency", disk.latency, {Seconds::of(0.0), Seconds::of(1e3)}, Need::optional);
    table->finish();
    c.disk = disk;
  }
  double price = 0.0;
  if (t.read("price_per_gpu_hour", price, {0.0, 1e9}, Need::optional)) c.price_per_gpu_hour = price;
  t.read("price_currency", c.price_currency, Need::optional, 20);
  t.read("price_source", c.price_source, Need::optional);
  t.read("source", c.source, Need::optional);
  for (TomlTable& row : t.tables("levels", max_levels, Need::optional)) {
    NetworkLevel level;
    row.read("name", level.name, Need::required, 200);
    row.read("size", level.size, {1U, std::uint32_t{max_devices}});
    row.read("most", level.most, {1U, std::uint32_t{max_devices}}, Need::optional);
    row.read("bandwidth", level.bandwidth, bandwidth_limits);
    row.read("latency", level.latency, {Seconds::of(0.0), Seconds::of(1e3)});
    read_rates(row, level);
    if (row.has("switches")) row.read_enum("switches", switch_sum_names(), level.switches.emplace());
    row.finish();
    c.levels.push_back(std::move(level));
  }
  for (TomlTable& row : t.tables("channels", max_graphs, Need::optional)) {
    ChannelGraph graph;
    row.read_enum("kind", channel_graph_names(), graph.kind);
    row.read("ranks", graph.ranks, {2U, std::uint32_t{max_devices}});
    row.read("nodes", graph.nodes, {1U, std::uint32_t{max_devices}}, Need::optional);
    row.read("channels", graph.channels, {1U, 64U});
    row.read("inside", graph.inside, bandwidth_limits);
    graph.between = graph.inside;
    row.read("between", graph.between, bandwidth_limits, Need::optional);
    row.read("source", graph.source);
    row.finish();
    c.channels.push_back(std::move(graph));
  }
  read_device_at(t, c.origin, devices, c.device);
  for (TomlTable& row : t.tables("other_nodes", ClusterSpec::most_other_nodes, Need::optional)) {
    OtherNodes other;
    row.read("first", other.first, {0U, std::uint32_t{max_devices}});
    row.read("count", other.count, {1U, std::uint32_t{max_devices}}, Need::optional);
    other.device = c.device;
    if (row.has("device")) read_device_at(row, c.origin, devices, other.device);
    read_bandwidths(row, c, other.bandwidths);
    row.finish();
    c.other_nodes.push_back(std::move(other));
  }
  t.finish();
  if (t.diagnostics().size() != before || !check_cluster(c, t.diagnostics())) return std::nullopt;
  return c;
}

std::string write_cluster(const ClusterSpec& c) {
  TomlWriter out;
  out.whole("schema", spec_schema);
  out.table("cluster").text("name", c.name).whole("nodes", c.nodes).whole("devices_per_node", c.devices_per_node);
  out.text("host_memory", exact_text(c.host_memory));
  if (c.host_link) out.text("host_link", exact_text(*c.host_link));
  if (c.host_bandwidth) out.text("host_bandwidth", exact_text(*c.host_bandwidth));
  if (c.price_per_gpu_hour) out.number("price_per_gpu_hour", *c.price_per_gpu_hour);
  if (c.price_per_gpu_hour || c.price_currency != "USD") out.text("price_currency", c.price_currency);
  if (!c.price_source.empty()) out.text("price_source", c.price_source);
  if (!c.source.empty()) out.text("source", c.source);
  if (c.disk) {
    out.table("cluster.disk").text("capacity", exact_text(c.disk->capacity));
    out.text("read", exact_text(c.disk->read)).text("write", exact_text(c.disk->write));
    out.text("latency", exact_text(c.disk->latency));
  }
  for (const NetworkLevel& level : c.levels) {
    out.array_table("cluster.levels").text("name", level.name).whole("size", level.size);
    if (level.most > 0) out.whole("most", level.most);
    out.text("bandwidth", exact_text(level.bandwidth)).text("latency", exact_text(level.latency));
    if (!level.rates.empty()) {
      std::vector<std::string> sizes, rates;
      for (const SizedRate& r : level.rates) {
        sizes.push_back(exact_text(r.message));
        rates.push_back(exact_text(r.rate));
      }
      out.texts("message_sizes", sizes).texts("rates", rates).text("rates_source", level.rates_source);
    }
    if (level.switches) out.text("switches", switch_sum_names()[static_cast<std::size_t>(*level.switches)]);
  }
  for (const ChannelGraph& g : c.channels) {
    out.array_table("cluster.channels")
        .text("kind", channel_graph_names()[static_cast<std::size_t>(g.kind)])
        .whole("ranks", g.ranks)
        .whole("nodes", g.nodes);
    out.whole("channels", g.channels).text("inside", exact_text(g.inside)).text("between", exact_text(g.between));
    out.text("source", g.source);
  }
  write_device_table(out, c.device, "cluster.device");
  for (const OtherNodes& other : c.other_nodes) {
    out.array_table("cluster.other_nodes").whole("first", other.first).whole("count", other.count);
    if (!other.bandwidths.empty()) {
      std::vector<std::string> bandwidths;
      for (const Bandwidth b : other.bandwidths) bandwidths.push_back(exact_text(b));
      out.texts("bandwidths", bandwidths);
    }
    if (other.device != c.device) write_device_table(out, other.device, "cluster.other_nodes.device");
  }
  return out.str();
}

}  // namespace orrery
