#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.hpp"

namespace orrery {

/// One direction of one cable (or of the wires inside a box), numbered from 0
/// within its fabric.
enum class LinkId : std::uint32_t {};

/// What a link is made of.
enum class LinkKind : std::uint8_t { nvlink, pcie, socket, network };
inline constexpr std::size_t link_kinds = 4;

/// As files have it: "nvlink".
[[nodiscard]] const char* name_of(LinkKind);

/// One direction of a cable.
struct Link {
  LinkKind kind = LinkKind::network;
  Bandwidth bandwidth;
  Seconds latency;
  friend bool operator==(const Link&, const Link&) = default;
};

}  // namespace orrery
