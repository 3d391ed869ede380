#pragma once

#include <cstdint>
#include <string>

#include "core/base/units.hpp"

namespace orrery {

/// The channels that NCCL's search found for communicators of one size: `orrery import` reads them from the graphs that
/// it dumps and from its log.
struct ChannelGraph {
  enum class Kind : std::uint8_t { ring, tree, nvls };
  Kind kind = Kind::ring;
  std::uint32_t ranks = 2;     ///< of the communicator
  std::uint32_t nodes = 1;     ///< that hold one of them
  std::uint32_t channels = 1;  ///< all alike
  Bandwidth inside;            ///< of one channel within a node
  Bandwidth between;           ///< of one channel between nodes; as `inside` on one node
  std::string source;
  friend bool operator==(const ChannelGraph&, const ChannelGraph&) = default;
};

}  // namespace orrery
