#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "sim/net/import/nccl_channel_readers.hpp"

// Reads lines that NCCL prints with NCCL_DEBUG=INFO, each behind "host:process:thread [device] NCCL INFO ":
//
//   Pattern 4, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1      (SUBSYS=INIT,GRAPH)
//   comm 0x55d3 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
//   Channel 00/24 : 0 7 6 5 4 3 2 1 8 15 14 13 12 11 10 9
//   Trees [0] 1/-1/-1->0->8 [1] ...                           children -> rank -> parent
//   Channel 00/0 : 0[0] -> 7[7] via P2P/CUMEM                 Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA
//
// The first of these lines print what one thread found before the channels that it lists. A program with several
// communicators prints all this for each.

namespace orrery::importing {
namespace {

/// The unread rest of one line.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  [[nodiscard]] std::size_t read() const { return at_; }
  [[nodiscard]] bool ended() {
    skip_spaces();
    return at_ == text_.size();
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  template <class Number>
  bool take_number(Number& into) {
    skip_spaces();
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), into);
    if (problem != std::errc()) return false;
    at_ = static_cast<std::size_t>(end - text_.data());
    return true;
  }
  /// Takes the text up to the next space.
  std::string_view take_word() {
    skip_spaces();
    const std::size_t end = std::min(text_.find(' ', at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }
  void skip_past(std::string_view mark) {
    const std::size_t found = text_.find(mark, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + mark.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr std::uint32_t most_ranks = 1U << 20, most_channels = 64;

/// The speed is in GB/s; 0 where NCCL found none.
bool is_speed(double s) { return s == 0.0 || (s >= 1e-3 && s <= 1e5); }

class LogReader {
 public:
  explicit LogReader(Source& source) : source_(source) {}

  std::optional<NcclChannelReport> read(std::optional<std::uint32_t> nodes) {
    constexpr std::string_view mark = "NCCL INFO ";
    for (const TextLine& line : lines_of(source_.text())) {
      const std::size_t found = line.text.find(mark);
      if (found == std::string_view::npos) continue;
      line_ = &line;
      begin_ = found + mark.size();
      thread_ = std::string(line.text.substr(0, found));
      const std::string_view said = line.text.substr(begin_);
      if (said.starts_with("Pattern ")) {
        pattern(Words(said));
      } else if (said.starts_with("comm ") && said.find(" nNodes ") != std::string_view::npos) {
        communicator(Words(said));
      } else if (said.starts_with("Trees [")) {
        trees(Words(said));
      } else if (said.starts_with("Channel ") && said.find("->") == std::string_view::npos) {
        ring(Words(said));
      } else if (said.starts_with("Channel ")) {
        connection(Words(said));
      }
    }
    if (!source_.clean()) return std::nullopt;
    return finish(nodes);
  }

 private:
  struct Found {
    std::vector<ChannelGraph> graphs;
    std::uint32_t nodes = 0;  ///< 0: not said
  };
  struct Communicator {
    Found found;
    Position where;
    std::string thread;
    std::uint32_t channels = 0;
    std::vector<std::vector<std::uint32_t>> rings;
  };

  void wrong(const Words& words, std::string message, std::string right) {
    const std::string_view before = line_->text.substr(0, begin_ + words.read());
    source_.error({line_->number, static_cast<std::uint32_t>(character_count(before)) + 1}, "import.log",
                  std::move(message), {std::move(right)});
  }

  void pattern(Words w) {
    std::uint32_t kind = 0, cross = 0, channels = 0;
    double inside = 0.0, between = 0.0;
    const bool fine = w.take("Pattern") && w.take_number(kind) && w.take(", crossNic") && w.take_number(cross) &&
                      w.take(", nChannels") && w.take_number(channels) && (w.take(", bw") || w.take(", speed")) &&
                      w.take_number(inside) && w.take("/") && w.take_number(between);
    if (!fine || channels > most_channels || !is_speed(inside) || !is_speed(between)) {
      wrong(w, "a pattern of channels cannot be read",
            "\"Pattern 4, crossNic 0, nChannels 12, bw 30.0/30.0, ...\" would be right.");
      return;
    }
    std::optional<ChannelGraph::Kind> graph;
    if (kind == 1 || kind == 2) graph = ChannelGraph::Kind::tree;
    if (kind == 4) graph = ChannelGraph::Kind::ring;
    if (kind == 5) graph = ChannelGraph::Kind::nvls;
    if (!graph || channels == 0 || inside == 0.0 || between == 0.0) return;
    std::vector<ChannelGraph>& all = pending_[thread_].graphs;
    std::erase_if(all, [&](const ChannelGraph& g) { return g.kind == *graph; });
    all.push_back(
        {*graph, 0, 0, channels, inside * gigabyte_per_second, between * gigabyte_per_second, "NCCL_DEBUG=INFO"});
  }

  void communicator(Words w) {
    std::uint32_t ranks = 0, nodes = 0;
    w.skip_past(" nRanks ");
    const bool read_ranks = w.take_number(ranks);
    if (!read_ranks || !w.take("nNodes") || !w.take_number(nodes) || nodes < 1 || nodes > ranks || ranks > most_ranks) {
      wrong(w, "a communicator's size cannot be read", "\"... nRanks 16 nNodes 2 ...\" would be right.");
      return;
    }
    pending_[thread_].nodes = nodes;
  }

  void ring(Words w) {
    std::uint32_t channel = 0, channels = 0;
    std::vector<std::uint32_t> order;
    bool fine = w.take("Channel") && w.take_number(channel) && w.take("/") && w.take_number(channels) && w.take(":");
    fine = fine && channels >= 1 && channels <= most_channels && channel < channels;
    while (fine && !w.ended()) {
      std::uint32_t rank = 0;
      fine = w.take_number(rank) && rank < most_ranks;
      order.push_back(rank);
    }
    if (!fine || order.empty()) {
      wrong(w, "a channel's ring cannot be read", "\"Channel 00/24 : 0 1 2 3\" would be right.");
      return;
    }
    std::vector<std::uint32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::uint32_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] == i) continue;
      wrong(w, "a channel's ring does not pass every rank once",
            fmt::format("It has {}; rank {} is {}.", counted(sorted.size(), "rank"), std::min(sorted[i], i),
                        sorted[i] < i ? "there twice" : "missing"));
      return;
    }
    const auto open = std::find_if(communicators_.rbegin(), communicators_.rend(),
                                   [&](const Communicator& c) { return c.thread == thread_; });
    if (channel == 0) {
      Found found = std::move(pending_[thread_]);
      pending_.erase(thread_);
      communicators_.push_back({std::move(found), {line_->number, 1}, thread_, channels, {std::move(order)}});
    } else if (open == communicators_.rend() || open->rings.size() != channel || open->channels != channels ||
               open->rings.front().size() != order.size()) {
      wrong(
          w, fmt::format("channel {} of {} does not follow the one before it", channel, channels),
          "A communicator's channels are listed one after the other, from 00 on, each with the same number of ranks.");
    } else {
      open->rings.push_back(std::move(order));
    }
  }

  void trees(Words w) {
    (void)w.take("Trees");
    while (!w.ended()) {
      NcclChannelReport::TreePlace place;
      std::int64_t child[3] = {-1, -1, -1}, rank = -1, parent = -1;
      const bool fine = w.take("[") && w.take_number(place.channel) && w.take("]") && w.take_number(child[0]) &&
                        w.take("/") && w.take_number(child[1]) && w.take("/") && w.take_number(child[2]) &&
                        w.take("->") && w.take_number(rank) && w.take("->") && w.take_number(parent);
      const auto is_rank = [](std::int64_t r) { return r >= -1 && r < std::int64_t{most_ranks}; };
      if (!fine || rank < 0 || !is_rank(rank) || !is_rank(parent) || !std::all_of(child, child + 3, is_rank) ||
          place.channel >= most_channels) {
        wrong(w, "a place in a tree cannot be read", "\"[0] 1/-1/-1->0->-1\" would be right: children, rank, parent.");
        return;
      }
      place.rank = static_cast<std::uint32_t>(rank);
      for (const std::int64_t c : child) {
        if (c >= 0) place.children.push_back(static_cast<std::uint32_t>(c));
      }
      if (parent >= 0) place.parent = static_cast<std::uint32_t>(parent);
      trees_.push_back(std::move(place));
    }
  }

  void connection(Words w) {
    std::uint32_t channel = 0, from = 0, to = 0;
    bool fine = w.take("Channel") && w.take_number(channel);
    if (w.take("/")) {
      std::uint32_t part = 0;
      fine = fine && w.take_number(part);
    }
    fine = fine && w.take(":") && w.take_number(from) && w.take("[");
    if (fine) w.skip_past("]");
    fine = fine && w.take("->") && w.take_number(to) && w.take("[");
    if (fine) w.skip_past("]");
    const bool received = fine && w.take("[receive]");
    if (fine && !received) (void)w.take("[send]");
    fine = fine && w.take("via") && !w.ended();
    if (!fine) {
      wrong(w, "a connection cannot be read", "\"Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\" would be right.");
      return;
    }
    // The log prints both ends of a connection over the network.
    if (!received) ++transports_[std::string(w.take_word())];
  }

  std::optional<NcclChannelReport> finish(std::optional<std::uint32_t> nodes) {
    if (communicators_.empty()) {
      source_.error({1, 1}, "import.missing", "the log lists no channels",
                    {"A run with NCCL_DEBUG=INFO prints \"Channel 00/24 : 0 1 2 ...\" where rank 0 sets them up."});
      return std::nullopt;
    }
    const auto largest = std::max_element(
        communicators_.begin(), communicators_.end(),
        [](const Communicator& a, const Communicator& b) { return a.rings.front().size() < b.rings.front().size(); });
    Communicator& c = *largest;
    NcclChannelReport out;
    out.ranks = static_cast<std::uint32_t>(c.rings.front().size());
    if (c.rings.size() != c.channels) {
      source_.error(c.where, "import.log", "a communicator's channels are not all listed",
                    {fmt::format("It has {}; {} are there.", c.channels, c.rings.size())});
      return std::nullopt;
    }
    if (c.found.nodes == 0 && !nodes) {
      source_.error(c.where, "import.nodes", "the log does not say on how many nodes the ranks are",
                    {"Newer versions of NCCL print nNodes; otherwise give --nodes."});
      return std::nullopt;
    }
    if (c.found.nodes != 0 && nodes && *nodes != c.found.nodes) {
      source_.error(c.where, "import.nodes", "the log and --nodes do not agree",
                    {fmt::format("The log says {}, --nodes {}.", c.found.nodes, *nodes)});
      return std::nullopt;
    }
    out.nodes = c.found.nodes == 0 ? *nodes : c.found.nodes;
    if (out.nodes > out.ranks || out.ranks < 2) {
      source_.error(c.where, "import.gpus", "these ranks do not make a communicator on such nodes",
                    {fmt::format("The log has {} on {}.", counted(out.ranks, "rank"), counted(out.nodes, "node"))});
      return std::nullopt;
    }
    out.graphs = std::move(c.found.graphs);
    for (ChannelGraph& g : out.graphs) {
      g.ranks = out.ranks;
      g.nodes = out.nodes;
    }
    std::sort(out.graphs.begin(), out.graphs.end(),
              [](const ChannelGraph& a, const ChannelGraph& b) { return a.kind < b.kind; });
    out.rings = std::move(c.rings);
    if (out.graphs.empty()) {
      source_.note("the log has no rates of channels; NCCL_DEBUG_SUBSYS=INIT,GRAPH prints them");
    }
    if (communicators_.size() == 1) {
      std::sort(trees_.begin(), trees_.end(), [](const auto& a, const auto& b) {
        return a.channel != b.channel ? a.channel < b.channel : a.rank < b.rank;
      });
      out.trees = std::move(trees_);
      out.transports = std::move(transports_);
    } else {
      source_.note(fmt::format(
          "the log has {} communicators: this is the first of the largest; trees and connections, which may be of any "
          "of them, are left out",
          communicators_.size()));
    }
    return out;
  }

  Source& source_;
  const TextLine* line_ = nullptr;
  std::size_t begin_ = 0;
  std::string thread_;
  std::map<std::string, Found> pending_;
  std::vector<Communicator> communicators_;
  std::vector<NcclChannelReport::TreePlace> trees_;
  std::map<std::string, std::uint32_t> transports_;
};

}  // namespace

std::optional<NcclChannelReport> read_nccl_log(Source& source, std::optional<std::uint32_t> nodes) {
  return LogReader(source).read(nodes);
}

}  // namespace orrery::importing
