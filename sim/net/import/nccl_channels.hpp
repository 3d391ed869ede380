#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/channel_graph.hpp"

namespace orrery {

/// Files in which NCCL says which channels it found for a communicator.
enum class ChannelFile : std::uint8_t {
  graph,  ///< NCCL_GRAPH_DUMP_FILE: XML, one node's part
  log     ///< what a run printed with NCCL_DEBUG=INFO
};
/// What a text looks like; none: like neither.
[[nodiscard]] std::optional<ChannelFile> channel_file_of(std::string_view text);

/// "ring", "tree", "nvls".
[[nodiscard]] std::string_view name_of(ChannelGraph::Kind);

/// What one communicator is made of.
struct NcclChannelReport {
  /// Rates are in them where the file has any: a log has with NCCL_DEBUG_SUBSYS=INIT,GRAPH alone.
  std::vector<ChannelGraph> graphs;
  std::uint32_t ranks = 0, nodes = 1;
  /// Ranks in the order of each channel's ring (of a graph's file: GPUs of the node), by channel.
  std::vector<std::vector<std::uint32_t>> rings;
  /// A rank's place in a channel's tree; none: no parent.
  struct TreePlace {
    std::uint32_t channel = 0, rank = 0;
    std::vector<std::uint32_t> children;
    std::optional<std::uint32_t> parent;
    friend bool operator==(const TreePlace&, const TreePlace&) = default;
  };
  std::vector<TreePlace> trees;                     ///< by channel, then rank
  std::map<std::string, std::uint32_t> transports;  ///< connections over each: "P2P/CUMEM", "NET/IB/0/GDRDMA"
  std::vector<std::string> notes;                   ///< what has been left out
};

/// Reads one.  `nodes`: how many there are, which a graph's file and old versions' logs do not say.  Of a log with
/// several communicators, the first of the largest.  Nothing after a mistake, which is in the diagnostics: codes
/// import.*.
[[nodiscard]] std::optional<NcclChannelReport> import_nccl_channels(ChannelFile, std::string text, std::string file,
                                                                    std::optional<std::uint32_t> nodes, Diagnostics&);

/// The tables [[cluster.channels]] of a cluster's file.
[[nodiscard]] std::string channel_tables(const NcclChannelReport&, const std::vector<std::string>& comments = {});

}  // namespace orrery
