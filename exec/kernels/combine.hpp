#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// sum[i] = sum[i] (+ or max) part[i] for i < count, rounded to the type.
/// 16-bit types add in f32.  Requires a floating type.
void combine(DType, Collective::Reduction, void* sum, const void* part, std::uint64_t count);

}  // namespace orrery
