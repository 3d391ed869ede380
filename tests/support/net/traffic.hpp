#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/net/flow_network.hpp"

namespace orrery::test {

/// Hosts below leaf switches, leaf switches below one core; every link is full duplex. With one leaf for all it is a
/// star.
struct Tree {
  std::uint32_t hosts = 0;
  std::uint32_t per_leaf = 0;
  double host_bandwidth = 50e9;    ///< bytes/s, between a host and its leaf
  double trunk_bandwidth = 400e9;  ///< bytes/s, between a leaf and the core
  double latency = 2e-6;           ///< of every route, half of it at either host

  [[nodiscard]] std::uint32_t links() const { return 2 * (hosts + hosts / per_leaf); }
  [[nodiscard]] double capacity(std::uint32_t link) const {
    return link < 2 * hosts ? host_bandwidth : trunk_bandwidth;
  }
  /// Host h has up link 2 h and down link 2 h + 1; leaf l has 2 (hosts + l), and one more.
  void route(std::uint32_t from, std::uint32_t to, std::vector<LinkId>& into) const;
};

[[nodiscard]] Tree star(std::uint32_t hosts);
/// Leaves of 16 hosts whose trunk has half their bandwidth.
[[nodiscard]] Tree two_to_one(std::uint32_t hosts);

/// Something on a host that sends messages one after another.
struct Process {
  struct Send {
    std::uint32_t to = 0;  ///< process
    double bytes = 0.0;
  };
  std::uint32_t host = 0;
  std::vector<Send> sends;
  /// Step k ends when the k-th message is sent and a k-th one was received.
  bool lockstep = false;
  /// All messages start at once, not one after another.
  bool at_once = false;
};

using Traffic = std::vector<Process>;

/// All-reduce around rings: 2 (n - 1) steps of bytes / n.  Process i of a ring
/// sits on host i * stride (modulo n, shifted where the stride divides n).
[[nodiscard]] Traffic ring(std::uint32_t hosts, std::uint32_t stride, double bytes, std::uint32_t rings = 1);
/// Every host sends this many messages of 0.1 to 10 MB to hosts drawn at random.
[[nodiscard]] Traffic irregular(std::uint32_t hosts, std::uint32_t messages, std::uint64_t seed, bool at_once = false);

[[nodiscard]] std::uint64_t flows_of(const Traffic&);

/// When every process has ended each of its steps, in seconds.
using Times = std::vector<std::vector<double>>;
[[nodiscard]] Times run(const Tree&, const Traffic&, std::uint64_t* levels = nullptr);
/// The largest difference over all steps, relative to the second's. Requires both to have as many.
[[nodiscard]] double largest_difference(const Times&, const Times&);

/// How SimGrid brings its flows up to date.  `lazy` is its default and the
/// faster; in version 3.32 it gives links more than their capacity where hosts
/// send several messages at once.
enum class SimgridUpdate : std::uint8_t { lazy, full };

/// The same by SimGrid (model CM02, no cross traffic) in a separate process; empty where Orrery was built without it.
/// `seconds` gets the CPU time of its run.
[[nodiscard]] std::optional<Times> run_simgrid(const Tree&, const Traffic&, SimgridUpdate, double* seconds = nullptr);

}  // namespace orrery::test
