#include "core/record/calibration_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "core/program/kernel_table.hpp"

namespace orrery {

namespace {

constexpr std::uint64_t newest_schema = 1;
constexpr Limits<double> share{1e-6, 1.0};
constexpr Limits<double> rate{1e-3, 1e24};
constexpr Limits<double> size_range{1.0, 1e15};
constexpr Limits<double> slowdown{1.0, 1e3};
constexpr Limits<double> stretch{0.96, 1e3};  // NCCL counts 48 GB/s of a 400 Gbit/s port's 50 GB/s: no rate is beyond
                                              // the line's
const Limits<Seconds> gap{Seconds{}, Seconds::of(1.0)};
const Limits<Bandwidth> link{Bandwidth::of(1.0), Bandwidth::of(1e18)};
const Limits<Bytes> held{Bytes{}, Bytes::of(1e15)};
constexpr std::size_t most_points = 64;      // of one axis
constexpr std::size_t most_values = 100000;  // of one table
constexpr std::size_t most_tables = 1000;

const std::vector<std::string_view>& types() {
  static const std::vector<std::string_view> names{"f64", "f32", "bf16", "f16"};
  return names;
}

/// Types of a measured product: f8 stands behind the others.
const std::vector<std::string_view>& product_types() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list = types();
    list.push_back(name_of(DType::f8));
    return list;
  }();
  return names;
}

const std::vector<std::string_view>& kinds() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (std::size_t k = 0; k < kernel_kind_count; ++k) list.push_back(name_of(static_cast<KernelKind>(k)));
    return list;
  }();
  return names;
}

const std::vector<std::string_view>& algorithms() {
  static const std::vector<std::string_view> names{"ring", "tree", "recursive", "in_network"};
  return names;
}

const std::vector<std::string_view>& generations() {
  static const std::vector<std::string_view> names{"volta", "ampere", "hopper", "blackwell"};
  return names;
}

std::size_t dimensions(KernelKind kind) {
  if (kind == KernelKind::gemm) return 3;
  return is_whole_attention(kind) ? 2 : 1;
}

/// Axes "PREFIXsizes" (one) or "PREFIXsizes_1", "_2", ...; values "PREFIXrates".
void read_rates(TomlTable& from, const std::string& prefix, std::size_t axes, RateTable& into) {
  std::size_t product = 1;
  bool good = true;
  for (std::size_t d = 0; d < axes; ++d) {
    const std::string key = axes == 1 ? prefix + "sizes" : fmt::format("{}sizes_{}", prefix, d + 1);
    std::vector<double> sizes;
    if (!from.read(key, sizes, size_range, most_points)) {
      good = false;
    } else if (sizes.empty() || std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>{}) != sizes.end()) {
      from.error(key, "calibration.axes", "sizes must be given and increase",
                 {"Rates are interpolated between neighbouring sizes."});
      good = false;
    }
    product *= sizes.size();
    into.axes.push_back(std::move(sizes));
  }
  const std::string key = prefix + "rates";
  if (from.read(key, into.values, rate, most_values) && good && into.values.size() != product) {
    from.error(key, "calibration.values", "the number of rates is not the number of points",
               {fmt::format("The sizes form {} points; there are {} rates.", product, into.values.size())});
  }
}

void read_gemm(TomlTable& root, Calibration& into) {
  for (TomlTable& t : root.tables("gemm", types().size(), Need::optional)) {
    GemmEfficiency g;
    t.read_enum("compute", types(), g.compute);
    t.read("units", g.units, {1, 1000000});
    t.read("depth_half", g.depth_half, {0.0, 1e6});
    for (TomlTable& tile : t.tables("tiles", 64)) {
      GemmTile of;
      tile.read("rows", of.rows, {1, 65536});
      tile.read("columns", of.columns, {1, 65536});
      tile.read("efficiency", of.efficiency, share);
      tile.finish();
      g.tiles.push_back(of);
    }
    if (g.tiles.empty()) t.error("tiles", "calibration.values", "a matrix product needs at least one tile");
    if (std::any_of(into.gemm.begin(), into.gemm.end(), [&](const auto& o) { return o.compute == g.compute; })) {
      t.error("compute", "calibration.duplicate", fmt::format("a second [[gemm]] for {}", name_of(g.compute)));
    }
    t.finish();
    into.gemm.push_back(std::move(g));
  }
}

void read_attention(TomlTable& root, Calibration& into) {
  for (TomlTable& t : root.tables("attention", types().size(), Need::optional)) {
    AttentionEfficiency a;
    t.read_enum("compute", types(), a.compute);
    t.read("forward_efficiency", a.forward_efficiency, share);
    t.read("backward_efficiency", a.backward_efficiency, share);
    t.read("head_half", a.head_half, {0.0, 1e6}, Need::optional);
    t.read("sequence_half", a.sequence_half, {0.0, 1e6}, Need::optional);
    if (std::any_of(into.attention.begin(), into.attention.end(),
                    [&](const auto& o) { return o.compute == a.compute; })) {
      t.error("compute", "calibration.duplicate", fmt::format("a second [[attention]] for {}", name_of(a.compute)));
    }
    t.finish();
    into.attention.push_back(a);
  }
}

void read_kernels(TomlTable& root, Calibration& into) {
  for (TomlTable& t : root.tables("kernels", most_tables, Need::optional)) {
    KernelRate k;
    t.read_enum("kind", kinds(), k.kind);
    t.read_enum("compute", k.kind == KernelKind::gemm ? product_types() : types(), k.compute);
    if (static_cast<std::size_t>(k.compute) == types().size()) k.compute = DType::f8;
    t.read("transpose_a", k.transpose_a, Need::optional);
    t.read("transpose_b", k.transpose_b, Need::optional);
    t.read("dropout", k.dropout, Need::optional);
    const std::size_t axes = dimensions(k.kind);
    if (axes > 1 && t.has("sizes")) {
      t.error("sizes", "calibration.dimensions", fmt::format("{} is measured over {} sizes", name_of(k.kind), axes),
              {fmt::format("Give sizes_1 to sizes_{}.", axes)});
    }
    read_rates(t, "", axes, k.rate);
    const bool again = std::any_of(into.kernels.begin(), into.kernels.end(), [&](const KernelRate& o) {
      return o.kind == k.kind && o.compute == k.compute && o.transpose_a == k.transpose_a &&
             o.transpose_b == k.transpose_b && o.dropout == k.dropout;
    });
    if (again) {
      t.error("kind", "calibration.duplicate",
              fmt::format("a second table for {} in {}", name_of(k.kind), name_of(k.compute)));
    }
    t.finish();
    into.kernels.push_back(std::move(k));
  }
}

void read_messages(TomlTable& root, Calibration& into) {
  auto t = root.table("messages", Need::optional);
  if (!t) return;
  MessageRate m;
  t->read("latency", m.latency, gap);
  t->read("latency_shared", m.latency_shared, gap);
  t->read("wake", m.wake, gap);
  read_rates(*t, "send_", 1, m.send);
  read_rates(*t, "copy_", 1, m.copy);
  read_rates(*t, "add_", 1, m.add);
  t->finish();
  into.messages = std::move(m);
}

void read_curve(TomlTable& from, const char* key, LinkCurve& into) {
  if (auto t = from.table(key)) {
    read_link_curve(*t, into);
    t->finish();
  }
}

void read_nccl(TomlTable& root, Calibration& into) {
  auto t = root.table("nccl", Need::optional);
  if (!t) return;
  NcclConstants n;
  t->read_enum("generation", generations(), n.generation);
  read_curve(*t, "node", n.node);
  read_curve(*t, "network", n.network);
  t->finish();
  into.nccl = n;
}

void read_disk(TomlTable& root, Calibration& into) {
  auto t = root.table("disk", Need::optional);
  if (!t) return;
  DiskRate d;
  t->read("read", d.read, link);
  t->read("write", d.write, link);
  t->read("latency", d.latency, gap);
  t->finish();
  into.disk = d;
}

void read_memory(TomlTable& root, Calibration& into) {
  auto t = root.table("memory", Need::optional);
  if (!t) return;
  ProcessMemory m;
  t->read("context", m.context, held);
  t->read("communicator", m.communicator, held);
  t->read("workspace", m.workspace, held);
  t->read("source", m.source);
  t->finish();
  into.memory = std::move(m);
}

std::optional<Calibration> read_root(TomlTable root, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  if (!read_schema(root, "calibration", newest_schema)) return std::nullopt;
  Calibration c;
  root.read("name", c.name);
  root.read("device", c.device);
  root.read("machine", c.machine, Need::optional);
  root.read("date", c.date, Need::optional);
  root.read("source", c.source, Need::optional);
  root.read("spread", c.spread, {0.0, 1e6}, Need::optional);
  root.read("memory_efficiency", c.memory_efficiency, share, Need::optional);
  root.read("launch", c.launch, gap, Need::optional);
  root.read("level_efficiency", c.level_efficiency, share, most_points, Need::optional);
  root.read("collective_launch", c.collective_launch, gap, Need::optional);
  std::vector<std::string> names;
  root.read("algorithms", names, algorithms().size(), Need::optional);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(algorithms().begin(), algorithms().end(), names[i]);
    if (found == algorithms().end()) {
      root.error(fmt::format("algorithms.{}", i), "file.choice",
                 fmt::format("algorithms.{} is \"{}\", which is not known", i, names[i]),
                 {"Known: ring, tree, recursive, in_network."});
      continue;
    }
    c.algorithms.push_back(static_cast<CollectiveAlgorithm>(found - algorithms().begin()));
  }
  if (root.has("host_bandwidth")) {
    Bandwidth host;
    if (root.read("host_bandwidth", host, link)) c.host_bandwidth = host;
  }
  root.read("cores", c.cores, {0, 1000000}, Need::optional);
  root.read("busy_compute_slowdown", c.busy_compute_slowdown, slowdown, Need::optional);
  root.read("busy_memory_slowdown", c.busy_memory_slowdown, slowdown, Need::optional);
  read_gemm(root, c);
  read_attention(root, c);
  read_kernels(root, c);
  read_messages(root, c);
  read_nccl(root, c);
  read_disk(root, c);
  read_memory(root, c);
  root.finish();
  if (diagnostics.size() != before) return std::nullopt;
  return c;
}

// --- writing ---

void write_numbers(TomlWriter& out, const std::string& key, const std::vector<double>& values) {
  out.raw(key, fmt::format("[{}]", fmt::join(values, ", ")));
}

void write_rates(TomlWriter& out, const std::string& prefix, const RateTable& table) {
  for (std::size_t d = 0; d < table.axes.size(); ++d) {
    write_numbers(out, table.axes.size() == 1 ? prefix + "sizes" : fmt::format("{}sizes_{}", prefix, d + 1),
                  table.axes[d]);
  }
  write_numbers(out, prefix + "rates", table.values);
}

}  // namespace

void read_link_curve(TomlTable& from, LinkCurve& into) {
  from.read("floor", into.floor, gap);
  from.read("stretch", into.stretch, stretch);
  from.read("fill", into.fill, gap);
  from.read("fill_time", into.fill_time, {Seconds::of(1e-9), gap.most});
  from.read("pairs", into.pairs, stretch, Need::optional);
}

void write_link_curve(TomlWriter& out, const LinkCurve& c) {
  out.text("floor", exact_text(c.floor)).number("stretch", c.stretch).text("fill", exact_text(c.fill));
  out.text("fill_time", exact_text(c.fill_time));
  if (c.pairs != 1.0) out.number("pairs", c.pairs);
}

std::optional<Calibration> parse_calibration(std::string text, std::string file, Diagnostics& diagnostics) {
  auto root = parse_toml(std::move(text), std::move(file), diagnostics);
  if (!root) return std::nullopt;
  return read_root(std::move(*root), diagnostics);
}

std::optional<Calibration> read_calibration(const std::filesystem::path& file, Diagnostics& diagnostics) {
  auto root = open_toml(file, diagnostics);
  if (!root) return std::nullopt;
  return read_root(std::move(*root), diagnostics);
}

std::string calibration_text(const Calibration& c) {
  TomlWriter out;
  out.whole("schema", newest_schema).text("name", c.name).text("device", c.device);
  if (!c.machine.empty()) out.text("machine", c.machine);
  if (!c.date.empty()) out.text("date", c.date);
  if (!c.source.empty()) out.text("source", c.source);
  out.number("spread", c.spread);
  out.number("memory_efficiency", c.memory_efficiency).text("launch", exact_text(c.launch));
  if (!c.level_efficiency.empty()) write_numbers(out, "level_efficiency", c.level_efficiency);
  out.text("collective_launch", exact_text(c.collective_launch));
  if (!c.algorithms.empty()) {
    std::vector<std::string> names;
    for (const CollectiveAlgorithm a : c.algorithms) names.emplace_back(algorithms()[static_cast<std::size_t>(a)]);
    out.texts("algorithms", names);
  }
  if (c.host_bandwidth) out.text("host_bandwidth", exact_text(*c.host_bandwidth));
  if (c.cores > 0) out.whole("cores", c.cores);
  out.number("busy_compute_slowdown", c.busy_compute_slowdown);
  out.number("busy_memory_slowdown", c.busy_memory_slowdown);
  for (const GemmEfficiency& g : c.gemm) {
    out.array_table("gemm").text("compute", name_of(g.compute)).whole("units", g.units);
    out.number("depth_half", g.depth_half);
    for (const GemmTile& t : g.tiles) {
      out.array_table("gemm.tiles").whole("rows", t.rows).whole("columns", t.columns);
      out.number("efficiency", t.efficiency);
    }
  }
  for (const AttentionEfficiency& a : c.attention) {
    out.array_table("attention").text("compute", name_of(a.compute));
    out.number("forward_efficiency", a.forward_efficiency).number("backward_efficiency", a.backward_efficiency);
    if (a.head_half > 0.0) out.number("head_half", a.head_half);
    if (a.sequence_half > 0.0) out.number("sequence_half", a.sequence_half);
  }
  for (const KernelRate& k : c.kernels) {
    out.array_table("kernels").text("kind", name_of(k.kind)).text("compute", name_of(k.compute));
    if (k.transpose_a) out.flag("transpose_a", true);
    if (k.transpose_b) out.flag("transpose_b", true);
    if (k.dropout) out.flag("dropout", true);
    write_rates(out, "", k.rate);
  }
  if (c.messages) {
    out.table("messages").text("latency", exact_text(c.messages->latency));
    out.text("latency_shared", exact_text(c.messages->latency_shared));
    out.text("wake", exact_text(c.messages->wake));
    write_rates(out, "send_", c.messages->send);
    write_rates(out, "copy_", c.messages->copy);
    write_rates(out, "add_", c.messages->add);
  }
  if (c.nccl) {
    out.table("nccl").text("generation", generations()[static_cast<std::size_t>(c.nccl->generation)]);
    write_link_curve(out.table("nccl.node"), c.nccl->node);
    write_link_curve(out.table("nccl.network"), c.nccl->network);
  }
  if (c.disk) {
    out.table("disk").text("read", exact_text(c.disk->read)).text("write", exact_text(c.disk->write));
    out.text("latency", exact_text(c.disk->latency));
  }
  if (c.memory) {
    out.table("memory").text("context", exact_text(c.memory->context));
    out.text("communicator", exact_text(c.memory->communicator)).text("workspace", exact_text(c.memory->workspace));
    out.text("source", c.memory->source);
  }
  return out.str();
}

}  // namespace orrery
