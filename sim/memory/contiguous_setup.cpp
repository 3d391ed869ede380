#include "sim/memory/contiguous_setup.hpp"

#include <algorithm>
#include <map>

#include "sim/memory/tensor_name.hpp"

namespace orrery {
namespace {

enum class Part : std::uint8_t { tensor, weights, gradients, copy, master, moment, other };

std::uint64_t name_of(Part part, std::uint64_t number) {
  return tensor_name(NameOwner::contiguous, std::uint64_t{static_cast<std::uint8_t>(part)} << 48U | number);
}

bool cuts(const Shard& shard, Axis axis) {
  return std::any_of(shard.dims.begin(), shard.dims.begin() + shard.rank,
                     [&](const ShardDim& d) { return contains(d.split, axis); });
}

}  // namespace

ContiguousSetup::ContiguousSetup(const Program& program, std::uint32_t rank_class)
    : program_(program), ranks_(program.classes[rank_class]) {
  for (const Slot& slot : ranks_.setup) {
    for (std::uint32_t r = 0; r < slot.repeat; ++r) {
      for (const Op& op : program_[slot.block].ops) {
        const auto* alloc = std::get_if<Alloc>(&op.action);
        if (alloc != nullptr && program_[alloc->what].tier == Tier::device) read(program_[alloc->what]);
      }
    }
  }
}

void ContiguousSetup::read(const Buffer& b) {
  switch (b.role) {
    case Role::weight: break;
    case Role::gradient: gradient_ = b.dtype; return;
    case Role::master: masters_ = true; return;
    case Role::moment:
      if (moments_.size() < 2) moments_.push_back(b.dtype);
      return;
    default:
      if (bytes_of(b) > 0) others_.push_back(bytes_of(b));
      return;
  }
  // Weights that stay as they are take part in no contiguous piece.
  const bool trained = std::any_of(program_.buffers.begin(), program_.buffers.end(), [&](const Buffer& o) {
    return o.role == Role::gradient && o.parameters == b.parameters;
  });
  if (!trained) {
    others_.push_back(bytes_of(b));
    return;
  }
  weight_ = b.dtype;
  const auto shared = std::find_if(program_.buffers.begin(), program_.buffers.end(), [&](const Buffer& o) {
    return o.parameters == b.parameters && (o.role == Role::master || o.role == Role::moment);
  });
  for (const ParameterSlice& slice : program_.parameter_tables[*b.parameters].slices) {
    Tensor t{local_count(slice.shard, program_.mesh), 1};
    if (shared != program_.buffers.end()) {
      for (const Axis axis : shared->flat_split) {
        if (!cuts(slice.shard, axis)) t.share *= program_.mesh.size(axis);
      }
    }
    const bool experts = slice.name.find("experts.") != std::string::npos;
    const std::uint64_t each = experts ? box_of(slice.shard, program_.mesh, Rank{0}).extent[0] : 1;
    t.elements /= each;
    tensors_.insert(tensors_.end(), each, t);
  }
}

void ContiguousSetup::setup(MemoryPlayer& player) {
  const auto compute = [&](bool alloc, Part part, std::uint64_t number, std::uint64_t bytes) {
    player(alloc, name_of(part, number), bytes);
  };
  std::map<std::uint64_t, std::uint64_t> groups;  // elements, by ranks that share them out
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    compute(true, Part::tensor, i, tensors_[i].elements * size_of(weight_));
    groups[tensors_[i].share] += tensors_[i].elements;
  }
  for (const auto& [share, elements] : groups) {
    compute(true, Part::weights, share, elements * size_of(weight_));
    compute(true, Part::gradients, share, elements * size_of(gradient_));
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].share == share) compute(false, Part::tensor, i, tensors_[i].elements * size_of(weight_));
    }
  }
  for (const auto& [share, elements] : groups) {
    std::uint64_t left = elements / share;
    for (std::size_t i = tensors_.size(); i-- > 0 && left > 0;) {
      if (tensors_[i].share != share) continue;
      const std::uint64_t part = std::min(left, tensors_[i].elements);
      left -= part;
      states_.push_back(part);
      if (!masters_) continue;
      compute(true, Part::copy, i, part * size_of(weight_));
      compute(true, Part::master, i, part * size_of(DType::f32));
      compute(false, Part::copy, i, part * size_of(weight_));
    }
  }
  for (std::size_t i = 0; i < others_.size(); ++i) compute(true, Part::other, i, others_[i]);
}

void ContiguousSetup::first_update(MemoryPlayer& player) const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      player(true, name_of(Part::moment, i * 2 + m), states_[i] * size_of(moments_[m]));
    }
  }
}

}  // namespace orrery
