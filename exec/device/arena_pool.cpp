#include "exec/device/arena_pool.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

std::uint64_t rounded(std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, (bytes + ArenaPool::alignment - 1) / ArenaPool::alignment) * ArenaPool::alignment;
}

void raise(ArenaPool::Marks& marks, const ArenaPool::Marks& to) {
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = std::max(marks[i], to[i]);
}

}  // namespace

ArenaPool::ArenaPool(Source source, std::uint64_t chunk_bytes, std::size_t lanes)
    : source_(std::move(source)), chunk_bytes_(rounded(chunk_bytes)), lanes_(lanes) {}

ArenaPool::~ArenaPool() {
  for (std::byte* chunk : chunks_) source_.give_back(chunk);
}

std::byte* ArenaPool::take(std::uint64_t bytes) {
  const std::uint64_t size = rounded(bytes);
  auto fit = free_.lower_bound({size, nullptr});
  if (fit == free_.end()) {
    std::uint64_t whole = std::max(size, chunk_bytes_);
    std::byte* chunk = source_.take(whole);
    if (chunk == nullptr && whole > size) chunk = source_.take(whole = size);
    if (chunk == nullptr) return nullptr;
    reserved_ += whole;
    const Marks none(lanes_, 0);
    keep(blocks_.emplace(chunk, Block{whole, chunks_.size(), true, {none, none}}).first);
    chunks_.push_back(chunk);
    fit = free_.lower_bound({size, nullptr});
  }
  const auto block = blocks_.find(fit->second);
  free_.erase(fit);
  if (block->second.bytes > size) {
    Block rest = block->second;
    rest.bytes -= size;
    block->second.bytes = size;
    keep(blocks_.emplace(block->first + size, std::move(rest)).first);
  }
  block->second.free = false;
  out_ += bytes;
  peak_ = std::max(peak_, out_);
  return const_cast<std::byte*>(block->first);
}

void ArenaPool::give_back(std::byte* data, std::uint64_t bytes) {
  const auto block = blocks_.find(data);
  ORRERY_ASSERT(block != blocks_.end() && !block->second.free, bytes);
  out_ -= bytes;
  block->second.free = true;
  raise(block->second.use.before, block->second.use.used);
  block->second.use.used.assign(lanes_, 0);
  keep(block);
  merge_with_next(block);
  if (block != blocks_.begin()) merge_with_next(std::prev(block));
}

ArenaPool::Use& ArenaPool::use(const std::byte* data) {
  const auto block = blocks_.find(data);
  ORRERY_ASSERT(block != blocks_.end() && !block->second.free);
  return block->second.use;
}

void ArenaPool::settle() {
  for (auto& [address, block] : blocks_) {
    block.use.before.assign(lanes_, 0);
    block.use.used.assign(lanes_, 0);
  }
}

void ArenaPool::keep(Blocks::iterator block) { free_.insert({block->second.bytes, block->first}); }

// Does nothing unless both are free parts of one chunk.
void ArenaPool::merge_with_next(Blocks::iterator block) {
  const auto next = std::next(block);
  if (next == blocks_.end() || !block->second.free || !next->second.free) return;
  if (block->second.chunk != next->second.chunk) return;
  free_.erase({block->second.bytes, block->first});
  free_.erase({next->second.bytes, next->first});
  block->second.bytes += next->second.bytes;
  raise(block->second.use.before, next->second.use.before);
  blocks_.erase(next);
  keep(block);
}

}  // namespace orrery
