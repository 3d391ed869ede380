#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/program/program.hpp"
#include "core/program/totals.hpp"
#include "exec/run/tier_file.hpp"

namespace orrery {

/// Where a rank's buffers of one tier come from.
class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  virtual ~MemoryPool() = default;

  /// Null when memory is exhausted; throws Error where a file cannot take it.
  [[nodiscard]] virtual std::byte* take(std::uint64_t bytes) = 0;
  virtual void give_back(std::byte*, std::uint64_t bytes) = 0;
  /// Most bytes that were out at one time.
  [[nodiscard]] virtual std::uint64_t peak_bytes() const = 0;
  /// Bytes taken from the system: blocks out, kept blocks and rounding.
  [[nodiscard]] virtual std::uint64_t reserved_bytes() const = 0;
};

/// Blocks of memory of one rank, kept after use and handed out again, so that a step's timing is not that of page
/// faults. Blocks are aligned to 64 bytes. All members may be called from several threads.
class BlockPool final : public MemoryPool {
 public:
  /// With `file` blocks are parts of it, otherwise memory of the system. With `poison` blocks are filled with ones (a
  /// NaN in every floating type) before and after use, so that reading too early or too late shows.
  explicit BlockPool(bool poison, std::unique_ptr<TierFile> file = nullptr) : poison_(poison), file_(std::move(file)) {}
  ~BlockPool() override;

  [[nodiscard]] std::byte* take(std::uint64_t bytes) override;
  void give_back(std::byte*, std::uint64_t bytes) override;
  [[nodiscard]] std::uint64_t peak_bytes() const override;
  [[nodiscard]] std::uint64_t reserved_bytes() const override;

 private:
  mutable std::mutex mutex_;
  bool poison_;
  std::unique_ptr<TierFile> file_;
  std::unordered_map<std::uint64_t, std::vector<std::byte*>> kept_;  // by rounded size
  std::uint64_t out_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t reserved_ = 0;
};

/// The memory of one instance of a buffer, from its Alloc to the end of the last op that uses it, which may lie after
/// its Free. All users share it. Memory is taken when it is first asked for.
class InstanceMemory {
 public:
  InstanceMemory(MemoryPool& pool, const Buffer& buffer) : pool_(pool), buffer_(buffer) {}
  ~InstanceMemory();
  InstanceMemory(const InstanceMemory&) = delete;
  InstanceMemory& operator=(const InstanceMemory&) = delete;

  /// Its first byte.  Throws Error when memory is exhausted.
  [[nodiscard]] std::byte* data();

 private:
  MemoryPool& pool_;
  const Buffer& buffer_;
  std::mutex mutex_;
  std::atomic<std::byte*> data_{nullptr};
};

/// The buffers of one rank: an instance of a declaration comes to life at its Alloc and ends at its Free. Used by the
/// thread that issues the rank's ops.
///
/// The Program's bytes count as live in the order of issue.
class Storage {
 public:
  enum class Taking : std::uint8_t {
    at_alloc,     ///< an instance's memory is there from its Alloc on
    at_first_use  ///< an Alloc may be issued long before the first op that uses it runs
  };
  /// Most live bytes of each tier, in the order of issue.
  using Room = std::array<std::uint64_t, tier_count>;
  static constexpr Room no_bounds{~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}};

  /// `poison` as for BlockPool. Each tier has memory of its own. The disk tier is a file in `folder`, which is made
  /// only where the Program has something for it.
  Storage(const Program&, bool poison, Taking = Taking::at_alloc, const Room& = no_bounds,
          const std::filesystem::path& folder = ".");
  /// Takes the caller's pools, by tier.
  using Pools = std::array<std::unique_ptr<MemoryPool>, tier_count>;
  Storage(const Program&, Pools, Taking, const Room&);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Throws Error when memory is exhausted or the tier has no room left.  The instance must not be live.
  void allocate(const Instance&);
  /// The instance must be live.
  void free(const Instance&);
  /// The memory of a live instance.
  [[nodiscard]] const std::shared_ptr<InstanceMemory>& memory(const Instance&) const;
  /// First byte of a live instance.
  [[nodiscard]] std::byte* at(const Instance& instance) const { return memory(instance)->data(); }
  /// The bytes of an instance; empty when it is not live.
  [[nodiscard]] std::span<std::byte> find(const Instance&) const;

  [[nodiscard]] std::uint64_t live_bytes(Tier tier = Tier::device) const { return live_[index(tier)]; }
  [[nodiscard]] std::uint64_t peak_bytes(Tier tier = Tier::device) const { return peak_[index(tier)]; }
  /// For the device: most bytes of instances in memory at one time, including those freed but still used.
  [[nodiscard]] std::uint64_t held_bytes() const { return pools_[index(Tier::device)]->peak_bytes(); }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return pools_[index(Tier::device)]->reserved_bytes(); }

 private:
  [[nodiscard]] std::size_t slot(const Instance&) const;

  const Program& program_;
  Taking taking_;
  Room room_;
  Pools pools_;                                                          // outlive the instances
  std::vector<std::vector<std::shared_ptr<InstanceMemory>>> instances_;  // by buffer, then layer and microbatch
  std::array<std::uint64_t, tier_count> live_{};
  std::array<std::uint64_t, tier_count> peak_{};
};

}  // namespace orrery
