#pragma once

#include <vector>

#include "exec/kernels/cuda/cudnn/attention_shape.hpp"

namespace orrery::test {

/// Attention by its definition, in double, for all calls of a shape. It knows operands by cuDNN's strides alone, and
/// masks as cuDNN documents: a bound to the right of the diagonal for causal attention, and one to the left that counts
/// the diagonal itself. The diagonal ends at the last query and the last key.
void attend_by_strides(const cudnn::AttentionShape&, const cudnn::AttentionOperands&);

}  // namespace orrery::test
