#include "sim/net/import/gpu_links.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace orrery::importing {
namespace {

constexpr Bandwidth pcie3 = Bandwidth::of(15.75e9), pcie4 = Bandwidth::of(31.5e9), pcie5 = Bandwidth::of(63e9);

/// Sources are NVIDIA's architecture white papers: Tesla P100 (2016), Tesla V100 (2017), Turing (2018; one or two links
/// of 25 GB/s), A100 (2020), Ampere GA102 (2021; four links of 14.0625 GB/s), H100 (2022), Blackwell (2024); and
/// datasheets of A30 (200 GB/s both ways), A800 and H800 (400 GB/s), H20 (900 GB/s). For AMD they are those of MI50 and
/// MI100 (92 GB/s both ways), MI210 and MI250X (100), MI300X (128), MI355X (153.6). PCIe has 8, 16 and 32 GT/s per
/// lane, coded 128b/130b.
const std::vector<GpuLinks>& all_gpu_links() {
  using enum PeerLinks;
  const auto gb = [](double gigabytes) { return Bandwidth::of(gigabytes * 1e9); };
  static const std::vector<GpuLinks> all{
      {"p100", "60", by_box, gb(20), 4, pcie3},
      {"v100", "70", by_box, gb(25), 6, pcie3},
      {"rtx-8000", "75", bridge, gb(25), 2, pcie3},
      {"rtx-5000", "75", bridge, gb(25), 1, pcie3},
      {"rtx-2080-ti", "75", bridge, gb(25), 2, pcie3},
      {"t4", "75", none, {}, 0, pcie3},
      {"a100", "80", switched, gb(25), 12, pcie4},
      {"a800", "80", switched, gb(25), 8, pcie4},
      {"a30", "80", bridge, gb(25), 4, pcie4},
      {"a40", "86", bridge, gb(14.0625), 4, pcie4},
      {"a6000", "86", bridge, gb(14.0625), 4, pcie4},
      {"rtx-3090", "86", bridge, gb(14.0625), 4, pcie4},
      {"a10", "86", none, {}, 0, pcie4},
      {"l4", "89", none, {}, 0, pcie4},
      {"l40", "89", none, {}, 0, pcie4},
      {"l40s", "89", none, {}, 0, pcie4},
      {"rtx-4090", "89", none, {}, 0, pcie4},
      {"rtx-6000-ada", "89", none, {}, 0, pcie4},
      {"h100", "90", switched, gb(25), 18, pcie5},
      {"h200", "90", switched, gb(25), 18, pcie5},
      {"h800", "90", switched, gb(25), 8, pcie5},
      {"h20", "90", switched, gb(25), 18, pcie5},
      {"b200", "100", switched, gb(50), 18, pcie5},
      {"gb200", "100", switched, gb(50), 18, pcie5},
      {"b300", "103", switched, gb(50), 18, pcie5},
      {"gb300", "103", switched, gb(50), 18, pcie5},
      {"rtx-5090", "120", none, {}, 0, pcie5},
      {"rtx-pro-6000", "120", none, {}, 0, pcie5},
      {"mi50", "906", xgmi, gb(46), 2, pcie4},
      {"mi100", "908", xgmi, gb(46), 3, pcie4},
      {"mi250x", "90a", xgmi, gb(50), 8, pcie4},
      {"mi300x", "942", xgmi, gb(64), 7, pcie5},
      {"mi325x", "942", xgmi, gb(64), 7, pcie5},
      {"mi355x", "950", xgmi, gb(76.8), 7, pcie5},
  };
  return all;
}

/// Words that stand before a GPU's name in listings.
constexpr std::array<std::string_view, 4> makers{"NVIDIA", "Tesla", "GeForce", "Quadro"};

/// PCI devices of NVIDIA. Source: the PCI ID repository (pci.ids).
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> device_ids{{
    {"0x1db1", "v100"},         {"0x1db5", "v100"}, {"0x1eb8", "t4"},       {"0x20b0", "a100"},  {"0x20b2", "a100"},
    {"0x20bd", "a800"},         {"0x20f3", "a800"}, {"0x2204", "rtx-3090"}, {"0x2230", "a6000"}, {"0x2236", "a10"},
    {"0x2324", "h800"},         {"0x2329", "h20"},  {"0x2330", "h100"},     {"0x2335", "h200"},  {"0x2684", "rtx-4090"},
    {"0x26b1", "rtx-6000-ada"}, {"0x26b9", "l40s"}, {"0x27b8", "l4"},       {"0x2901", "b200"},  {"0x2b85", "rtx-5090"},
}};

const GpuLinks* first_of(std::string_view architecture, bool xgmi) {
  for (const GpuLinks& g : all_gpu_links()) {
    if (g.architecture == architecture && g.links > 0 && (g.kind == PeerLinks::xgmi) == xgmi) return &g;
  }
  return nullptr;
}

}  // namespace

std::string gpu_link_names() {
  std::string out;
  for (const GpuLinks& g : all_gpu_links()) {
    if (g.kind != PeerLinks::xgmi) out += (out.empty() ? "" : ", ") + std::string(g.name);
  }
  return out;
}

const GpuLinks* gpu_links_named(std::string_view name) {
  const auto& all = all_gpu_links();
  const auto found = std::find_if(all.begin(), all.end(), [&](const GpuLinks& g) { return g.name == name; });
  return found == all.end() || found->kind == PeerLinks::xgmi ? nullptr : &*found;
}

const GpuLinks* gpu_links_in(std::string_view line) {
  line = line.substr(0, line.find("(UUID"));
  const auto words = [](std::string_view text) {
    std::string out = " ";
    for (const char c : text) {
      const auto u = static_cast<unsigned char>(c);
      out += std::isalnum(u) != 0 ? static_cast<char>(std::tolower(u)) : ' ';
    }
    return out + " ";
  };
  const bool listed = std::any_of(makers.begin(), makers.end(),
                                  [&](std::string_view m) { return line.find(m) != std::string_view::npos; });
  if (!listed) return nullptr;
  const std::string text = words(line);
  const GpuLinks* longest = nullptr;
  for (const GpuLinks& g : all_gpu_links()) {
    if (text.find(words(g.name)) == std::string::npos) continue;
    if (longest == nullptr || g.name.size() > longest->name.size()) longest = &g;
  }
  return longest;
}

const GpuLinks* gpu_links_of_device(std::string_view device) {
  for (const auto& [id, name] : device_ids) {
    if (device == id) return gpu_links_named(name);
  }
  return nullptr;
}

const GpuLinks* gpu_links_of_sm(std::string_view sm) { return first_of(sm, false); }

const GpuLinks* gpu_links_of_gcn(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  gcn = gcn.substr(0, gcn.find(':'));
  return first_of(gcn == "910" ? "90a" : gcn, true);  // which RCCL wrote for it at first
}

}  // namespace orrery::importing
