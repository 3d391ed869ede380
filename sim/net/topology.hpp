#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/random.hpp"
#include "sim/net/link.hpp"

namespace orrery {

/// Says which of several shortest paths a message takes.
struct PathChoice {
  bool hashed = false;    ///< by `key` (ECMP); otherwise by the destination's number (D-mod-k)
  std::uint64_t key = 0;  ///< of the message's source, destination and seed

  /// Picks one of `count` ways on at step `stage` of the path.
  [[nodiscard]] std::uint32_t pick(std::uint64_t stage, std::uint32_t count, std::uint64_t by_destination) const {
    return static_cast<std::uint32_t>((hashed ? random_bits(key, stage, 0) : by_destination) % count);
  }
};

/// End points, switches and the links between them, each numbered from 0, ends
/// before switches.  Symmetric shapes store nothing per end: links are numbered
/// and routes computed in closed form.
class Topology {
 public:
  struct Sides {
    std::uint32_t from, to;  ///< vertices
    friend bool operator==(const Sides&, const Sides&) = default;
  };
  virtual ~Topology() = default;

  [[nodiscard]] virtual std::uint32_t ends() const = 0;
  [[nodiscard]] virtual std::uint32_t vertices() const = 0;
  [[nodiscard]] virtual std::uint32_t links() const = 0;
  [[nodiscard]] virtual Link link(std::uint32_t l) const = 0;
  [[nodiscard]] virtual Sides sides(std::uint32_t l) const = 0;
  /// Whether messages between other ends pass through ends.
  [[nodiscard]] virtual bool ends_pass_on() const { return false; }
  /// Name of a vertex: "leaf 3".
  [[nodiscard]] virtual std::string vertex_name(std::uint32_t v) const = 0;
  /// Appends the links of a shortest path; nothing from an end to itself.
  virtual void route(std::uint32_t from, std::uint32_t to, const PathChoice&,
                     std::vector<std::uint32_t>& into) const = 0;
};

/// One level of a tree: `down` vertices of the level below are attached to one switch of this one, and each of them to
/// `up` switches.
struct TreeLevel {
  std::uint32_t down = 1, up = 1;
  Link link;  ///< one direction of the cable between the two levels
  friend bool operator==(const TreeLevel&, const TreeLevel&) = default;
};

/// Extended generalized fat tree, innermost level first; the last subtree may be partly empty.
/// Ohring, Ibel, Das and Kumar, "On generalized fat trees", IPPS 1995; the
/// choice by destination is D-mod-k, Zahavi, "D-Mod-K routing providing
/// non-blocking traffic for shift permutations on real life fat trees", 2010.
/// Requires that the levels' `down` multiply to `ends` or more.
[[nodiscard]] std::unique_ptr<Topology> fat_tree(std::uint32_t ends, std::vector<TreeLevel> levels);

/// A torus with a number of ends along each dimension (a size of 2 has one cable, so 2 x 2 x ... is a hypercube).
/// Routes go along one dimension after another, the shorter way round.
[[nodiscard]] std::unique_ptr<Topology> torus(std::vector<std::uint32_t> sizes, Link link);

/// Groups of routers, each router linked to all others of its group, each group
/// to every other one.  Kim, Dally, Scott and Abts, "Technology-driven,
/// highly-scalable dragonfly topology", ISCA 2008; minimal routes only.
struct Dragonfly {
  std::uint32_t groups = 1;        ///< g
  std::uint32_t routers = 1;       ///< a, of a group
  std::uint32_t ends = 1;          ///< p, of a router
  std::uint32_t global_links = 1;  ///< h, of each router; g - 1 <= a h
  Link link, global;
  friend bool operator==(const Dragonfly&, const Dragonfly&) = default;
};
[[nodiscard]] std::unique_ptr<Topology> dragonfly(const Dragonfly&);

/// One dimension of a product of networks.
struct ProductDimension {
  enum class Shape : std::uint8_t {
    ring,     ///< each end has a cable to either neighbour
    full,     ///< each end has a cable to every other
    switched  ///< each end has a cable to one switch
  };
  Shape shape = Shape::ring;
  std::uint32_t size = 1;
  Link link;  ///< one direction of one cable
  friend bool operator==(const ProductDimension&, const ProductDimension&) = default;
};
/// Ends stand at the points of a grid. Ends that differ in one coordinate alone form a ring, are all linked or share a
/// switch, as that dimension says. Messages go along one dimension after another and pass the ends between, as the
/// networks of ASTRA-sim do: Rashidi, Sridharan, Srinivasan and Krishna, "ASTRA-SIM: Enabling SW/HW co-design
/// exploration for distributed DL training platforms", ISPASS 2020.
[[nodiscard]] std::unique_ptr<Topology> product(const std::vector<ProductDimension>& dimensions);
/// Number of links of that product, at most 2^60.
[[nodiscard]] std::uint64_t links_of(const std::vector<ProductDimension>& dimensions);

/// Two vertices and the cables between them, both directions alike.
struct Wire {
  std::uint32_t a = 0, b = 0;  ///< vertices
  Link link;
  friend bool operator==(const Wire&, const Wire&) = default;
};

/// Any graph; the first `ends` of its vertices are ends, which pass nothing on. Routes have the fewest links, and among
/// those routes the narrowest link is as wide as possible. Requires a route between any two ends (see unconnected()).
[[nodiscard]] std::unique_ptr<Topology> wired(std::uint32_t ends, std::vector<std::string> vertex_names,
                                              std::vector<Wire> wires);
/// The first two ends without a route between them, as {from, to}; equal numbers where every two have one.
[[nodiscard]] Topology::Sides unconnected(std::uint32_t ends, std::uint32_t vertices, const std::vector<Wire>& wires);

}  // namespace orrery
