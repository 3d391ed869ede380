#include "sim/memory/fsdp_memory.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr std::uint32_t root = 0xffffffU;  // beside numbers of layers

std::uint64_t bytes_16(const Buffer& b) { return b.count * size_of(DType::bf16); }

}  // namespace

std::uint64_t FsdpMemory::name_of(Part part, std::uint32_t unit, std::uint32_t number) {
  return std::uint64_t{1} << 63U | std::uint64_t{static_cast<std::uint8_t>(part)} << 56U |
         std::uint64_t{number} << 24U | unit;
}

FsdpMemory::FsdpMemory(const HeldMemory& memory, std::uint32_t rank_class, std::uint64_t kept_products)
    : memory_(memory), program_(memory.program()), ranks_(program_.classes[rank_class]), kept_products_(kept_products) {
  read_tables();
}

bool FsdpMemory::is_root(const Buffer& b) const {
  return b.parameters && !of_layers(program_.parameter_tables[*b.parameters]);
}

/// Of the unsharded gradients, which are in the weights' type.
std::uint64_t FsdpMemory::weight_bytes(const Buffer& gradient) const {
  for (const Buffer& b : program_.buffers) {
    if (b.role == Role::weight && b.parameters == gradient.parameters) return gradient.count * size_of(b.dtype);
  }
  return bytes_16(gradient);
}

void FsdpMemory::read_tables() {
  const auto each = [&](const std::vector<Slot>& slots, auto&& visit) {
    std::set<BlockId> seen;
    for (const Slot& slot : slots) {
      if (!seen.insert(slot.block).second) continue;
      for (const Op& op : program_[slot.block].ops) {
        if (const auto* alloc = std::get_if<Alloc>(&op.action))
          visit(slot.block, true, alloc->what, alloc->layer_shift);
        if (const auto* free = std::get_if<Free>(&op.action)) visit(slot.block, false, free->what, free->layer_shift);
      }
    }
  };
  each(ranks_.setup, [&](BlockId, bool, BufferId what, int) {
    const Buffer& b = program_[what];
    persistent_.insert(what);
    if (b.role == Role::gradient && is_root(b)) root_shards_ += bytes_of(b);
  });
  uses_.resize(program_.blocks.size());
  std::set<BufferId> of_root;
  each(ranks_.step, [&](BlockId block, bool alloc, BufferId what, int shift) {
    const Buffer& b = program_[what];
    if (b.role == Role::weight && !is_root(b) && !alloc && shift == 0) {
      uses_[index(block)] = {what, program_[block].pass == Pass::forward};
    }
    if (!is_root(b) || persistent_.contains(what) || !of_root.insert(what).second) return;
    if (b.role == Role::weight) root_weights_ += bytes_of(b);
    if (b.role == Role::gradient) root_gradients_ += bytes_of(b);
  });
}

void FsdpMemory::gather(std::uint32_t unit, std::uint64_t bytes, const MemoryVisit& visit) {
  if (whole_.contains(unit) || !gathered_.emplace(unit, Output{bytes, false}).second) return;
  visit(true, name_of(Part::gathered, unit), bytes, StreamPool::gathers);
}

/// Outputs that were copied before go.
void FsdpMemory::copied_out(std::uint32_t unit, const MemoryVisit& visit) {
  std::erase_if(gathered_, [&](const auto& output) {
    if (!output.second.copied) return false;
    visit(false, name_of(Part::gathered, output.first), output.second.bytes, StreamPool::gathers);
    return true;
  });
  if (const auto output = gathered_.find(unit); output != gathered_.end()) output->second.copied = true;
  whole_.insert(unit);
}

void FsdpMemory::begin_block(const Use& use, std::uint32_t layer, const MemoryVisit& visit) {
  if (!use.weights || whole_.contains(layer)) return;
  const std::uint64_t bytes = bytes_of(program_[*use.weights]);
  gather(layer, bytes, visit);
  visit(true, name_of(Part::weights, layer), bytes, StreamPool::compute);
  copied_out(layer, visit);
}

void FsdpMemory::end_block(const Use& use, std::uint32_t layer, std::uint32_t microbatch, const MemoryVisit& visit) {
  if (!use.weights) return;
  if (kept_products_ > 0) {
    visit(use.forward, name_of(Part::kept, layer, microbatch), kept_products_, StreamPool::compute);
  }
  if (use.forward && layer + 1 == program_.layers) return;
  visit(false, name_of(Part::weights, layer), bytes_of(program_[*use.weights]), StreamPool::compute);
  whole_.erase(layer);
}

void FsdpMemory::reduce(std::uint32_t unit, std::uint64_t bytes, std::uint64_t shard, const MemoryVisit& visit) {
  const Tensor input{name_of(Part::reduction, unit, ++reductions_), bytes};
  visit(true, input.name, input.bytes, StreamPool::compute);
  for (const Tensor& t : gradients_[unit]) visit(false, t.name, t.bytes, StreamPool::compute);
  gradients_.erase(unit);
  if (reduction_) visit(false, reduction_->name, reduction_->bytes, StreamPool::compute);
  reduction_ = input;
  if (shards_.emplace(unit, shard).second) {
    visit(true, name_of(Part::shard, unit), shard, StreamPool::reductions);
  } else {  // added to what earlier microbatches left
    visit(true, name_of(Part::shard, unit, 1), shard, StreamPool::reductions);
    visit(false, name_of(Part::shard, unit, 1), shard, StreamPool::reductions);
  }
}

void FsdpMemory::on_event(bool alloc, const TensorId& id, std::uint64_t bytes, const MemoryVisit& visit) {
  const BufferId what = id.instance.buffer;
  const Buffer* b = id.own ? nullptr : &program_[what];
  if (b == nullptr || (b->role != Role::weight && b->role != Role::gradient) || persistent_.contains(what)) {
    visit(alloc, HeldMemory::name_of(id), bytes, StreamPool::compute);
    return;
  }
  if (b->role == Role::weight) {
    if (alloc && !is_root(*b)) gather(id.instance.layer, bytes, visit);
    return;
  }
  const std::uint32_t unit = is_root(*b) ? root : id.instance.layer;
  if (alloc) {
    const Tensor t{name_of(Part::gradients, unit, index(what)), weight_bytes(*b)};
    const std::vector<Tensor>& held = gradients_[unit];
    if (std::any_of(held.begin(), held.end(), [&](const Tensor& h) { return h.name == t.name; })) {
      reduce(unit, root_gradients_, root_shards_, visit);  // of the root, by the backward pass before this one
    }
    gradients_[unit].push_back(t);
    visit(true, t.name, t.bytes, StreamPool::compute);
  } else if (unit != root) {
    std::uint64_t shard = 0;
    for (const BufferId kept : persistent_) {
      const Buffer& k = program_[kept];
      if (k.role == Role::gradient && k.parameters == b->parameters) shard = bytes_of(k);
    }
    reduce(unit, bytes, shard, visit);
  }
}

void FsdpMemory::setup(const MemoryVisit& visit) {
  memory_.walk(ranks_.setup, kept_, [&](bool alloc, const TensorId& id, std::uint64_t bytes) {
    const Buffer* b = id.own ? nullptr : &program_[id.instance.buffer];
    const bool has_masters = std::any_of(persistent_.begin(), persistent_.end(),
                                         [&](BufferId p) { return program_[p].role == Role::master; });
    if (b != nullptr && (b->role == Role::gradient || (b->role == Role::weight && has_masters))) return;
    if (b != nullptr && b->role == Role::moment) {
      moments_.push_back({HeldMemory::name_of(id), bytes});
      if (b->name.ends_with("moment2")) {
        roots_.push_back({name_of(Part::square_root, static_cast<std::uint32_t>(roots_.size())), bytes});
      }
      return;
    }
    visit(alloc, HeldMemory::name_of(id), bytes, StreamPool::compute);
  });
}

void FsdpMemory::first_update(const MemoryVisit& visit) {
  for (const Tensor& t : moments_) visit(true, t.name, t.bytes, StreamPool::compute);
}

void FsdpMemory::step(const MemoryVisit& visit) {
  for (const auto& [unit, bytes] : shards_) visit(false, name_of(Part::shard, unit), bytes, StreamPool::reductions);
  shards_.clear();
  if (root_weights_ > 0) {
    gather(root, root_weights_, visit);
    visit(true, name_of(Part::weights, root), root_weights_, StreamPool::compute);
    copied_out(root, visit);
  }
  for (const Slot& slot : ranks_.step) {
    Slot one = slot;
    one.repeat = 1;
    const Use& use = uses_[index(slot.block)];
    for (std::uint32_t r = 0; r < slot.repeat; ++r) {
      one.layer = static_cast<std::uint32_t>(static_cast<std::int64_t>(slot.layer) +
                                             static_cast<std::int64_t>(r) * slot.layer_step);
      begin_block(use, one.layer, visit);
      memory_.walk({one}, kept_,
                   [&](bool alloc, const TensorId& id, std::uint64_t bytes) { on_event(alloc, id, bytes, visit); });
      end_block(use, one.layer, one.microbatch, visit);
    }
  }
  if (root_weights_ > 0) visit(false, name_of(Part::weights, root), root_weights_, StreamPool::compute);
  if (root_gradients_ > 0) reduce(root, root_gradients_, root_shards_, visit);
  if (reduction_) visit(false, reduction_->name, reduction_->bytes, StreamPool::compute);
  reduction_.reset();
  for (const auto& [unit, output] : gathered_) {
    visit(false, name_of(Part::gathered, unit), output.bytes, StreamPool::gathers);
  }
  gathered_.clear();
  whole_.clear();
  for (const Tensor& t : roots_) visit(true, t.name, t.bytes, StreamPool::compute);
  for (const Tensor& t : roots_) visit(false, t.name, t.bytes, StreamPool::compute);
}

}  // namespace orrery
