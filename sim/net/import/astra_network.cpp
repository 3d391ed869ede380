#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/units_text.hpp"
#include "sim/net/import/source.hpp"

// Networks of ASTRA-sim's analytical backends: four lists with one value for each dimension.
//   topology: [ Ring, Switch ]   npus_count: [ 8, 4 ]   bandwidth: [ 400.0, 50.0 ] (GB/s)   latency: [ 500.0, 1000.0 ]
//   (ns)

namespace orrery::importing {
namespace {

using Shape = ProductDimension::Shape;

Position place(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {static_cast<std::uint32_t>(mark.line) + 1, static_cast<std::uint32_t>(mark.column) + 1};
}

/// The value as a fabric's file would have it, to the last bit.
template <class Q>
bool from_decimal(double number, std::string_view unit, Q& into) {
  std::string problem;
  return parse_quantity(fmt::format("{} {}", number, unit), into, problem);
}

/// The shortest number that reads back as the same quantity.
template <class Q>
std::string to_decimal(Q quantity, std::string_view unit) {
  Q one, back;
  std::string problem;
  parse_quantity(fmt::format("1 {}", unit), one, problem);
  std::string text;
  for (int digits = 1; digits <= 17; ++digits) {
    text = fmt::format("{}", std::strtod(fmt::format("{:.{}g}", quantity / one, digits).c_str(), nullptr));
    if (parse_quantity(fmt::format("{} {}", text, unit), back, problem) && back == quantity) break;
  }
  return text;
}

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  std::optional<FabricSpec> read() {
    YAML::Node root;
    try {
      root = YAML::Load(source_.text());
    } catch (const YAML::Exception& e) {
      source_.error(place(e.mark), "import.syntax", fmt::format("not valid YAML: {}", brief(e.msg)));
      return std::nullopt;
    }
    if (!root.IsMap()) {
      source_.error({1, 1}, "import.kind", "this is not a network of ASTRA-sim",
                    {"It has topology, npus_count, bandwidth and latency."});
      return std::nullopt;
    }
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (key == "topology" || key == "npus_count" || key == "bandwidth" || key == "latency") continue;
      source_.error(place(entry.first.Mark()), "import.key", fmt::format("the key \"{}\" is not known", brief(key)),
                    {"A network has topology, npus_count, bandwidth and latency."});
    }
    std::vector<ProductDimension> dimensions;
    const YAML::Node topology = list(root, "topology");
    if (!source_.clean()) return std::nullopt;
    dimensions.resize(topology.size());
    std::uint64_t npus = 1;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const std::string name = topology[i].IsScalar() ? topology[i].Scalar() : "";
      if (name == "Ring") {
        dimensions[i].shape = Shape::ring;
      } else if (name == "FullyConnected") {
        dimensions[i].shape = Shape::full;
      } else if (name == "Switch") {
        dimensions[i].shape = Shape::switched;
      } else {
        source_.error(place(topology[i].Mark()), "import.value", "the shape of a dimension is not known",
                      {fmt::format("It is \"{}\"; Ring, FullyConnected and Switch are.", brief(name))});
      }
    }
    numbers(root, "npus_count", dimensions.size(), 1.0, max_fabric_gpus, [&](std::size_t i, double v) {
      dimensions[i].size = static_cast<std::uint32_t>(v);
      npus = std::min<std::uint64_t>(npus * dimensions[i].size, std::uint64_t{1} << 40);
      return v == std::floor(v);
    });
    numbers(root, "bandwidth", dimensions.size(), 1e-9, 1e9,
            [&](std::size_t i, double v) { return from_decimal(v, "GB/s", dimensions[i].link.bandwidth); });
    numbers(root, "latency", dimensions.size(), 0.0, 1e9,
            [&](std::size_t i, double v) { return from_decimal(v, "ns", dimensions[i].link.latency); });
    if (!source_.clean()) return std::nullopt;
    if (npus > max_fabric_gpus || links_of(dimensions) > (std::uint64_t{1} << 29)) {
      source_.error(place(topology.Mark()), "import.size", "the network is too large",
                    {fmt::format("It has {} ends and {} links; {} and 2^29 are counted.", npus, links_of(dimensions),
                                 max_fabric_gpus)});
      return std::nullopt;
    }
    FabricSpec f;
    f.nodes = static_cast<std::uint32_t>(npus);
    f.network = ProductNetwork{std::move(dimensions)};
    source_.note("each NPU is a node of its own; messages go along one dimension after another");
    return f;
  }

 private:
  YAML::Node list(const YAML::Node& root, const char* key) {
    const YAML::Node node = root[key];
    if (!node) {
      source_.error({1, 1}, "import.missing", fmt::format("{} is missing", key),
                    {"It is a list with a value for each dimension."});
      return YAML::Node(YAML::NodeType::Sequence);
    }
    if (!node.IsSequence() || node.size() < 1 || node.size() > 6) {
      source_.error(place(node.Mark()), "import.value", fmt::format("{} is not a list of 1 to 6 values", key));
    }
    return node;
  }

  /// Calls take(i, number) for each value; it returns whether the value is allowed.
  template <class Take>
  void numbers(const YAML::Node& root, const char* key, std::size_t count, double least, double most, Take&& take) {
    const YAML::Node node = list(root, key);
    if (!node.IsSequence() || node.size() == 0) return;
    if (node.size() != count) {
      source_.error(place(node.Mark()), "import.value",
                    fmt::format("{} does not have one value for each dimension", key),
                    {fmt::format("It has {}; topology has {}.", node.size(), count)});
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      double v = 0.0;
      const bool number = node[i].IsScalar() && YAML::convert<double>::decode(node[i], v) && std::isfinite(v);
      if (number && v >= least && v <= most && take(i, v)) continue;
      source_.error(place(node[i].Mark()), "import.value", fmt::format("a value of {} cannot be read", key),
                    {fmt::format("It is \"{}\"; a {}number from {} to {} would be right.",
                                 brief(node[i].IsScalar() ? node[i].Scalar().substr(0, 60) : ""),
                                 std::string_view(key) == "npus_count" ? "whole " : "", least, most)});
    }
  }

  Source& source_;
};

std::string joined(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& v : values) out += (out.empty() ? "" : ", ") + v;
  return "[ " + out + " ]\n";
}

/// The dimensions of a fabric that has dimensions, the innermost first.
struct Dimensions {
  const FabricSpec& f;
  std::string& why;
  using Result = std::optional<std::vector<ProductDimension>>;
  Result operator()(const std::monostate&) const { return std::vector<ProductDimension>{}; }
  Result operator()(const ProductNetwork& n) const { return n.dimensions; }
  Result operator()(const TorusNetwork& n) const {
    std::vector<ProductDimension> out;
    for (const std::uint32_t size : n.sizes) out.push_back({Shape::ring, size, n.link});
    return out;
  }
  Result operator()(const TreeNetwork& n) const {
    if (n.levels.size() == 1 && f.node.nics == 1) {
      return std::vector<ProductDimension>{{Shape::switched, f.nodes, n.levels.front().link}};
    }
    why = "a tree of switches is not a product of rings, full meshes and switches: its messages meet above the leaves";
    return std::nullopt;
  }
  Result operator()(const Dragonfly&) const {
    why = "a dragonfly is not a product of rings, full meshes and switches";
    return std::nullopt;
  }
  Result operator()(const WiredNetwork&) const {
    why = "single wires are not a product of rings, full meshes and switches";
    return std::nullopt;
  }
};

}  // namespace

std::optional<FabricSpec> read_astra_network(Source& source, const ImportOptions&) { return Reader(source).read(); }

}  // namespace orrery::importing

namespace orrery {

std::optional<std::string> astra_text(const FabricSpec& f, std::string& why) {
  if (!f.node.vertices.empty()) {
    why = "ASTRA-sim's analytical networks have no wires inside nodes";
    return std::nullopt;
  }
  if (f.degraded.share > 0.0) {
    why = "ASTRA-sim's analytical networks have no degraded links";
    return std::nullopt;
  }
  const auto dimensions = std::visit(importing::Dimensions{f, why}, f.network);
  if (!dimensions) return std::nullopt;
  if (dimensions->empty()) {
    why = "one GPU has no network";
    return std::nullopt;
  }
  std::vector<std::string> shapes, sizes, bandwidths, latencies;
  for (const ProductDimension& d : *dimensions) {
    shapes.emplace_back(d.shape == ProductDimension::Shape::ring   ? "Ring"
                        : d.shape == ProductDimension::Shape::full ? "FullyConnected"
                                                                   : "Switch");
    sizes.push_back(std::to_string(d.size));
    bandwidths.push_back(importing::to_decimal(d.link.bandwidth, "GB/s"));
    latencies.push_back(importing::to_decimal(d.link.latency, "ns"));
  }
  return "# GB/s and ns, of one link in one direction\ntopology: " + importing::joined(shapes) +
         "npus_count: " + importing::joined(sizes) + "bandwidth: " + importing::joined(bandwidths) +
         "latency: " + importing::joined(latencies);
}

}  // namespace orrery
