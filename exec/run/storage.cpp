#include "exec/run/storage.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr std::align_val_t alignment{64};

std::uint64_t rounded(std::uint64_t bytes) { return std::max<std::uint64_t>(64, (bytes + 63) / 64 * 64); }

}  // namespace

BlockPool::~BlockPool() {
  if (file_) return;  // with all its parts
  for (const auto& [size, list] : kept_) {
    for (std::byte* p : list) ::operator delete[](p, alignment);
  }
}

std::byte* BlockPool::take(std::uint64_t bytes) {
  const std::uint64_t size = rounded(bytes);
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& kept = kept_[size];
    if (!kept.empty()) {
      block = kept.back();
      kept.pop_back();
    } else {
      block = file_ ? file_->take(size) : static_cast<std::byte*>(::operator new[](size, alignment, std::nothrow));
      if (block == nullptr) return nullptr;
      reserved_ += size;
    }
    out_ += bytes;
    peak_ = std::max(peak_, out_);
  }
  if (poison_) std::memset(block, 0xff, size);
  return block;
}

void BlockPool::give_back(std::byte* block, std::uint64_t bytes) {
  if (poison_) std::memset(block, 0xff, rounded(bytes));
  const std::lock_guard lock(mutex_);
  kept_[rounded(bytes)].push_back(block);
  out_ -= bytes;
}

std::uint64_t BlockPool::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::uint64_t BlockPool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

InstanceMemory::~InstanceMemory() {
  if (std::byte* p = data_.load(std::memory_order_acquire)) pool_.give_back(p, bytes_of(buffer_));
}

std::byte* InstanceMemory::data() {
  if (std::byte* p = data_.load(std::memory_order_acquire)) return p;
  const std::lock_guard lock(mutex_);  // two lanes' ops may write parts of it, and either may be first
  std::byte* p = data_.load(std::memory_order_acquire);
  if (p == nullptr) {
    p = pool_.take(bytes_of(buffer_));
    if (p == nullptr) {
      throw Error("no memory for " + std::to_string(bytes_of(buffer_)) + " bytes of buffer " + buffer_.name);
    }
    data_.store(p, std::memory_order_release);
  }
  return p;
}

Storage::Storage(const Program& program, bool poison, Taking taking, const Room& room,
                 const std::filesystem::path& folder)
    : Storage(program,
              Pools{std::make_unique<BlockPool>(poison), std::make_unique<BlockPool>(poison),
                    std::make_unique<BlockPool>(poison, std::make_unique<TierFile>(folder))},
              taking, room) {}

Storage::Storage(const Program& program, Pools pools, Taking taking, const Room& room)
    : program_(program), taking_(taking), room_(room), pools_(std::move(pools)), instances_(program.buffers.size()) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const Scope scope = program.buffers[i].scope;
    // There is one more layer than the model has: the output of the last is the next one's input.
    const std::size_t layers = per_layer(scope) ? program.layers + 1U : 1U;
    instances_[i].resize(layers * (per_microbatch(scope) ? program.microbatches : 1U));
  }
}

std::size_t Storage::slot(const Instance& instance) const {
  return per_microbatch(program_[instance.buffer].scope)
             ? instance.layer * std::size_t{program_.microbatches} + instance.microbatch
             : instance.layer;
}

void Storage::allocate(const Instance& instance) {
  auto& list = instances_[index(instance.buffer)];
  ORRERY_ASSERT(slot(instance) < list.size() && list[slot(instance)] == nullptr, program_[instance.buffer].name,
                instance.layer, instance.microbatch);
  const Buffer& buffer = program_[instance.buffer];
  const std::size_t tier = index(buffer.tier);
  if (bytes_of(buffer) > room_[tier] || live_[tier] > room_[tier] - bytes_of(buffer)) {
    throw Error("no room for " + std::to_string(bytes_of(buffer)) + " bytes of buffer " + buffer.name + ": " +
                std::to_string(live_[tier]) + " of " + std::to_string(room_[tier]) + " bytes of " +
                std::string(name_of(buffer.tier)) + " memory are in use");
  }
  if (buffer.reuses) {
    list[slot(instance)] = memory({*buffer.reuses, instance.layer, instance.microbatch});
    return;
  }
  auto memory = std::make_shared<InstanceMemory>(*pools_[tier], buffer);
  if (taking_ == Taking::at_alloc) static_cast<void>(memory->data());
  list[slot(instance)] = std::move(memory);
  live_[tier] += bytes_of(buffer);
  peak_[tier] = std::max(peak_[tier], live_[tier]);
}

void Storage::free(const Instance& instance) {
  static_cast<void>(memory(instance));  // it must be live
  instances_[index(instance.buffer)][slot(instance)].reset();
  live_[index(program_[instance.buffer].tier)] -= bytes_of(program_[instance.buffer]);
}

const std::shared_ptr<InstanceMemory>& Storage::memory(const Instance& instance) const {
  const auto& list = instances_[index(instance.buffer)];
  ORRERY_ASSERT(slot(instance) < list.size() && list[slot(instance)] != nullptr, program_[instance.buffer].name,
                instance.layer, instance.microbatch);
  return list[slot(instance)];
}

std::span<std::byte> Storage::find(const Instance& instance) const {
  const auto& list = instances_[index(instance.buffer)];
  if (slot(instance) >= list.size() || list[slot(instance)] == nullptr) return {};
  return {list[slot(instance)]->data(), size_of(program_[instance.buffer])};
}

}  // namespace orrery
