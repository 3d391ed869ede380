#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/memory/free_blocks.hpp"
#include "sim/memory/name_table.hpp"

namespace orrery {

/// Sizes by which PyTorch's caching allocator of CUDA memory works, in bytes.
struct AllocatorRules {
  std::uint64_t block = 512;                    ///< requests are rounded up to a multiple of this, a power of two
  std::uint64_t small_request = 1ULL << 20;     ///< the largest that the pool of small blocks serves
  std::uint64_t small_segment = 2ULL << 20;     ///< what that pool takes from the device
  std::uint64_t large_segment = 20ULL << 20;    ///< what the other pool takes for requests below `own_segment`
  std::uint64_t own_segment = 10ULL << 20;      ///< requests of this size and larger get a segment of their own size
  std::uint64_t segment_multiple = 2ULL << 20;  ///< to which such a segment is rounded up
  std::uint64_t large_remainder = 1ULL << 20;   ///< a large block keeps a rest of up to this size
  /// expandable_segments:True: each pool is one segment that grows by whole pages, which have the sizes of segments
  /// above.
  bool expandable = false;
  /// Bytes that the device has for the allocator; unset: any amount. When a segment does not fit, segments that hold
  /// nothing go back.
  std::optional<std::uint64_t> capacity;
  friend bool operator==(const AllocatorRules&, const AllocatorRules&) = default;
};

/// PyTorch's caching allocator of CUDA memory, for one stream. It says what the allocator takes from the device
/// (reserves) for a sequence of requests, and where blocks lie.
///
/// A request is rounded up to whole blocks and served by the smallest free block of its pool that is large enough;
/// among equal ones by the one at the lowest address. A block that is larger is split when the rest is worth keeping.
/// Without such a block, the pool takes a segment from the device. A freed block joins free neighbours in its segment.
/// Segments stay, so memory is reserved until the device has no more.
///
/// Source: PyTorch documentation, "CUDA semantics: Memory management" (pools,
/// rounding, splitting, PYTORCH_CUDA_ALLOC_CONF with expandable_segments), and
/// the constants of c10's CUDA caching allocator in PyTorch 2.
/// Leaves out: blocks of other streams and those that await them, private
/// pools of CUDA graphs, max_split_size_mb, roundup_power2_divisions and
/// garbage_collection_threshold, which are off unless asked for.
class CachingAllocator {
 public:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    bool free = false;
    friend bool operator==(const Block&, const Block&) = default;
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::vector<Block> blocks;  ///< in order of addresses; they fill the segment
    friend bool operator==(const Segment&, const Segment&) = default;
  };

  explicit CachingAllocator(const AllocatorRules& rules = {});

  /// Serves a request of `bytes` > 0 under a name that no live block has. Returns false where even giving back unused
  /// segments makes no room. The request is then served beyond the capacity, so that figures go on.
  bool allocate(std::uint64_t name, std::uint64_t bytes);
  /// Frees what was allocated under the name.
  void free(std::uint64_t name);

  /// Bytes in blocks that are in use: torch.cuda.memory_allocated.
  [[nodiscard]] std::uint64_t allocated() const { return allocated_; }
  /// Bytes in segments: torch.cuda.memory_reserved.
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  [[nodiscard]] std::uint64_t most_reserved() const { return most_reserved_; }
  /// How often segments went back to make room.
  [[nodiscard]] std::uint64_t retries() const { return retries_; }
  [[nodiscard]] std::vector<Segment> segments() const;

  /// Appends everything on which the next events depend: segments in order of their addresses, their blocks, and the
  /// names of those in use, as name_before(name) gives them.
  template <class Name>
  void write_state(std::vector<std::uint64_t>& out, Name&& name_before) const {
    for (const Run& run : runs_) {
      out.push_back(run.small ? 1 : 0);  // no size of a block
      for (std::uint32_t p = run.first; p != none; p = pieces_[p].after) {
        const Piece& piece = pieces_[p];
        out.push_back(piece.size | (piece.free ? 1U : 0U));
        if (!piece.free) out.push_back(name_before(piece.name));
      }
    }
  }
  /// A number that is the same for equal states, and mostly differs for different ones. It covers only the last blocks,
  /// since what lies at the highest addresses came last.
  template <class Name>
  [[nodiscard]] std::uint64_t sign(Name&& name_before) const {
    std::uint64_t sign = reserved_ ^ (allocated_ << 20U);
    int left = 64;
    const auto add = [&](const Piece& p) {
      sign = (sign ^ p.size ^ (p.free ? 0 : name_before(p.name))) * 0x9e3779b97f4a7c15ULL;
      --left;
    };
    if (rules_.expandable) {
      for (const Pool& pool : pools_) {
        for (std::uint32_t p = pool.last; p != none && left > 0; p = pieces_[p].before) add(pieces_[p]);
      }
    }
    for (auto run = runs_.rbegin(); run != runs_.rend() && left > 0; ++run) {
      for (std::uint32_t p = run->first; p != none && left > 0; p = pieces_[p].after) add(pieces_[p]);
    }
    return sign;
  }
  /// Gives everything live the name new_name(name); names stay apart.
  template <class Name>
  void rename(Name&& new_name) {
    names_.clear();
    for (const Run& run : runs_) {
      for (std::uint32_t p = run.first; p != none; p = pieces_[p].after) {
        if (!pieces_[p].free) names_.insert(pieces_[p].name = new_name(pieces_[p].name), p);
      }
    }
  }

 private:
  static constexpr std::uint32_t none = NameTable::none;
  /// A block, between its neighbours in the segment.
  struct Piece {
    std::uint64_t address = 0, size = 0, name = 0;
    std::uint32_t before = none, after = none;
    bool free = false;
    bool small = false;
  };
  /// The blocks of a segment.
  struct Run {
    std::uint64_t address = 0, size = 0;
    std::uint32_t first = none;
    bool small = false;
  };
  struct Pool {
    FreeBlocks free;
    std::uint32_t last = none;  ///< expandable: the piece at the end of the pool's segment
  };

  [[nodiscard]] bool is_small(std::uint64_t size) const { return size <= rules_.small_request; }
  Pool& pool(bool small) { return pools_[small ? 1 : 0]; }
  [[nodiscard]] FreeBlocks::Block as_free(std::uint32_t piece) const {
    return {pieces_[piece].size, pieces_[piece].address, piece};
  }
  std::uint32_t new_segment(std::uint64_t size, std::uint64_t room, bool small);
  std::uint32_t new_piece(const Piece&);
  void unlink(std::uint32_t piece);
  std::uint32_t grow(std::uint64_t size, bool small, bool& room);
  std::uint32_t expand(std::uint64_t size, bool small, bool& room);
  bool make_room(std::uint64_t bytes);
  void release_unused();

  AllocatorRules rules_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> unused_;  ///< numbers in `pieces_`
  std::vector<Run> runs_;              ///< in order of addresses
  std::array<Pool, 2> pools_;
  NameTable names_;         ///< pieces in use
  std::uint64_t next_ = 0;  ///< address of the next segment
  std::uint64_t allocated_ = 0, reserved_ = 0, most_reserved_ = 0, retries_ = 0;
};

}  // namespace orrery
