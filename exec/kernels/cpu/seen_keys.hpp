#pragma once

#include <cstdint>

#include "core/program/kernel.hpp"
#include "exec/kernels/device/on_device.hpp"

namespace orrery::cpu {

/// Which keys the queries of a kernel see, by global positions (core/program/sight.hpp says the rules). Neither end of
/// what a query sees stands before that of an earlier query.
class SeenKeys {
 public:
  explicit SeenKeys(const Kernel& k) : causal_(k.options.causal), chunked_(k.options.chunked), window_(k.window) {}

  /// The keys that a query sees are [first, end) of a sequence of this length.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t first(std::uint64_t query) const {
    if (window_ == 0) return 0;
    if (chunked_) return query - query % window_;
    return query < window_ ? 0 : query - window_ + 1;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t end(std::uint64_t query, std::uint64_t length) const {
    return causal_ ? query + 1 : length;
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool sees(std::uint64_t query, std::uint64_t key) const {
    return (!causal_ || key <= query) && first(query) <= key;
  }
  /// The queries that see a key are [first_query, end_query) of a sequence of this length.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t first_query(std::uint64_t key) const { return causal_ ? key : 0; }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t end_query(std::uint64_t key, std::uint64_t length) const {
    if (window_ == 0) return length;
    const std::uint64_t end = chunked_ ? key - key % window_ + window_ : key + window_;
    return end < length ? end : length;
  }
  /// Whether a query in [first_query, last_query] can see a key in [first_key, last_key]; true at least where one does.
  [[nodiscard]] ORRERY_ON_DEVICE bool may_see(std::uint64_t first_query, std::uint64_t last_query,
                                              std::uint64_t first_key, std::uint64_t last_key) const {
    return (!causal_ || first_key <= last_query) && first(first_query) <= last_key;
  }

 private:
  bool causal_, chunked_;
  std::uint64_t window_;
};

}  // namespace orrery::cpu
