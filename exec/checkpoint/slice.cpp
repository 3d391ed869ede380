#include "exec/checkpoint/slice.hpp"

#include <algorithm>

namespace orrery {

Slice slice_of(const Shard& shard, const Box& box, std::uint64_t first, std::uint64_t count) {
  Slice slice;
  for (std::size_t i = 0; i < shard.rank; ++i) {
    slice.shape.push_back(shard.dims[i].valid);
    slice.offset.push_back(box.offset[i]);
    slice.extent.push_back(box.extent[i]);
  }
  slice.first = first;
  slice.count = count;
  return slice;
}

std::uint64_t element_count(const Slice& slice) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : slice.shape) n *= extent;
  return n;
}

bool of_one_tensor(const Slice& a, const Slice& b) {
  const bool ordered = a.shape.size() <= b.shape.size();
  const std::vector<std::uint64_t>&few = ordered ? a.shape : b.shape, &many = ordered ? b.shape : a.shape;
  std::size_t at = 0;
  for (const std::uint64_t extent : few) {
    std::uint64_t joined = 1;
    do {
      if (at == many.size()) return false;
      joined *= many[at++];
    } while (joined < extent);
    if (joined != extent) return false;
  }
  return at == many.size();
}

void for_each_stretch(const Slice& slice,
                      const std::function<void(std::uint64_t, std::uint64_t, std::uint64_t)>& visit) {
  const std::size_t dims = slice.shape.size();
  std::uint64_t local = 0;
  while (local < slice.count) {
    // The stretch goes from here to the end of the box's innermost row, or of the slice.
    std::uint64_t at = slice.first + local;
    const std::uint64_t inner = dims == 0 ? 1 : slice.extent[dims - 1];
    const std::uint64_t run = std::min(slice.count - local, inner - at % inner);
    std::uint64_t global = 0, stride = 1, valid = run;
    for (std::size_t i = dims; i-- > 0;) {
      const std::uint64_t here = slice.offset[i] + at % slice.extent[i];
      if (here >= slice.shape[i]) valid = 0;
      if (i + 1 == dims && valid > 0) valid = std::min(valid, slice.shape[i] - here);
      global += here * stride;
      stride *= slice.shape[i];
      at /= slice.extent[i];
    }
    if (valid > 0) visit(global, local, valid);
    local += run;
  }
}

}  // namespace orrery
