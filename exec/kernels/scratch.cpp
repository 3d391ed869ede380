#include "exec/kernels/scratch.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace orrery {

namespace {
constexpr std::align_val_t alignment{64};
}

void KernelScratch::Deleter::operator()(std::byte* p) const { ::operator delete[](p, alignment); }

void* KernelScratch::raw(std::size_t slot, std::uint64_t bytes) {
  if (slot >= places_.size()) places_.resize(slot + 1);
  Place& place = places_[slot];
  if (place.bytes < bytes || place.memory == nullptr) {
    const std::uint64_t size = std::max<std::uint64_t>(64, bytes);
    place.memory.reset();
    place.memory.reset(static_cast<std::byte*>(::operator new[](size, alignment)));
    place.bytes = size;
  }
  return place.memory.get();
}

const double* KernelScratch::rotations(const Rotation& by, std::uint64_t positions) {
  const std::uint64_t half = by.frequencies.size();
  if (by != by_ || rotations_.size() < positions * half * 2) {
    by_ = by;
    rotations_.resize(positions * half * 2);
    for (std::uint64_t position = 0; position < positions; ++position) {
      for (std::uint64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * by.frequencies[i];
        double* pair = rotations_.data() + (position * half + i) * 2;
        pair[0] = by.scale * std::cos(angle);
        pair[1] = by.scale * std::sin(angle);
      }
    }
  }
  return rotations_.data();
}

std::uint64_t KernelScratch::bytes() const {
  std::uint64_t total = rotations_.capacity() * sizeof(double);
  for (const Place& place : places_) total += place.bytes;
  return total;
}

}  // namespace orrery
