#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/net/import/slurm_switches.hpp"

// topology.conf(5) of Slurm: a line for each switch, SwitchName=s0 Nodes=n[0-3,7] or SwitchName=s2 Switches=s[0-1], or
// for each block, BlockName=b0 Nodes=n[0-17]. `scontrol show topology` adds Level, BlockIndex and BlockSize, and to a
// switch of switches the nodes below. Key words may be in any case, and # begins a comment.

namespace orrery::importing {
namespace {

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  std::vector<SlurmSwitch> read() {
    for (const TextLine& line : lines_of(source_.text())) read_line(line);
    return std::move(switches_);
  }

 private:
  struct Word {
    std::string key;  ///< in small letters
    std::string_view text, value;
    Position where;
  };

  static std::vector<Word> words_of(const TextLine& line) {
    const std::string_view text = line.text.substr(0, line.text.find('#'));
    std::vector<Word> out;
    const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    for (std::size_t i = 0; i < text.size();) {
      if (space(text[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < text.size() && !space(text[end])) ++end;
      Word w;
      w.text = text.substr(i, end - i);
      w.where = {line.number, static_cast<std::uint32_t>(i) + 1};
      const std::size_t equals = std::min(w.text.find('='), w.text.size());
      w.key = w.text.substr(0, equals);
      std::transform(w.key.begin(), w.key.end(), w.key.begin(), [](unsigned char c) { return std::tolower(c); });
      w.value = w.text.substr(std::min(equals + 1, w.text.size()));
      out.push_back(std::move(w));
      i = end;
    }
    return out;
  }

  void read_line(const TextLine& line) {
    const std::vector<Word> words = words_of(line);
    if (words.empty()) return;
    SlurmSwitch s;
    const Word *nodes = nullptr, *switches = nullptr;
    bool sizes = false;
    for (const Word& w : words) {
      if (w.key == "switchname" || w.key == "blockname") {
        s.name = wire_name(std::string(w.value));
        s.where = w.where;
      } else if (w.key == "nodes") {
        nodes = &w;
      } else if (w.key == "switches") {
        switches = &w;
      } else if (w.key == "linkspeed") {
        source_.note("LinkSpeed is left out: Slurm gives it no unit and no effect");
      } else if (w.key == "blocksizes" || w.key == "blocksize" || w.key == "aggregatedblocks") {
        sizes = true;
        source_.note("sizes of blocks are left out: they say where jobs may lie, not what joins the blocks");
      } else if (w.key != "level" && w.key != "blockindex") {
        source_.error(w.where, "import.key", fmt::format("the key \"{}\" is not known", brief(w.text)),
                      {"A line has SwitchName, Nodes or Switches, and LinkSpeed, or BlockName and Nodes."});
        return;
      }
    }
    if (s.name.empty() && sizes && nodes == nullptr) return;  // BlockSizes=18,36
    const bool level = std::any_of(words.begin(), words.end(), [](const Word& w) { return w.key == "level"; });
    // With both, the nodes are all those below the switches, as scontrol prints them.
    if (s.name.empty() || (nodes == nullptr && switches == nullptr) || (nodes && switches && !level))
      return incomplete(line);
    const Word& below = switches != nullptr ? *switches : *nodes;
    s.leaf = switches == nullptr;
    if (auto names = slurm_names(below.value, below.where, source_)) s.below = std::move(*names);
    for (std::string& n : s.below) n = wire_name(std::move(n));
    if (s.below.empty()) return incomplete(line);
    switches_.push_back(std::move(s));
  }

  void incomplete(const TextLine& line) {
    if (!source_.clean()) return;
    source_.error({line.number, 1}, "import.switch", "this line does not give a switch and what hangs on it",
                  {"It needs a SwitchName, and either Nodes or Switches: SwitchName=s0 Nodes=n[0-3]"});
  }

  Source& source_;
  std::vector<SlurmSwitch> switches_;
};

}  // namespace

std::vector<SlurmSwitch> read_slurm_conf(Source& source) { return Reader(source).read(); }

}  // namespace orrery::importing
