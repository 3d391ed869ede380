#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

/// Memory that kernels need inside one call: converted copies of 16-bit operands, one head's queries, a table of
/// rotation angles. It grows to the largest request and stays. Each rank has one; it is no part of a Program's buffers,
/// and a run reports it separately.
class KernelScratch {
 public:
  /// `count` elements in numbered place `slot`; valid until the next request for the same slot. The memory is aligned
  /// to 64 bytes, and its contents are undefined.
  template <class T>
  [[nodiscard]] T* get(std::size_t slot, std::uint64_t count) {
    return static_cast<T*>(raw(slot, count * sizeof(T)));
  }

  /// Cosine and sine of position * frequency, times the scale: interleaved pairs, [positions, frequencies, 2]. The
  /// table is kept until other values are asked for.
  [[nodiscard]] const double* rotations(const Rotation&, std::uint64_t positions);

  /// Bytes held now.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Deleter {
    void operator()(std::byte* p) const;
  };
  struct Place {
    std::unique_ptr<std::byte[], Deleter> memory;
    std::uint64_t bytes = 0;
  };
  void* raw(std::size_t slot, std::uint64_t bytes);

  std::vector<Place> places_;
  std::vector<double> rotations_;
  Rotation by_;
};

}  // namespace orrery
