#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/program/kernel.hpp"
#include "exec/kernels/device/on_device.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

/// The part of the vocabulary whose logits a rank has: entries
/// [first, first + valid); the columns beyond are padding, whose logits count
/// as minus infinity.
struct VocabularyPart {
  std::int64_t first = 0;
  std::uint64_t valid = 0;

  VocabularyPart(const Kernel& k, const Place& logits) : valid(k.columns) {
    if (logits.shard == nullptr) return;
    const std::size_t last = logits.shard->rank - 1U;
    const std::uint64_t begin = logits.box.offset[last];
    const std::uint64_t whole = logits.shard->dims[last].valid;
    first = static_cast<std::int64_t>(begin);
    valid = whole > begin ? std::min(k.columns, whole - begin) : 0;
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool holds(std::int64_t entry) const {
    return entry >= first && entry < first + static_cast<std::int64_t>(valid);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t column(std::int64_t entry) const {
    return static_cast<std::uint64_t>(entry - first);
  }
};

}  // namespace orrery
