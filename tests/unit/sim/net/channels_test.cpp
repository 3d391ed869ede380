#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/spec/spec_files.hpp"
#include "sim/net/import/import.hpp"
#include "sim/net/import/nccl_channels.hpp"

using namespace orrery;

namespace {

std::string given(const std::string& name) {
  std::ifstream in(std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/unit/sim/net/given/channels" / name);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  REQUIRE_FALSE(text.empty());
  return text;
}

NcclChannelReport read(const std::string& text, std::optional<std::uint32_t> nodes = std::nullopt) {
  const auto kind = channel_file_of(text);
  REQUIRE(kind);
  Diagnostics d;
  auto r = import_nccl_channels(*kind, text, "given", nodes, d);
  INFO(render(d));
  REQUIRE(r);
  return *r;
}

std::string mistakes(const std::string& text, std::optional<std::uint32_t> nodes = std::nullopt) {
  const auto kind = channel_file_of(text);
  REQUIRE(kind);
  Diagnostics d;
  CHECK_FALSE(import_nccl_channels(*kind, text, "f", nodes, d));
  return render(d);
}

/// `text` with the first `old` replaced.
std::string with(std::string text, const std::string& old, const std::string& now) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), now);
}

constexpr auto ring = ChannelGraph::Kind::ring, tree = ChannelGraph::Kind::tree, nvls = ChannelGraph::Kind::nvls;
constexpr Bandwidth gb = gigabyte_per_second;
using Ranks = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("NCCL's graphs of one node say channels, rates and rings", "[unit][net][import]") {
  const NcclChannelReport r = read(given("one-node.xml"));
  const std::string source = "NCCL_GRAPH_DUMP_FILE";
  CHECK(r.ranks == 4);
  CHECK(r.nodes == 1);
  CHECK(r.graphs == std::vector<ChannelGraph>{{ring, 4, 1, 2, 30.0 * gb, 30.0 * gb, source},
                                              {tree, 4, 1, 1, 40.0 * gb, 40.0 * gb, source},
                                              {nvls, 4, 1, 4, 80.0 * gb, 80.0 * gb, source}});
  CHECK(r.rings == std::vector<Ranks>{{0, 1, 2, 3}, {0, 1, 2, 3}});
  CHECK(r.notes.empty());
}

TEST_CASE("NCCL's graphs that leave the node need the number of nodes", "[unit][net][import]") {
  const NcclChannelReport r = read(given("of-two-nodes.xml"), 2);
  CHECK(r.ranks == 4);
  CHECK(r.graphs == std::vector<ChannelGraph>{{ring, 4, 2, 2, 24.0 * gb, 24.0 * gb, "NCCL_GRAPH_DUMP_FILE"}});
  CHECK(r.rings == std::vector<Ranks>{{0, 1}, {1, 0}});
  CHECK(r.notes == std::vector<std::string>{"every node is taken to have 2 GPUs"});
  CHECK(mistakes(given("of-two-nodes.xml")) ==
        R"(f:1:2: error: the channels leave the node, but the file does not give the number of nodes [import.nodes]
    1 | <graphs version="1">
      |  ^
  Give it with --nodes: the nodes of the run that dumped the graphs.
)");
  CHECK(mistakes(given("one-node.xml"), 2).find("the channels do not leave the node [import.nodes]") !=
        std::string::npos);
}

TEST_CASE("NCCL's log says channels, rates, rings, trees and transports", "[unit][net][import]") {
  const NcclChannelReport r = read(given("two-nodes.log"));
  CHECK(r.ranks == 4);
  CHECK(r.nodes == 2);
  CHECK(r.graphs == std::vector<ChannelGraph>{{ring, 4, 2, 2, 24.0 * gb, 24.0 * gb, "NCCL_DEBUG=INFO"},
                                              {tree, 4, 2, 2, 48.0 * gb, 24.0 * gb, "NCCL_DEBUG=INFO"}});
  CHECK(r.rings == std::vector<Ranks>{{0, 1, 2, 3}, {0, 3, 2, 1}});
  REQUIRE(r.trees.size() == 4);
  CHECK(r.trees[0] == NcclChannelReport::TreePlace{0, 0, {1, 2}, std::nullopt});
  CHECK(r.trees[1] == NcclChannelReport::TreePlace{0, 2, {3}, 0});
  CHECK(r.trees[3] == NcclChannelReport::TreePlace{1, 2, {3, 0}, std::nullopt});
  // The log prints both ends of a connection over the network.
  CHECK(r.transports == std::map<std::string, std::uint32_t>{{"NET/IB/0/GDRDMA", 1}, {"P2P/CUMEM/read", 2}});
}

TEST_CASE("of a log with several communicators the largest is taken", "[unit][net][import]") {
  const std::string small =
      "n:1:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n"
      "n:1:9 [0] NCCL INFO Channel 00/01 : 0 1\n";
  const NcclChannelReport r = read(small + given("two-nodes.log") + small);
  CHECK(r.ranks == 4);
  CHECK(r.graphs.size() == 2);
  CHECK(r.trees.empty());
  CHECK(r.transports.empty());
  REQUIRE(r.notes.size() == 1);
  CHECK(r.notes[0].find("the log has 3 communicators") == 0);
  // Without GRAPH among the subsystems there are no rates; old versions do not say nNodes.
  const NcclChannelReport plain = read("n:1:9 [0] NCCL INFO Channel 00/01 : 0 1\n", 1);
  CHECK(plain.graphs.empty());
  CHECK(plain.ranks == 2);
}

TEST_CASE("imported channels are read from a cluster's file", "[unit][net][import]") {
  const NcclChannelReport r = read(given("two-nodes.log"));
  const std::string head =
      "schema = 1\n[cluster]\nname = \"x\"\nnodes = 1\ndevices_per_node = 1\n[cluster.device]\nname = \"d\"\n"
      "memory = \"1 GiB\"\nmemory_bandwidth = \"1 GB/s\"\n[cluster.device.peak]\nfp32 = \"1 TFLOP/s\"\n";
  Diagnostics d;
  const auto cluster = parse_cluster(head + channel_tables(r), "c.toml", {}, d);
  INFO(render(d));
  REQUIRE(cluster);
  CHECK(cluster->channels == r.graphs);
  CHECK(parse_cluster(write_cluster(*cluster), "again.toml", {}, d)->channels == r.graphs);
}

TEST_CASE("mistakes in NCCL's graphs and log are shown with their place", "[error][net][import]") {
  const std::string graphs = given("one-node.xml"), log = given("two-nodes.log");
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(mistakes(with(graphs, "version=\"1\"", "version=\"2\"")),
      "f:1:2: error: the version of these graphs is not known [import.version]");
  has(mistakes(with(graphs, "</graphs>", "")), "not valid XML");
  has(mistakes(with(graphs, "nchannels=\"2\"", "nchannels=\"3\"")),
      "f:2:4: error: a graph does not have as many channels as it says [import.value]");
  has(mistakes(with(graphs, "speedintra=\"30\"", "speedintra=\"fast\"")),
      "It is \"fast\"; GB/s of one channel are meant, as 20.");
  has(mistakes(with(graphs, "<gpu dev=\"1\"/>", "<gpu dev=\"0\"/>")),
      "f:3:6: error: a ring passes a GPU twice [import.device]");
  has(mistakes(with(graphs, "<gpu dev=\"1\"/>", "<gpu/>")),
      "f:5:8: error: <gpu> has no dev that can be read [import.missing]");
  has(mistakes(with(graphs, "<gpu dev=\"1\"/>", "<cpu dev=\"1\"/>")), "the element <cpu> is not known [import.key]");
  has(mistakes(with(graphs, "id=\"3\"", "id=\"1\"")), "two graphs have the id 1 [import.device]");
  has(mistakes("<graphs version=\"1\"/>"), "there is no graph of rings, trees or NVLS with channels [import.missing]");
  CHECK(mistakes(with(log, "0   3   2   1", "0   3   2   3")) ==
        R"(f:10:60: error: a channel's ring does not pass every rank once [import.log]
   10 | node-a:41:50 [0] NCCL INFO Channel 01/02 :    0   3   2   3
      |                                                            ^
  It has 4 ranks; rank 1 is missing.
)");
  has(mistakes(with(log, "Channel 01/02", "Channel 02/02")), "a channel's ring cannot be read [import.log]");
  has(mistakes(with(log, "Channel 00/02", "Channel 00/03")),
      "channel 1 of 2 does not follow the one before it [import.log]");
  has(mistakes(with(log, "Channel 01/02 :    0   3   2   1", "nothing")),
      "a communicator's channels are not all listed [import.log]");
  has(mistakes(with(log, "bw 24.000000/24", "bw lots/24")), "a pattern of channels cannot be read [import.log]");
  has(mistakes(with(log, "1/2/-1->0->-1", "1/2->0->-1")), "a place in a tree cannot be read [import.log]");
  has(mistakes(with(log, "via P2P", "by P2P")), "a connection cannot be read [import.log]");
  has(mistakes(with(log, "nNodes 2", "nNodes many")), "a communicator's size cannot be read [import.log]");
  has(mistakes(log, 3), "The log says 2, --nodes 3.");
  has(mistakes("n:1:9 [0] NCCL INFO Channel 00/01 : 0 1\n"),
      "the log does not say on how many nodes the ranks are [import.nodes]");
  has(mistakes("n:1:9 [0] NCCL INFO nothing\n"), "the log lists no channels [import.missing]");
}
