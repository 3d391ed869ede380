#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace orrery {

template <class Number, std::size_t n>
struct ArrayHash {
  std::size_t operator()(const std::array<Number, n>& key) const {
    std::uint64_t h = n;
    for (const Number k : key) h = (h ^ k) * 0x9E3779B97F4A7C15U, h ^= h >> 29;
    return static_cast<std::size_t>(h);
  }
};

/// What several threads work out once.  Each thread has one of its own, made by beside(), that asks the others, under a
/// lock, for what it has not seen yet alone.  Nothing is ever forgotten.
template <class Key, class Value, class Hash>
class SharedMemo {
 public:
  SharedMemo() : shared_(std::make_shared<Shared>()) {}
  /// For another thread.
  [[nodiscard]] SharedMemo beside() const {
    SharedMemo other;
    other.shared_ = shared_;
    return other;
  }

  /// Null: not known.
  [[nodiscard]] const Value* find(const Key& key) {
    if (const auto seen = seen_.find(key); seen != seen_.end()) return seen->second;
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    const auto known = shared_->known.find(key);
    if (known == shared_->known.end()) return nullptr;
    return seen_.try_emplace(key, &known->second).first->second;
  }
  /// What stands there then, which is another thread's where that was faster.
  const Value& add(const Key& key, Value value) {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    return *seen_.try_emplace(key, &shared_->known.try_emplace(key, std::move(value)).first->second).first->second;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::unordered_map<Key, Value, Hash> known;
  };
  std::shared_ptr<Shared> shared_;
  std::unordered_map<Key, const Value*, Hash> seen_;
};

}  // namespace orrery
