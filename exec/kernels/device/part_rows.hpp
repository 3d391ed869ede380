#pragma once

#include <limits>

#include "exec/kernels/device/launcher.hpp"

/// What is left to do around attention on brought keys that a library computed.
namespace orrery::device {

/// to (=, +=) from, or zeros where that has no memory.
struct MovedElements {
  Elements from, to;
  std::uint64_t count = 0;
  bool add = false;

  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const float value = from.data != nullptr ? from.load<float>(i) : 0.0F;
    to.store(i, add ? to.load<float>(i) + value : value);
  }
};

/// Row sums of `count` queries of every head from one operand to another, or those of queries that see no key where
/// `from` has no memory. From head to head it is `step` elements.
struct MovedSums {
  struct Rows {
    Elements x;
    std::uint64_t step = 0;
  };
  Rows from, to;
  std::uint64_t heads = 0, count = 0;

  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t head = i / count, query = i % count;
    to.x.store(head * to.step + query, from.x.data != nullptr ? from.x.load<float>(head * from.step + query)
                                                              : -std::numeric_limits<float>::infinity());
  }
};

/// What a call of a library needs beside itself, on its stream.
class AroundLibrary {
 public:
  AroundLibrary() = default;
  virtual ~AroundLibrary() = default;
  AroundLibrary(const AroundLibrary&) = delete;
  AroundLibrary& operator=(const AroundLibrary&) = delete;
  /// Memory for one kernel's own use, void at the next kernel. Throws Error where there is none; as much as was had
  /// once is there again.
  [[nodiscard]] virtual void* scratch(std::uint64_t bytes) = 0;
  virtual void move(const MovedElements&) = 0;
  virtual void move(const MovedSums&) = 0;
};

template <class Launcher>
void launch(Launcher& l, const MovedElements& x) {
  for_each(l, x.count, x);
}
template <class Launcher>
void launch(Launcher& l, const MovedSums& x) {
  if (x.count > 0) for_each(l, x.heads * x.count, x);
}

}  // namespace orrery::device
