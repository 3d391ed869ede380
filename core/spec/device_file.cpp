#include "core/spec/device_file.hpp"

#include <fmt/format.h>

#include "core/base/units_text.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr Limits<Bytes> memory_limits{Bytes::of(1.0), Bytes::of(0x1p53)};
constexpr Limits<Bandwidth> bandwidth_limits{Bandwidth::of(1.0), Bandwidth::of(1e18)};

void write_links(TomlWriter& out, const DeviceLinks& l, const std::string& path) {
  out.table(path).text("host", exact_text(l.host));
  if (l.name.empty()) return;
  out.text("name", l.name).text("peers", exact_text(l.peers)).whole("most", l.most);
  if (l.per_node > 0) out.whole("per_node", l.per_node);
  if (l.network.base() > 0.0) out.text("network", exact_text(l.network));
  if (l.switches) out.text("switches", switch_sum_names()[static_cast<std::size_t>(*l.switches)]);
}

std::optional<DeviceLinks> read_links(TomlTable& device) {
  std::optional<TomlTable> t = device.table("links", Need::optional);
  if (!t) return std::nullopt;
  DeviceLinks l;
  t->read("host", l.host, bandwidth_limits);
  t->read("name", l.name, Need::optional, 200);
  const Need need = l.name.empty() ? Need::optional : Need::required;
  t->read("peers", l.peers, bandwidth_limits, need);
  t->read("most", l.most, {1U, std::uint32_t{max_devices}}, need);
  t->read("per_node", l.per_node, {1U, std::uint32_t{max_devices}}, Need::optional);
  t->read("network", l.network, bandwidth_limits, Need::optional);
  if (t->has("switches")) t->read_enum("switches", switch_sum_names(), l.switches.emplace());
  t->finish();
  return l;
}

}  // namespace

const std::vector<std::string_view>& switch_sum_names() {
  static const std::vector<std::string_view> names{"nvls", "sharp"};
  return names;
}

void write_device_table(TomlWriter& out, const DeviceSpec& d, const std::string& path) {
  out.table(path).text("name", d.name);
  out.text("memory", exact_text(d.memory)).text("memory_bandwidth", exact_text(d.memory_bandwidth));
  out.flag("concurrent_lanes", d.concurrent_lanes).whole("cores_shared", d.cores_shared);
  if (d.multiprocessors > 0) out.whole("multiprocessors", d.multiprocessors);
  if (!d.reached_source.empty()) out.text("reached_source", d.reached_source);
  if (!d.calibration.empty()) out.text("calibration", d.calibration);
  if (!d.source.empty()) out.text("source", d.source);
  const auto write_rates = [&](const char* key, const std::map<Precision, FlopRate>& rates) {
    out.table(fmt::format("{}.{}", path, key));
    for (const auto& [precision, rate] : rates) out.text(name_of(precision), exact_text(rate));
  };
  write_rates("peak", d.peak);
  if (!d.reached.empty()) write_rates("reached", d.reached);
  if (d.links) write_links(out, *d.links, path + ".links");
}

std::optional<DeviceSpec> read_device(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  DeviceSpec d;
  t.read("name", d.name, Need::required, 200);
  const auto read_rates = [&t](const char* key, Need need, std::map<Precision, FlopRate>& into) {
    std::optional<TomlTable> rates = t.table(key, need);
    if (!rates) return;
    for (std::size_t i = 0; i < precision_names().size(); ++i) {
      FlopRate rate;
      if (rates->read(precision_names()[i], rate, {FlopRate::of(1.0), FlopRate::of(1e24)}, Need::optional)) {
        into[static_cast<Precision>(i)] = rate;
      }
    }
    rates->finish();
  };
  read_rates("peak", Need::required, d.peak);
  read_rates("reached", Need::optional, d.reached);
  t.read("reached_source", d.reached_source, Need::optional);
  d.links = read_links(t);
  t.read("memory", d.memory, memory_limits);
  t.read("memory_bandwidth", d.memory_bandwidth, bandwidth_limits);
  t.read("concurrent_lanes", d.concurrent_lanes, Need::optional);
  t.read("cores_shared", d.cores_shared, {0U, std::uint32_t{max_devices}}, Need::optional);
  t.read("multiprocessors", d.multiprocessors, {1U, 65536U}, Need::optional);
  t.read("calibration", d.calibration, Need::optional, 200);
  t.read("source", d.source, Need::optional);
  t.finish();
  if (t.diagnostics().size() != before || !check_device(d, t.origin(), t.path(""), t.diagnostics()))
    return std::nullopt;
  return d;
}

std::string write_device(const DeviceSpec& d) {
  TomlWriter out;
  out.whole("schema", spec_schema);
  write_device_table(out, d, "device");
  return out.str();
}

}  // namespace orrery
