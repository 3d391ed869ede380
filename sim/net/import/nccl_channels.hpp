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
/// The kind that a text looks like; empty where it looks like neither.
[[nodiscard]] std::optional<ChannelFile> channel_file_of(std::string_view text);

/// "ring", "tree", "nvls".
[[nodiscard]] std::string_view name_of(ChannelGraph::Kind);

/// The rings and trees of one communicator.
struct NcclChannelReport {
  /// The graphs have rates where the file has any; a log has them only with NCCL_DEBUG_SUBSYS=INIT,GRAPH.
  std::vector<ChannelGraph> graphs;
  std::uint32_t ranks = 0, nodes = 1;
  /// Ranks in the order of each channel's ring, by channel (in a graph's file, GPUs of the node).
  std::vector<std::vector<std::uint32_t>> rings;
  /// A rank's place in a channel's tree; no parent: `none`.
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

/// Reads one file. `nodes` is the number of nodes, which a graph's file and old versions' logs do not say. In a log
/// with several communicators, the first of the largest ones counts. The result is empty after a mistake, which is in
/// the diagnostics: codes import.*.
[[nodiscard]] std::optional<NcclChannelReport> import_nccl_channels(ChannelFile, std::string text, std::string file,
                                                                    std::optional<std::uint32_t> nodes, Diagnostics&);

/// The tables [[cluster.channels]] of a cluster's file.
[[nodiscard]] std::string channel_tables(const NcclChannelReport&, const std::vector<std::string>& comments = {});

}  // namespace orrery
