#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/net/topology.hpp"

namespace orrery {

/// Ways through a topology of which some links have failed.
///
/// A switch that loses a link spreads its traffic over the shortest ways that are left, as routing protocols do once
/// they have settled: by destination or by hash, like every other message. One way costs a search over the whole
/// topology, so only messages whose own way is broken ask.
class Detour {
 public:
  explicit Detour(const Topology&);

  /// Appends the links of a shortest path that avoids links for which `failed` returns true; returns false where there
  /// is none.
  [[nodiscard]] bool route(std::uint32_t from, std::uint32_t to, const PathChoice&,
                           const std::function<bool(std::uint32_t)>& failed, std::vector<std::uint32_t>& into) const;

 private:
  /// Links grouped by one of their vertices.
  struct Links {
    std::vector<std::uint32_t> first;  ///< [vertex], and one more
    std::vector<std::uint32_t> link;
  };
  template <class Side>
  [[nodiscard]] Links by(Side) const;
  [[nodiscard]] bool passes_on(std::uint32_t vertex) const;

  const Topology& topology_;
  Links into_, out_;
};

}  // namespace orrery
