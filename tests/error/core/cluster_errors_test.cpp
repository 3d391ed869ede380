#include <catch2/catch.hpp>

#include "tests/error/core/spec_cases.hpp"

// Mistakes in a cluster's levels and channels, in addition to those of spec_errors_test.cpp.

using namespace orrery;
using namespace orrery::test;

namespace {

std::string curve(const std::string& keys) {
  return with(good_cluster, "latency = \"5 us\"\n", "latency = \"5 us\"\n" + keys);
}

std::string channels(const std::string& keys) {
  return good_cluster + "[[cluster.channels]]\nkind = \"ring\"\nranks = 8\n" + keys +
         "channels = 12\ninside = \"30 GB/s\"\nsource = \"log\"\n";
}

}  // namespace

TEST_CASE("a curve of rates and channels are read and written", "[unit]") {
  Diagnostics d;
  const auto lookup = [](const std::string& n, Diagnostics& m) { return library.device(n, m); };
  const std::string text = with(channels("nodes = 2\nbetween = \"24 GB/s\"\n"), "latency = \"5 us\"\n",
                                "latency = \"5 us\"\nmessage_sizes = [\"4 KiB\", \"1 MiB\"]\nrates = [\"2 GB/s\", \"50 "
                                "GB/s\"]\nrates_source = \"measured\"\nswitches = \"sharp\"\n");
  const auto c = parse_cluster(text, "c.toml", lookup, d);
  INFO(render(d));
  REQUIRE(c);
  CHECK(c->levels[1].rates ==
        std::vector<SizedRate>{{Bytes::of(4096), Bandwidth::of(2e9)}, {Bytes::of(1048576), Bandwidth::of(50e9)}});
  CHECK(c->levels[1].switches == SwitchSum::sharp);
  CHECK_FALSE(c->levels[0].switches);
  CHECK(c->channels == std::vector<ChannelGraph>{
                           {ChannelGraph::Kind::ring, 8, 2, 12, Bandwidth::of(30e9), Bandwidth::of(24e9), "log"}});
  const auto again = parse_cluster(write_cluster(*c), "again.toml", lookup, d);
  REQUIRE(again);
  CHECK(again->levels == c->levels);
  CHECK(again->channels == c->channels);
}

TEST_CASE("cluster.rates: a curve that is none", "[error]") {
  CHECK(
      cluster_error(curve("message_sizes = [\"4 KiB\"]\nrates = [\"1 GB/s\"]\n")) ==
      R"(c.toml:18:9: error: a curve of rates needs message_sizes, the same number of rates, and rates_source [cluster.rates]
   18 | rates = ["1 GB/s"]
      |         ^
  There are 1 sizes and 1 rates; the source says where they were measured.
)");
  CHECK(cluster_error(
            curve("message_sizes = [\"4 KiB\", \"x\"]\nrates = [\"1 GB/s\", \"1 GB/s\"]\nrates_source = \"m\"\n")) ==
        R"(c.toml:17:17: error: message size 2 cannot be read [cluster.rates]
   17 | message_sizes = ["4 KiB", "x"]
      |                 ^
  It is "x"; "64 KiB" would be right.
)");
  CHECK(cluster_error(curve(
            "message_sizes = [\"4 KiB\", \"8 KiB\"]\nrates = [\"1 GB/s\", \"51 GB/s\"]\nrates_source = \"m\"\n")) ==
        R"(c.toml:18:9: error: a message cannot be faster than the link [cluster.rates]
   18 | rates = ["1 GB/s", "51 GB/s"]
      |         ^
  Rate 2 is 51 GB/s; the level's bandwidth is 50 GB/s.
)");
  CHECK(cluster_error(curve(
            "message_sizes = [\"4 KiB\", \"4 KiB\"]\nrates = [\"1 GB/s\", \"1 GB/s\"]\nrates_source = \"m\"\n")) ==
        R"(c.toml:17:17: error: message sizes do not ascend [cluster.rates]
   17 | message_sizes = ["4 KiB", "4 KiB"]
      |                 ^
  Size 1 is 4 KiB, size 2 4 KiB.
)");
  CHECK(cluster_error(curve(
            "message_sizes = [\"4 KiB\", \"8 KiB\"]\nrates = [\"1 GB/s\", \"4 GB/s\"]\nrates_source = \"m\"\n")) ==
        R"(c.toml:18:9: error: a larger message takes less time than a smaller one [cluster.rates]
   18 | rates = ["1 GB/s", "4 GB/s"]
      |         ^
  4 KiB at 1 GB/s take 4.10 us, 8 KiB at 4 GB/s take 2.05 us.
  From one size to the next the rate may stay, or grow as much as the size.
)");
}

TEST_CASE("cluster.channels: channels that no communicator can have", "[error]") {
  CHECK(cluster_error(channels("nodes = 9\n")) ==
        R"(c.toml:20:9: error: channels join more nodes than ranks [cluster.channels]
   20 | nodes = 9
      |         ^
  8 ranks lie on at most 8 nodes, not on 9.
)");
  const std::string twice =
      channels("") +
      "[[cluster.channels]]\nkind = \"ring\"\nranks = 8\nchannels = 2\ninside = \"1 GB/s\"\nsource = \"log\"\n";
  CHECK(cluster_error(twice) ==
        R"(c.toml:23:1: error: channels of one kind are given twice for the same group [cluster.channels]
   23 | [[cluster.channels]]
      | ^
  Entries 1 and 2 are for 8 ranks on 1 node.
)");
}

TEST_CASE("cluster.other-nodes: nodes that are none of the cluster's, or cannot be beside them", "[error]") {
  const auto others = [](const std::string& keys) { return good_cluster + "[[cluster.other_nodes]]\n" + keys; };
  CHECK(cluster_error(others("first = 1\ncount = 2\ndevice = \"a100-80\"\n")) ==
        R"(c.toml:18:9: error: other nodes lie outside the cluster [cluster.other-nodes]
   18 | first = 1
      |         ^
  They are nodes 1 to 2; the cluster has nodes 0 to 1.
)");
  CHECK(cluster_error(others("first = 1\n[[cluster.other_nodes]]\nfirst = 0\n")) ==
        R"(c.toml:20:9: error: other nodes overlap those of the entry before, or come before it [cluster.other-nodes]
   20 | first = 0
      |         ^
  They begin at node 0; 2 is the first that is free.
)");
  CHECK(cluster_error(others("first = 0\ncount = 2\n")) ==
        R"(c.toml:17:1: error: the cluster's own device has no node left [cluster.other-nodes]
   17 | [[cluster.other_nodes]]
      | ^
  All 2 nodes are other nodes; name their device as the cluster's.
)");
  CHECK(cluster_error(others("first = 1\nbandwidths = [\"1 GB/s\"]\n")) ==
        R"(c.toml:19:14: error: other nodes need a bandwidth for each level [cluster.other-nodes]
   19 | bandwidths = ["1 GB/s"]
      |              ^
  There is 1; the cluster has 2 levels, innermost first.
)");
  CHECK(cluster_error(others("first = 1\nbandwidths = [\"1 GB/s\", \"fast\"]\n")) ==
        R"(c.toml:19:14: error: bandwidth 2 cannot be read [cluster.other-nodes]
   19 | bandwidths = ["1 GB/s", "fast"]
      |              ^
  It is "fast"; "25 GB/s" would be right.
)");
  CHECK(
      cluster_error(others("first = 1\ndevice = \"cpu-core\"\n")) ==
      R"(c.toml:19:10: error: devices that share cores, or do one op at a time, cannot be mixed with others [cluster.other-nodes]
   19 | device = "cpu-core"
      |          ^
  cpu-core stands beside H100.
)");
  CHECK(cluster_error(channels("") + "[[cluster.other_nodes]]\nfirst = 1\n") ==
        R"(c.toml:17:1: error: channels that NCCL found hold for equal nodes only [cluster.other-nodes]
   17 | [[cluster.channels]]
      | ^
  Leave out cluster.channels, or cluster.other_nodes.
)");
}

TEST_CASE("other nodes are read and written, and a smaller cluster has those that are left", "[unit]") {
  Diagnostics d;
  const auto lookup = [](const std::string& n, Diagnostics& m) { return library.device(n, m); };
  const std::string text =
      with(with(good_cluster, "nodes = 2", "nodes = 8"), "size = 2", "size = 8") +
      "[[cluster.other_nodes]]\nfirst = 2\ndevice = \"a100-80\"\nbandwidths = [\"300 GB/s\", "
      "\"25 GB/s\"]\n[[cluster.other_nodes]]\nfirst = 6\ncount = 2\nbandwidths = [\"450 GB/s\", \"25 "
      "GB/s\"]\n";
  const auto c = parse_cluster(text, "c.toml", lookup, d);
  INFO(render(d));
  REQUIRE(c);
  REQUIRE(c->other_nodes.size() == 2);
  CHECK(c->other_nodes[0].device.name == "A100-80");
  CHECK(c->other_nodes[1].device == c->device);
  const auto again = parse_cluster(write_cluster(*c), "again.toml", lookup, d);
  REQUIRE(again);
  CHECK(again->other_nodes == c->other_nodes);
  const auto smaller = resized(*c, 28, d);  // 7 nodes: of the two last one is left
  REQUIRE(smaller);
  CHECK(smaller->other_nodes[1].count == 1);
  const auto smallest = resized(*c, 8, d);  // 2 nodes, none of them another
  REQUIRE(smallest);
  CHECK(smallest->other_nodes.empty());
}
