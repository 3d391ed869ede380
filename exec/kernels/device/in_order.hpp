#pragma once

#include <cstdint>

#include "exec/kernels/device/launcher.hpp"

/// Numbers items of a list by a rule that only the device can look up, in the list's order and without atomics, so that
/// a GPU repeats bit for bit.
namespace orrery::device {

/// For each `row`, a block looks through the items i < items and calls
///     f.put(row, rank, i)   for those with f.matches(row, i), where rank counts the matching items before i
///     f.total(row, count)   once
/// Each thread has a part of the list. It counts its matches, and the counts of earlier threads say where its own
/// begin.
template <class F>
struct InOrder {
  F f;
  std::uint64_t items;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    auto* counts = b.template shared<std::uint32_t>();
    const std::uint64_t first = items * b.thread() / b.threads(), end = items * (b.thread() + 1) / b.threads();
    std::uint32_t mine = 0;
    for (std::uint64_t i = first; i < end; ++i) mine += f.matches(row, i) ? 1 : 0;
    counts[b.thread()] = mine;
    b.sync();
    std::uint32_t rank = 0;
    for (std::uint32_t t = 0; t < b.thread(); ++t) rank += counts[t];
    if (b.thread() + 1 == b.threads()) f.total(row, rank + mine);
    for (std::uint64_t i = first; i < end; ++i) {
      if (f.matches(row, i)) f.put(row, rank++, i);
    }
  }
};

template <class Launcher, class F>
void in_order(Launcher& l, std::uint64_t rows, std::uint64_t items, F f) {
  for_each_row(l, rows, InOrder<F>{f, items}, usual_threads, usual_threads * sizeof(std::uint32_t));
}

}  // namespace orrery::device
