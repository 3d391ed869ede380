#include "exec/run/storage.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr std::align_val_t alignment{64};

std::uint64_t rounded(std::uint64_t bytes) { return std::max<std::uint64_t>(64, (bytes + 63) / 64 * 64); }

}  // namespace

Storage::Storage(const Program& program, bool poison)
    : program_(program), poison_(poison), instances_(program.buffers.size()) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const Scope scope = program.buffers[i].scope;
    // One layer more than there are: the output of the last is the next one's input.
    const std::size_t layers = per_layer(scope) ? program.layers + 1U : 1U;
    instances_[i].resize(layers * (per_microbatch(scope) ? program.microbatches : 1U), nullptr);
  }
}

Storage::~Storage() {
  for (const auto& list : instances_) {
    for (std::byte* p : list) ::operator delete[](p, alignment);
  }
  for (const auto& [size, list] : kept_) {
    for (std::byte* p : list) ::operator delete[](p, alignment);
  }
}

std::size_t Storage::slot(const Instance& instance) const {
  const Scope scope = program_[instance.buffer].scope;
  const std::size_t at = per_microbatch(scope)
                             ? instance.layer * std::size_t{program_.microbatches} + instance.microbatch
                             : instance.layer;
  ORRERY_ASSERT(at < instances_[index(instance.buffer)].size(), program_[instance.buffer].name, instance.layer,
                instance.microbatch);
  return at;
}

void Storage::allocate(const Instance& instance) {
  std::byte*& place = instances_[index(instance.buffer)][slot(instance)];
  ORRERY_ASSERT(place == nullptr, program_[instance.buffer].name, instance.layer, instance.microbatch);
  const std::uint64_t bytes = bytes_of(program_[instance.buffer]);
  const std::uint64_t size = rounded(bytes);
  auto& kept = kept_[size];
  if (!kept.empty()) {
    place = kept.back();
    kept.pop_back();
  } else {
    place = static_cast<std::byte*>(::operator new[](size, alignment, std::nothrow));
    if (place == nullptr) {
      throw Error("no memory for " + std::to_string(size) + " bytes of buffer " + program_[instance.buffer].name);
    }
    reserved_ += size;
  }
  if (poison_) std::memset(place, 0xff, size);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void Storage::free(const Instance& instance) {
  std::byte*& place = instances_[index(instance.buffer)][slot(instance)];
  ORRERY_ASSERT(place != nullptr, program_[instance.buffer].name, instance.layer, instance.microbatch);
  const std::uint64_t bytes = bytes_of(program_[instance.buffer]);
  if (poison_) std::memset(place, 0xff, rounded(bytes));
  kept_[rounded(bytes)].push_back(place);
  place = nullptr;
  live_ -= bytes;
}

std::byte* Storage::at(const Instance& instance) const {
  std::byte* place = instances_[index(instance.buffer)][slot(instance)];
  ORRERY_ASSERT(place != nullptr, program_[instance.buffer].name, instance.layer, instance.microbatch);
  return place;
}

std::span<std::byte> Storage::find(const Instance& instance) const {
  const auto& list = instances_[index(instance.buffer)];
  const Scope scope = program_[instance.buffer].scope;
  const std::size_t at = per_microbatch(scope)
                             ? instance.layer * std::size_t{program_.microbatches} + instance.microbatch
                             : instance.layer;
  if (at >= list.size() || list[at] == nullptr) return {};
  return {list[at], bytes_of(program_[instance.buffer])};
}

}  // namespace orrery
