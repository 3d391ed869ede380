#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "core/base/units_text.hpp"
#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/node_draft.hpp"

// The matrix of `nvidia-smi topo -m`: for each two devices the farthest thing between them (NVIDIA's legend of it).
// PIX one PCIe switch, PXB several, PHB the host bridge, NODE bridges of one NUMA node, SYS sockets; NV# is that many
// NVLinks, and then hides what lies between the two over PCIe: NICs and NUMA nodes tell.

namespace orrery::importing {
namespace {

enum Distance : std::uint8_t { same, pix, pxb, phb, numa, sys, unknown };

struct Cell {
  Distance distance = unknown;
  std::uint32_t nvlinks = 0;
};

struct Word {
  std::string text;
  std::size_t offset = 0;  ///< in the file
};

/// Words of a line without a terminal's escapes.
std::vector<Word> words_of(std::string_view line, std::size_t begin) {
  std::vector<Word> out;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      while (i < line.size() && line[i] != 'm') ++i;
      if (i < line.size()) ++i;
      continue;
    }
    if (line[i] == ' ' || line[i] == '\t') {
      ++i;
      continue;
    }
    Word w{{}, begin + i};
    for (; i < line.size() && line[i] != ' ' && line[i] != '\t' && line[i] != '\x1b'; ++i) w.text += line[i];
    out.push_back(std::move(w));
  }
  return out;
}

bool is_device(std::string_view word, std::string_view kind) {
  return word.starts_with(kind) && word.size() > kind.size() && word.size() < kind.size() + 5 &&
         std::all_of(word.begin() + static_cast<std::ptrdiff_t>(kind.size()), word.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}
bool is_nic(std::string_view word) {
  return is_device(word, "NIC") || word.starts_with("mlx") || word.starts_with("bnxt") || word.starts_with("efa");
}

/// Sets that grow together.
class Groups {
 public:
  explicit Groups(std::size_t n) : of_(n) { std::iota(of_.begin(), of_.end(), std::size_t{0}); }
  std::size_t of(std::size_t i) const {
    while (of_[i] != i) i = of_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const std::size_t x = of(a), y = of(b);
    of_[std::max(x, y)] = std::min(x, y);
  }

 private:
  std::vector<std::size_t> of_;
};

class Reader {
 public:
  Reader(Source& source, const ImportOptions& options) : source_(source), options_(options) {}

  std::optional<FabricSpec> read() {
    if (!options_.gpu) {
      source_.error({1, 1}, "import.gpu", "the matrix does not say which GPUs these are, nor how fast their links",
                    {fmt::format("Name the GPU: --gpu, of {}.", gpu_link_names())});
      return std::nullopt;
    }
    if (!read_matrix()) return std::nullopt;
    if (!check_matrix()) return std::nullopt;
    wire_pcie();
    wire_nvlinks();
    source_.note(fmt::format("links are those of {} by its datasheet, 22 GB/s between sockets; latencies are nominal",
                             *options_.gpu));
    return draft_.finish(source_, options_, source_.at(header_));
  }

 private:
  bool read_matrix() {
    std::size_t begin = 0, row = 0;
    for (const TextLine& line : lines_of(source_.text())) {
      const std::vector<Word> words = words_of(line.text, begin);
      begin = source_.text().find('\n', begin);
      begin = begin == std::string::npos ? source_.text().size() : begin + 1;
      if (words.empty()) continue;
      if (names_.empty()) {
        if (words.front().text != "GPU0") continue;
        header_ = words.front().offset;
        for (const Word& w : words) {
          if (!is_device(w.text, "GPU") && !is_nic(w.text)) break;
          names_.push_back(w.text);
        }
        if (names_.size() > 512) {
          source_.error(source_.at(header_), "import.size", "the matrix has too many devices",
                        {"At most 512 are read."});
          return false;
        }
        // "CPU Affinity", "NUMA Affinity" and "GPU NUMA ID" stand behind the devices.
        has_numa_ = line.text.find("NUMA") != std::string_view::npos;
        continue;
      }
      if (row == names_.size()) break;
      if (words.front().text != names_[row]) {
        source_.error(source_.at(words.front().offset), "import.matrix", "a row of the matrix is missing",
                      {fmt::format("This is \"{}\"; {} would be next.", brief(words.front().text), names_[row])});
        return false;
      }
      if (!read_row(words, row++)) return false;
    }
    if (!names_.empty() && row == names_.size()) return true;
    source_.error(names_.empty() ? Position{1, 1} : source_.at(header_), "import.matrix",
                  names_.empty() ? "there is no header that begins with GPU0" : "the matrix ends early",
                  {names_.empty() ? std::string("`nvidia-smi topo -m` prints one.")
                                  : fmt::format("It has {} of {} rows.", row, names_.size())});
    return false;
  }

  bool read_row(const std::vector<Word>& words, std::size_t row) {
    if (words.size() < names_.size() + 1) {
      source_.error(
          source_.at(words.front().offset), "import.matrix", "a row of the matrix is too short",
          {fmt::format("It has {} cells; {} devices have {}.", words.size() - 1, names_.size(), names_.size())});
      return false;
    }
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Word& w = words[i + 1];
      static const std::map<std::string, Distance> known{{"X", same},  {"PIX", pix},   {"PXB", pxb},
                                                         {"PHB", phb}, {"NODE", numa}, {"SYS", sys}};
      Cell cell;
      if (const auto found = known.find(w.text); found != known.end()) {
        cell.distance = found->second;
      } else if (is_device(w.text, "NV")) {
        cell.nvlinks = static_cast<std::uint32_t>(std::strtoul(w.text.c_str() + 2, nullptr, 10));
      }
      if ((cell.distance == unknown && (cell.nvlinks == 0 || cell.nvlinks > 36)) ||
          (cell.distance == same) != (i == row)) {
        source_.error(
            source_.at(w.offset), "import.matrix", "a cell of the matrix cannot be read",
            {fmt::format("It is \"{}\"; X stands on the diagonal, and elsewhere PIX, PXB, PHB, NODE, SYS or NV1 "
                         "to NV36.",
                         brief(w.text))});
        return false;
      }
      cells.push_back(cell);
      offsets_.push_back(w.offset);
    }
    // Behind the cells: the processor's cores ("0-51"), then its NUMA node.
    numa_.push_back(has_numa_ && words.size() > names_.size() + 2 && is_device("N" + words[names_.size() + 2].text, "N")
                        ? std::atoi(words[names_.size() + 2].text.c_str())
                        : -1);
    matrix_.push_back(std::move(cells));
    return true;
  }

  /// Both halves alike, and what is near to one of two near devices is near to the other.
  bool check_matrix() {
    const std::size_t n = names_.size();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (matrix_[a][b].distance == matrix_[b][a].distance && matrix_[a][b].nvlinks == matrix_[b][a].nvlinks)
          continue;
        source_.error(source_.at(offsets_[a * n + b]), "import.matrix",
                      fmt::format("{} and {} have two different cells", names_[a], names_[b]));
        return false;
      }
    }
    for (const Distance level : {pix, pxb, numa}) {
      const Groups groups = within(level);
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          const Distance d = matrix_[a][b].distance;
          if (groups.of(a) != groups.of(b) || d == unknown || d <= level) continue;
          source_.error(
              source_.at(offsets_[a * n + b]), "import.matrix",
              fmt::format("{} and {} are far apart, and both are near to the same device", names_[a], names_[b]),
              {"What is below one PCIe switch, or in one NUMA node, is so with all others there."});
          return false;
        }
      }
    }
    return true;
  }

  Groups within(Distance level) const {
    Groups groups(names_.size());
    for (std::size_t a = 0; a < names_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool one_node = level == numa && numa_[a] == numa_[b] && matrix_[a][b].distance == unknown;
        if (matrix_[a][b].distance <= level || one_node) groups.join(a, b);
      }
    }
    return groups;
  }

  void wire_pcie() {
    const Link pcie{LinkKind::pcie, gpu_links_named(*options_.gpu)->pcie, pcie_latency};
    const Groups switches = within(pix), trees = within(pxb), hosts = within(numa);
    std::map<std::size_t, std::string> host, tree, leaf;
    for (std::size_t d = 0; d < names_.size(); ++d) {
      const bool gpu = is_device(names_[d], "GPU");
      if (!gpu && left_out(options_, names_[d])) continue;
      const std::string vertex =
          gpu ? fmt::format("gpu{}", draft_.gpus().size()) : fmt::format("port{}", draft_.nics().size());
      if (gpu) {
        vertices_.push_back(vertex);
        draft_.gpu(vertex);
      } else {
        draft_.nic({vertex, options_.nic});
      }
      std::string above;
      if (const auto [at, first] = host.try_emplace(hosts.of(d), fmt::format("host{}", host.size())); true) {
        above = at->second;
        if (first) host_names_.push_back(at->second);
      }
      // Below a switch stands what shares one; a switch above those that meet without the host.
      const auto shared = [&](const Groups& groups) {
        for (std::size_t other = 0; other < names_.size(); ++other) {
          if (other != d && groups.of(other) == groups.of(d) && !left_out(options_, names_[other])) return true;
        }
        return false;
      };
      bool several = false;  // switches below that one
      for (std::size_t other = 0; other < names_.size(); ++other) {
        several = several || (trees.of(other) == trees.of(d) && switches.of(other) != switches.of(d));
      }
      if (several) {
        const auto [at, first] = tree.try_emplace(trees.of(d), fmt::format("switch{}", tree.size() + leaf.size()));
        if (first) draft_.wire(at->second, above, pcie);
        above = at->second;
      }
      if (shared(switches)) {
        const auto [at, first] = leaf.try_emplace(switches.of(d), fmt::format("switch{}", tree.size() + leaf.size()));
        if (first) draft_.wire(at->second, above, pcie);
        above = at->second;
      }
      draft_.wire(vertex, above, pcie);
    }
    const Link socket{LinkKind::socket, Bandwidth::of(22e9), socket_latency};
    for (std::size_t a = 0; a < host_names_.size(); ++a) {
      for (std::size_t b = a + 1; b < host_names_.size(); ++b) draft_.wire(host_names_[a], host_names_[b], socket);
    }
  }

  void wire_nvlinks() {
    const GpuLinks& links = *gpu_links_named(*options_.gpu);
    std::uint32_t most = 0;  // that one GPU would need for all its peers
    bool alike = true;
    std::vector<std::size_t> gpus;
    for (std::size_t d = 0; d < names_.size(); ++d) {
      if (is_device(names_[d], "GPU")) gpus.push_back(d);
    }
    const std::uint32_t one = gpus.size() > 1 ? matrix_[gpus[0]][gpus[1]].nvlinks : 0;
    for (const std::size_t a : gpus) {
      std::uint32_t sum = 0;
      for (const std::size_t b : gpus) {
        sum += matrix_[a][b].nvlinks;
        alike = alike && (a == b || matrix_[a][b].nvlinks == one);
      }
      most = std::max(most, sum);
    }
    if (most > links.nvlinks && alike) {
      for (const std::string& g : vertices_)
        draft_.wire(g, "nvswitch", {LinkKind::nvlink, one * links.nvlink, nvlink_latency});
      source_.note(fmt::format("{} NVLinks to every GPU are more than one has: they lead to NVSwitches", one));
      return;
    }
    if (most > links.nvlinks) {
      source_.error(source_.at(header_), "import.gpu", fmt::format("a GPU has more NVLinks than {} has", *options_.gpu),
                    {fmt::format("They sum up to {}; it has {}.", most, links.nvlinks)});
      return;
    }
    for (std::size_t a = 0; a < gpus.size(); ++a) {
      for (std::size_t b = a + 1; b < gpus.size(); ++b) {
        const std::uint32_t count = matrix_[gpus[a]][gpus[b]].nvlinks;
        if (count > 0)
          draft_.wire(vertices_[a], vertices_[b], {LinkKind::nvlink, count * links.nvlink, nvlink_latency});
      }
    }
  }

  Source& source_;
  const ImportOptions& options_;
  NodeDraft draft_;
  std::vector<std::string> names_;  ///< of the devices
  std::vector<std::vector<Cell>> matrix_;
  std::vector<std::size_t> offsets_;  ///< of the cells
  std::vector<int> numa_;
  std::vector<std::string> vertices_;  ///< of the GPUs
  std::vector<std::string> host_names_;
  std::size_t header_ = 0;
  bool has_numa_ = false;
};

}  // namespace

std::optional<FabricSpec> read_smi_topology(Source& source, const ImportOptions& options) {
  return Reader(source, options).read();
}

}  // namespace orrery::importing
