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

const double* KernelScratch::rotations(double theta, std::uint32_t head_dim, std::uint64_t positions) {
  const std::uint64_t half = head_dim / 2;
  if (theta_ != theta || head_dim_ != head_dim || rotations_.size() < positions * half * 2) {
    theta_ = theta;
    head_dim_ = head_dim;
    rotations_.resize(positions * half * 2);
    for (std::uint64_t position = 0; position < positions; ++position) {
      for (std::uint64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / head_dim);
        const double angle = static_cast<double>(position) * frequency;
        double* pair = rotations_.data() + (position * half + i) * 2;
        pair[0] = std::cos(angle);
        pair[1] = std::sin(angle);
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
