#include "sim/net/import/smi_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/base/counted.hpp"

namespace orrery::importing {
namespace {

struct Word {
  std::string text;
  std::size_t offset = 0;  ///< in the file
};

/// Words of a line without the terminal's escape codes.
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

bool has_number(std::string_view word, std::string_view kind) {
  return word.starts_with(kind) && word.size() > kind.size() && word.size() < kind.size() + 5 &&
         word.find_first_not_of("0123456789", kind.size()) == std::string_view::npos;
}

/// Whether the word lists cores or NUMA nodes, as in "0-23,48-71"; "N/A" is no list.
bool is_list(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789-,") == std::string_view::npos;
}

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  std::optional<SmiMatrix> read() {
    std::size_t begin = 0;
    for (const TextLine& line : lines_of(source_.text())) {
      const std::vector<Word> words = words_of(line.text, begin);
      begin = source_.text().find('\n', begin);
      begin = begin == std::string::npos ? source_.text().size() : begin + 1;
      if (words.empty()) continue;
      if (out_.devices.empty()) {
        if (words.front().text == "GPU0") {
          if (!read_header(words)) return std::nullopt;
        } else if (line.text.find("topo -mp") != std::string_view::npos) {
          out_.pcie_alone = true;
        }
        continue;
      }
      if (out_.cells.size() == out_.devices.size()) break;
      if (!read_row(words)) return std::nullopt;
    }
    const std::size_t devices = out_.devices.size(), rows = out_.cells.size();
    if (devices == 0 || rows < devices) {
      source_.error(devices == 0 ? Position{1, 1} : source_.at(out_.header), "import.matrix",
                    devices == 0 ? "there is no header that begins with GPU0" : "the matrix ends early",
                    {devices == 0 ? std::string("`nvidia-smi topo -m` prints one.")
                                  : fmt::format("It has {} of {} rows.", rows, devices)});
      return std::nullopt;
    }
    if (!halves_are_alike()) return std::nullopt;
    return std::move(out_);
  }

 private:
  /// Reads the devices up to "CPU Affinity", "NUMA Affinity" and "GPU NUMA ID", which stand behind them.
  bool read_header(const std::vector<Word>& words) {
    out_.header = words.front().offset;
    std::size_t i = 0;
    for (; i < words.size() && words[i].text != "CPU" && words[i].text != "NUMA" && words[i].text != "GPU"; ++i) {
      out_.devices.push_back({words[i].text, has_number(words[i].text, "GPU")});
    }
    for (; i < words.size(); ++i) {
      has_cores_ = has_cores_ || words[i].text == "CPU";
      has_numa_ = has_numa_ || words[i].text == "NUMA";
    }
    if (out_.devices.size() <= 512) return true;
    source_.error(source_.at(out_.header), "import.size", "the matrix has too many devices", {"At most 512 are read."});
    return false;
  }

  bool read_row(const std::vector<Word>& words) {
    const std::size_t row = out_.cells.size(), devices = out_.devices.size();
    const auto wrong = [&](const Word& w, std::string message, std::string detail) {
      source_.error(source_.at(w.offset), "import.matrix", std::move(message), {std::move(detail)});
      return false;
    };
    if (words.front().text != out_.devices[row].name) {
      return wrong(words.front(), "a row of the matrix is missing",
                   fmt::format("This row is \"{}\"; {} should be next.", brief(words.front().text),
                               brief(out_.devices[row].name)));
    }
    if (words.size() < devices + 1) {
      return wrong(words.front(), "a row of the matrix is too short",
                   fmt::format("It has {}; {} have {}.", counted(words.size() - 1, "cell"), counted(devices, "device"),
                               devices));
    }
    std::vector<SmiMatrix::Cell> cells;
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; i < devices; ++i) {
      const Word& w = words[i + 1];
      static const std::map<std::string, SmiMatrix::Distance> known{
          {"X", SmiMatrix::same},    {"PIX", SmiMatrix::pix}, {"PXB", SmiMatrix::pxb}, {"PHB", SmiMatrix::phb},
          {"NODE", SmiMatrix::numa}, {"SYS", SmiMatrix::sys}, {"SOC", SmiMatrix::sys}};  // SYS until 2017
      SmiMatrix::Cell cell;
      if (const auto found = known.find(w.text); found != known.end()) {
        cell.distance = found->second;
      } else if (has_number(w.text, "NV")) {
        cell.nvlinks = static_cast<std::uint32_t>(std::strtoul(w.text.c_str() + 2, nullptr, 10));
      }
      if ((cell.distance == SmiMatrix::unknown && (cell.nvlinks == 0 || cell.nvlinks > 36)) ||
          (cell.distance == SmiMatrix::same) != (i == row)) {
        return wrong(w, "a cell of the matrix cannot be read",
                     fmt::format("It is \"{}\"; X stands on the diagonal, and elsewhere PIX, PXB, PHB, NODE, SYS or "
                                 "NV1 to NV36.",
                                 brief(w.text)));
      }
      cells.push_back(cell);
      offsets.push_back(w.offset);
    }
    out_.cells.push_back(std::move(cells));
    out_.offsets.push_back(std::move(offsets));
    if (!out_.devices[row].gpu) return true;
    std::size_t next = devices + 1;
    const std::string cores = has_cores_ && next < words.size() ? words[next++].text : std::string();
    const std::string numa = has_numa_ && next < words.size() ? words[next].text : std::string();
    out_.devices[row].place = is_list(numa) ? "NUMA node " + numa : is_list(cores) ? "cores " + cores : std::string();
    return true;
  }

  bool halves_are_alike() {
    for (std::size_t a = 0; a < out_.devices.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const SmiMatrix::Cell &one = out_.cells[a][b], &other = out_.cells[b][a];
        if (one.distance == other.distance && one.nvlinks == other.nvlinks) continue;
        source_.error(source_.at(out_.offsets[a][b]), "import.matrix",
                      fmt::format("{} and {} have two different cells", brief(out_.devices[a].name),
                                  brief(out_.devices[b].name)));
        return false;
      }
    }
    return true;
  }

  Source& source_;
  SmiMatrix out_;
  bool has_cores_ = false, has_numa_ = false;
};

}  // namespace

std::optional<SmiMatrix> read_smi_matrix(Source& source) { return Reader(source).read(); }

}  // namespace orrery::importing
