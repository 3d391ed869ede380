#pragma once

#include <cstdint>
#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Pieces in which Liger's fused head and loss makes the logits.
///
///     n = ceil(T / c),  c = 2^ceil(log2 ceil(T / ceil(V / h)))
///
/// T positions of a rank's microbatch, V vocabulary, h hidden width, c positions of a piece.  Source: Hsu et al.,
/// "Liger Kernel", arXiv 2410.10989, and linkedin/Liger-Kernel src/liger_kernel/ops/fused_linear_cross_entropy.py.
[[nodiscard]] std::uint64_t liger_pieces(std::uint64_t positions, std::uint64_t vocabulary, std::uint64_t hidden);

/// The key asks for a loss in `pieces`. The plan has the most, up to these, that divide a rank's sequence. Sizes come
/// before.
void put_loss_pieces(LaunchReading&, std::string_view from, std::uint64_t pieces);
/// The key asks for Liger's loss, in its pieces. Sizes and the model come before.
void put_liger_loss(LaunchReading&, std::string_view from);
/// The key asks for a loss whose logits never leave the kernel (Cut Cross-Entropy): refused, the nearest is 16 pieces.
void refuse_fused_loss(LaunchReading&, std::string_view from);

}  // namespace orrery
