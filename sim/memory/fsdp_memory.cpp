#include "sim/memory/fsdp_memory.hpp"

#include <algorithm>

#include "sim/memory/tensor_name.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t root = 0xffffffU;  // beside numbers of layers, in 24 bits

std::uint64_t bytes_16(const Buffer& b) { return b.count * size_of(DType::bf16); }

}  // namespace

std::uint64_t FsdpMemory::name_of(Part part, std::uint32_t unit, std::uint32_t number) {
  return tensor_name(NameOwner::fsdp,
                     std::uint64_t{static_cast<std::uint8_t>(part)} << 48U | std::uint64_t{unit} << 24U | number) |
         (part == Part::kept ? of_microbatch : 0);
}

FsdpMemory::FsdpMemory(const HeldMemory& memory, std::uint32_t rank_class, std::uint64_t kept_products)
    : memory_(memory), program_(memory.program()), ranks_(program_.classes[rank_class]), kept_products_(kept_products) {
  read_tables();
}

bool FsdpMemory::is_root(const Buffer& b) const {
  return b.parameters && !of_layers(program_.parameter_tables[*b.parameters]);
}

/// Bytes of the unsharded gradients, which are in the weights' type.
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
      Use& use = uses_[index(block)];  // adapters go with the weights beside them
      if (!use.weights || bytes_of(program_[*use.weights]) < bytes_of(b)) {
        use = {what, program_[block].pass == Pass::forward};
      }
    }
    if (!is_root(b) || persistent_.contains(what) || !of_root.insert(what).second) return;
    if (b.role == Role::weight) root_weights_ += bytes_of(b);
    if (b.role == Role::gradient) root_gradients_ += bytes_of(b);
  });
}

void FsdpMemory::gather(std::uint32_t unit, std::uint64_t bytes, MemoryPlayer& player) {
  if (whole_.contains(unit) || !gathered_.emplace(unit, Output{bytes, false}).second) return;
  player(true, name_of(Part::gathered, unit), bytes, StreamPool::gathers);
}

/// Frees the outputs that were copied before.
void FsdpMemory::copied_out(std::uint32_t unit, MemoryPlayer& player) {
  std::erase_if(gathered_, [&](const auto& output) {
    if (!output.second.copied) return false;
    player(false, name_of(Part::gathered, output.first), output.second.bytes, StreamPool::gathers);
    return true;
  });
  if (const auto output = gathered_.find(unit); output != gathered_.end()) output->second.copied = true;
  whole_.insert(unit);
}

void FsdpMemory::begin_block(const Use& use, std::uint32_t layer, MemoryPlayer& player) {
  if (!use.weights || whole_.contains(layer)) return;
  const std::uint64_t bytes = bytes_of(program_[*use.weights]);
  gather(layer, bytes, player);
  player(true, name_of(Part::weights, layer), bytes);
  copied_out(layer, player);
}

void FsdpMemory::end_block(const Use& use, std::uint32_t layer, std::uint32_t microbatch, MemoryPlayer& player) {
  if (!use.weights) return;
  if (kept_products_ > 0) {
    player(use.forward, name_of(Part::kept, layer, microbatch), kept_products_);
  }
  if (use.forward && layer + 1 == program_.layers) return;
  player(false, name_of(Part::weights, layer), bytes_of(program_[*use.weights]));
  whole_.erase(layer);
}

void FsdpMemory::reduce(std::uint32_t unit, std::uint64_t bytes, std::uint64_t shard, MemoryPlayer& player) {
  const std::uint64_t name = name_of(Part::reduction, unit);
  const Tensor input{reduction_ && reduction_->name == name ? name_of(Part::reduction, unit, 1) : name, bytes};
  player(true, input.name, input.bytes);
  for (const Tensor& t : gradients_[unit]) player(false, t.name, t.bytes);
  gradients_.erase(unit);
  if (reduction_) player(false, reduction_->name, reduction_->bytes);
  reduction_ = input;
  if (shards_.emplace(unit, shard).second) {
    player(true, name_of(Part::shard, unit), shard, StreamPool::reductions);
  } else {  // added to what earlier microbatches left
    player(true, name_of(Part::shard, unit, 1), shard, StreamPool::reductions);
    player(false, name_of(Part::shard, unit, 1), shard, StreamPool::reductions);
  }
}

void FsdpMemory::on_event(bool alloc, std::uint64_t name, std::uint64_t bytes, MemoryPlayer& player) {
  const TensorId id = memory_.tensor_of(name);
  const BufferId what = id.instance.buffer;
  const Buffer* b = id.own ? nullptr : &program_[what];
  if (b == nullptr || (b->role != Role::weight && b->role != Role::gradient) || persistent_.contains(what)) {
    player(alloc, name, bytes);
    return;
  }
  if (b->role == Role::weight) {
    if (alloc && !is_root(*b)) gather(id.instance.layer, bytes, player);
    return;
  }
  const std::uint32_t unit = is_root(*b) ? root : id.instance.layer;
  if (alloc) {
    const Tensor t{name_of(Part::gradients, unit, index(what)), weight_bytes(*b)};
    const std::vector<Tensor>& held = gradients_[unit];
    if (std::any_of(held.begin(), held.end(), [&](const Tensor& h) { return h.name == t.name; })) {
      reduce(unit, root_gradients_, root_shards_, player);  // of the root, from the backward pass before this one
    }
    gradients_[unit].push_back(t);
    player(true, t.name, t.bytes);
  } else if (unit != root) {
    std::uint64_t shard = 0;
    for (const BufferId kept : persistent_) {
      const Buffer& k = program_[kept];
      if (k.role == Role::gradient && k.parameters == b->parameters) shard = bytes_of(k);
    }
    reduce(unit, bytes, shard, player);
  }
}

void FsdpMemory::setup(MemoryPlayer& player) {
  memory_.walk(ranks_.setup, kept_, [&](bool alloc, std::uint64_t name, std::uint64_t bytes) {
    const TensorId id = memory_.tensor_of(name);
    const Buffer* b = id.own ? nullptr : &program_[id.instance.buffer];
    const bool has_masters = b != nullptr && std::any_of(persistent_.begin(), persistent_.end(), [&](BufferId p) {
                               return program_[p].role == Role::master && program_[p].parameters == b->parameters;
                             });
    if (b != nullptr && (b->role == Role::gradient || (b->role == Role::weight && has_masters))) return;
    if (b != nullptr && b->role == Role::moment) {
      moments_.push_back({name, bytes});
      if (b->name.ends_with("moment2")) {
        roots_.push_back({name_of(Part::square_root, static_cast<std::uint32_t>(roots_.size())), bytes});
      }
      return;
    }
    player(alloc, name, bytes);
  });
}

void FsdpMemory::first_update(MemoryPlayer& player) {
  for (const Tensor& t : moments_) player(true, t.name, t.bytes);
}

void FsdpMemory::begin(MemoryPlayer& player) {
  for (const auto& [unit, bytes] : shards_) player(false, name_of(Part::shard, unit), bytes, StreamPool::reductions);
  shards_.clear();
  if (root_weights_ > 0) {
    gather(root, root_weights_, player);
    player(true, name_of(Part::weights, root), root_weights_);
    copied_out(root, player);
  }
}

void FsdpMemory::run(const Slot& slot, MemoryPlayer& player) {
  const Use& use = uses_[index(slot.block)];
  for (std::uint32_t r = 0; r < slot.repeat; ++r) {
    const std::uint32_t layer = layer_of(slot, r);
    begin_block(use, layer, player);
    memory_.walk(slot.block, layer, slot.microbatch, kept_,
                 [&](bool alloc, std::uint64_t name, std::uint64_t bytes) { on_event(alloc, name, bytes, player); });
    end_block(use, layer, slot.microbatch, player);
  }
}

void FsdpMemory::end(MemoryPlayer& player) {
  if (root_weights_ > 0) player(false, name_of(Part::weights, root), root_weights_);
  if (root_gradients_ > 0) reduce(root, root_gradients_, root_shards_, player);
  if (reduction_) player(false, reduction_->name, reduction_->bytes);
  reduction_.reset();
  for (const auto& [unit, output] : gathered_) {
    player(false, name_of(Part::gathered, unit), output.bytes, StreamPool::gathers);
  }
  gathered_.clear();
  whole_.clear();
  for (const Tensor& t : roots_) player(true, t.name, t.bytes);
  for (const Tensor& t : roots_) player(false, t.name, t.bytes);
}

/// Tensors are live under their names. The names do not tell their order, which copies were made and which shard is
/// there, so that is written here.
void FsdpMemory::write_state(std::vector<std::uint64_t>& out) const {
  for (const auto& [unit, output] : gathered_) out.insert(out.end(), {unit, output.copied ? 1U : 0U});
  out.push_back(gathered_.size());
  out.insert(out.end(), whole_.begin(), whole_.end());
  out.push_back(whole_.size());
  for (const auto& [unit, tensors] : gradients_) {
    for (const Tensor& t : tensors) out.push_back(t.name);
    out.insert(out.end(), {tensors.size(), unit});
  }
  out.push_back(gradients_.size());
  for (const auto& [unit, bytes] : shards_) out.insert(out.end(), {unit, bytes});
  out.push_back(shards_.size());
  if (reduction_) out.insert(out.end(), {reduction_->name, reduction_->bytes});
}

}  // namespace orrery
