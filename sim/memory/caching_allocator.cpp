#include "sim/memory/caching_allocator.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Room for one pool's expandable segment: more than any device has.
constexpr std::uint64_t address_range = 1ULL << 50;

}  // namespace

CachingAllocator::CachingAllocator(const AllocatorRules& rules) : rules_(rules) {
  ORRERY_ASSERT(rules.block > 1 && (rules.block & (rules.block - 1)) == 0, rules.block);
}

std::uint32_t CachingAllocator::new_piece(const Piece& piece) {
  if (unused_.empty()) {
    pieces_.push_back(piece);
    return static_cast<std::uint32_t>(pieces_.size() - 1);
  }
  const std::uint32_t p = unused_.back();
  unused_.pop_back();
  pieces_[p] = piece;
  return p;
}

/// Removes a piece from between its neighbours.
void CachingAllocator::unlink(std::uint32_t piece) {
  const Piece& p = pieces_[piece];
  if (p.before != none) pieces_[p.before].after = p.after;
  if (p.after != none) pieces_[p.after].before = p.before;
  if (pool(p.small).last == piece) pool(p.small).last = p.before;
  unused_.push_back(piece);
}

/// Gives back segments that hold nothing; an expandable segment gives back the free pages at its end.
void CachingAllocator::release_unused() {
  std::size_t kept = 0;
  for (Run run : runs_) {
    const std::uint32_t piece = rules_.expandable ? pool(run.small).last : run.first;
    const Piece& p = pieces_[piece];
    if (p.free && (rules_.expandable || p.size == run.size)) {
      pool(run.small).free.erase(as_free(piece));
      reserved_ -= p.size;
      run.size -= p.size;
      unlink(piece);
    }
    if (run.size > 0) runs_[kept++] = run;
  }
  runs_.resize(kept);
}

bool CachingAllocator::make_room(std::uint64_t bytes) {
  if (!rules_.capacity || reserved_ + bytes <= *rules_.capacity) return true;
  ++retries_;
  release_unused();
  return reserved_ + bytes <= *rules_.capacity;
}

/// Makes a free segment, with `room` before the next one.
std::uint32_t CachingAllocator::new_segment(std::uint64_t size, std::uint64_t room, bool small) {
  const std::uint32_t piece = new_piece({next_, size, 0, none, none, true, small});
  runs_.push_back({next_, size, piece, small});
  next_ += room;
  reserved_ += size;
  pool(small).free.insert(as_free(piece));
  return piece;
}

/// A free piece of at least `size`, in a segment of its own.
std::uint32_t CachingAllocator::grow(std::uint64_t size, bool small, bool& room) {
  std::uint64_t segment = rules_.small_segment;
  if (!small) {
    segment = size < rules_.own_segment ? rules_.large_segment : rounded_up(size, rules_.segment_multiple);
  }
  room = make_room(segment);
  return new_segment(segment, segment, small);
}

/// Lets the pool's segment grow until its end has a free block of `size`.
std::uint32_t CachingAllocator::expand(std::uint64_t size, bool small, bool& room) {
  const std::uint64_t page = small ? rules_.small_segment : rules_.large_segment;
  const std::uint32_t& last = pool(small).last;
  const auto missing = [&] {
    return rounded_up(size - (last != none && pieces_[last].free ? pieces_[last].size : 0), page);
  };
  if (rules_.capacity && reserved_ + missing() > *rules_.capacity) {
    // The memory that is given back may be that end.
    ++retries_;
    release_unused();
    room = reserved_ + missing() <= *rules_.capacity;
  }
  const std::uint64_t added = missing();
  FreeBlocks& list = pool(small).free;
  if (last == none) return pool(small).last = new_segment(added, address_range, small);
  reserved_ += added;
  std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) { return run.small == small; })->size += added;
  if (pieces_[last].free) {
    const FreeBlocks::Block before = as_free(last);
    pieces_[last].size += added;
    list.replace(before, as_free(last));
    return last;
  }
  const Piece end = pieces_[last];
  const std::uint32_t piece = new_piece({end.address + end.size, added, 0, last, none, true, small});
  pieces_[last].after = piece;
  list.insert(as_free(piece));
  return pool(small).last = piece;
}

bool CachingAllocator::allocate(std::uint64_t name, std::uint64_t bytes) {
  ORRERY_ASSERT(bytes > 0, bytes, name);
  const std::uint64_t size = (bytes + rules_.block - 1) & ~(rules_.block - 1);
  const bool small = is_small(size);
  bool room = true;
  FreeBlocks& list = pool(small).free;
  std::uint32_t piece = list.best(size);
  if (piece == none) piece = rules_.expandable ? expand(size, small, room) : grow(size, small, room);
  const FreeBlocks::Block found = as_free(piece);
  const std::uint64_t rest = found.size - size;
  if (small || rules_.expandable ? rest >= rules_.block : rest > rules_.large_remainder) {
    const std::uint32_t after = pieces_[piece].after;
    const std::uint32_t end = new_piece({found.address + size, rest, 0, piece, after, true, small});
    if (after != none) pieces_[after].before = end;
    if (pool(small).last == piece) pool(small).last = end;
    pieces_[piece].after = end;
    pieces_[piece].size = size;
    list.replace(found, as_free(end));
  } else {
    list.erase(found);
  }
  Piece& used = pieces_[piece];
  used.free = false;
  used.name = name;
  names_.insert(name, piece);
  allocated_ += used.size;
  most_reserved_ = std::max(most_reserved_, reserved_);
  return room;
}

void CachingAllocator::free(std::uint64_t name) {
  const std::uint32_t piece = names_.take(name);
  ORRERY_ASSERT(piece != none, name);
  Piece& freed = pieces_[piece];
  FreeBlocks& list = pool(freed.small).free;
  allocated_ -= freed.size;
  freed.free = true;
  std::uint32_t all = piece;                // the free block that it becomes
  std::optional<FreeBlocks::Block> joined;  // one that is listed and becomes part of that
  if (const std::uint32_t after = freed.after; after != none && pieces_[after].free) {
    joined = as_free(after);
    freed.size += joined->size;
    unlink(after);
  }
  if (const std::uint32_t before = freed.before; before != none && pieces_[before].free) {
    if (joined) list.erase(*joined);
    joined = as_free(before);
    pieces_[before].size += freed.size;
    unlink(piece);
    all = before;
  }
  if (joined) {
    list.replace(*joined, as_free(all));
  } else {
    list.insert(as_free(all));
  }
}

std::vector<CachingAllocator::Segment> CachingAllocator::segments() const {
  std::vector<Segment> out;
  for (const Run& run : runs_) {
    Segment s{run.address, run.size, {}};
    for (std::uint32_t p = run.first; p != none; p = pieces_[p].after) {
      s.blocks.push_back({pieces_[p].address, pieces_[p].size, pieces_[p].free});
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace orrery
