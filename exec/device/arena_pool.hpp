#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/run/storage.hpp"

namespace orrery {

/// Memory of one tier whose users are streams. A block may be handed out again while ops on its former owner are still
/// to run, and tells which ops the next owner's ops must wait for. So memory in use never exceeds that of the list of
/// ops, however far the issuing thread is ahead.
///
/// Blocks are cut from chunks, best fit first, and free neighbours are joined. Used by one thread.
class ArenaPool final : public MemoryPool {
 public:
  /// Where chunks come from; null where there are no more.
  struct Source {
    std::function<std::byte*(std::uint64_t)> take;
    std::function<void(std::byte*)> give_back;
  };
  /// Numbers of ops by lane: the first so many of each lane.
  using Marks = std::vector<std::uint64_t>;
  struct Use {
    Marks before;  ///< what must have ended before the block is used
    Marks used;    ///< what its owner's ops were so far
  };
  static constexpr std::uint64_t alignment = 256;

  ArenaPool(Source, std::uint64_t chunk_bytes, std::size_t lanes);
  ~ArenaPool() override;

  [[nodiscard]] std::byte* take(std::uint64_t bytes) override;
  void give_back(std::byte*, std::uint64_t bytes) override;
  [[nodiscard]] std::uint64_t peak_bytes() const override { return peak_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const override { return reserved_; }

  /// The use of a block that is handed out.
  [[nodiscard]] Use& use(const std::byte* block);
  /// Called when all ops have ended: nothing needs to be waited for, and counts begin anew.
  void settle();

 private:
  struct Block {
    std::uint64_t bytes = 0;
    std::size_t chunk = 0;
    bool free = true;
    Use use;
  };
  using Blocks = std::map<const std::byte*, Block>;
  void keep(Blocks::iterator);
  void merge_with_next(Blocks::iterator);

  Source source_;
  std::uint64_t chunk_bytes_;
  std::size_t lanes_;
  std::vector<std::byte*> chunks_;
  Blocks blocks_;
  std::set<std::pair<std::uint64_t, const std::byte*>> free_;  ///< by size
  std::uint64_t out_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace orrery
