#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::device {

/// The threads of one block at a time, on the host, and the memory that they share.
class HostTeam {
 public:
  explicit HostTeam(std::uint32_t threads) : threads_(threads), meet_(threads), values_(threads) {}

  [[nodiscard]] std::uint32_t threads() const { return threads_; }
  void sync() { meet_.arrive_and_wait(); }
  /// combine(a, b) over all threads' values, in order of threads; each thread gets the result.
  template <class T, class Combine>
  [[nodiscard]] T over_all(std::uint32_t thread, T value, Combine combine) {
    if (threads_ == 1) return value;
    values_[thread] = static_cast<double>(value);
    sync();
    T all = static_cast<T>(values_[0]);
    for (std::uint32_t t = 1; t < threads_; ++t) all = combine(all, static_cast<T>(values_[t]));
    sync();  // values may be written again
    return all;
  }

 private:
  std::uint32_t threads_;
  std::barrier<> meet_;
  std::vector<double> values_;
};

/// One thread's view of a block (launcher.hpp says what a Block is).
class HostBlock {
 public:
  HostBlock(HostTeam* team, std::uint32_t thread, std::uint64_t index, std::uint64_t blocks, std::byte* shared)
      : team_(team), thread_(thread), index_(index), blocks_(blocks), shared_(shared) {}
  [[nodiscard]] std::uint64_t index() const { return index_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t thread() const { return thread_; }
  [[nodiscard]] std::uint32_t threads() const { return team_->threads(); }
  void sync() {
    if (team_->threads() > 1) team_->sync();
  }
  template <class T>
  [[nodiscard]] T sum(T x) {
    return team_->over_all(thread_, x, [](T a, T b) { return a + b; });
  }
  template <class T>
  [[nodiscard]] T largest(T x) {
    return team_->over_all(thread_, x, [](T a, T b) { return a < b ? b : a; });
  }
  [[nodiscard]] bool any(bool x) { return largest(x ? 1.0 : 0.0) > 0.0; }
  template <class T>
  [[nodiscard]] T* shared() const {
    return reinterpret_cast<T*>(shared_);
  }

 private:
  HostTeam* team_;
  std::uint32_t thread_;
  std::uint64_t index_, blocks_;
  std::byte* shared_;
};

}  // namespace orrery::device
