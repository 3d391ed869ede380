#pragma once

#include "core/base/diagnostics.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Largest token file: it is held in memory as a whole.
inline constexpr std::uint64_t max_data_bytes = std::uint64_t{4} << 30;

/// Whether the workload's token file can be used for training, as far as the workload alone tells. It must be a regular
/// file that can be read, of at least sequence + 1 and at most max_data_bytes bytes. True when the workload names no
/// file. Code: workload.data
[[nodiscard]] bool check_data(const Workload&, Diagnostics&);

/// Whether every token of the file, one byte each, is in the model's
/// vocabulary.  Requires check_data().  Code: workload.data
[[nodiscard]] bool check_data_tokens(const Workload&, const ModelSpec&, Diagnostics&);

}  // namespace orrery
