#pragma once

#include <cstdint>

#include "sim/net/fabric.hpp"

namespace orrery::test {

/// Nodes of `per_node` GPUs, each with a link of its own to the others, joined by a network of any shape: a star, a fat
/// tree with and without oversubscription, a fat tree by rails, a torus; with one NIC to a node or one to a GPU, and
/// sometimes with degraded links. `seed` is always the seed of the degradation, too.
[[nodiscard]] Fabric random_fabric(std::uint64_t seed, std::uint32_t nodes, std::uint32_t per_node);

}  // namespace orrery::test
