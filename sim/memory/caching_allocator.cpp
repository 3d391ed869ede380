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

CachingAllocator::Pieces::iterator CachingAllocator::add_free(std::uint64_t address, std::uint64_t size, bool small) {
  free_list(small).emplace(size, address);
  return pieces_.emplace(address, Piece{size, true, small}).first;
}

/// Gives back segments that hold nothing; of an expandable one, the free pages at its end.
void CachingAllocator::release_unused() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto [address, size] = *segment;
    const bool small = pieces_.at(address).small;
    if (rules_.expandable) {
      auto last = std::prev(pieces_.lower_bound(address + size));
      if (!last->second.free) {
        ++segment;
        continue;
      }
      free_list(small).erase({last->second.size, last->first});
      reserved_ -= last->second.size;
      segment->second -= last->second.size;
      const bool whole = last->first == address;
      pieces_.erase(last);
      if (!whole) {
        ++segment;
        continue;
      }
      (small ? expandable_small_ : expandable_large_).reset();
    } else {
      const Piece& first = pieces_.at(address);
      if (!first.free || first.size != size) {
        ++segment;
        continue;
      }
      free_list(small).erase({size, address});
      pieces_.erase(address);
      reserved_ -= size;
    }
    segment = segments_.erase(segment);
  }
}

bool CachingAllocator::make_room(std::uint64_t bytes) {
  if (!rules_.capacity || reserved_ + bytes <= *rules_.capacity) return true;
  ++retries_;
  release_unused();
  return reserved_ + bytes <= *rules_.capacity;
}

CachingAllocator::Pieces::iterator CachingAllocator::grow(std::uint64_t size, bool small, bool& room) {
  std::uint64_t segment = rules_.small_segment;
  if (!small) {
    segment = size < rules_.own_segment ? rules_.large_segment : rounded_up(size, rules_.segment_multiple);
  }
  room = make_room(segment);
  const std::uint64_t address = next_;
  next_ += segment;
  segments_.emplace(address, segment);
  reserved_ += segment;
  return add_free(address, segment, small);
}

/// The free piece at the end of the pool's segment, if there is one.
CachingAllocator::Pieces::iterator CachingAllocator::free_end(bool small) {
  const std::optional<std::uint64_t>& base = small ? expandable_small_ : expandable_large_;
  if (!base) return pieces_.end();
  const auto last = std::prev(pieces_.lower_bound(*base + segments_.at(*base)));
  return last->second.free ? last : pieces_.end();
}

/// Lets the pool's segment grow until its end has a free block of `size`.
CachingAllocator::Pieces::iterator CachingAllocator::expand(std::uint64_t size, bool small, bool& room) {
  const std::uint64_t page = small ? rules_.small_segment : rules_.large_segment;
  auto end = free_end(small);
  const auto missing = [&] { return rounded_up(size - (end == pieces_.end() ? 0 : end->second.size), page); };
  if (rules_.capacity && reserved_ + missing() > *rules_.capacity) {
    // What is given back may be that end.
    ++retries_;
    release_unused();
    end = free_end(small);
    room = reserved_ + missing() <= *rules_.capacity;
  }
  const std::uint64_t added = missing();
  std::optional<std::uint64_t>& base = small ? expandable_small_ : expandable_large_;
  if (!base) {
    base = next_;
    next_ += address_range;
    segments_.emplace(*base, 0);
  }
  std::uint64_t& mapped = segments_.at(*base);
  std::uint64_t begin = *base + mapped, held = 0;
  mapped += added;
  reserved_ += added;
  if (end != pieces_.end()) {
    begin = end->first;
    held = end->second.size;
    free_list(small).erase({held, begin});
    pieces_.erase(end);
  }
  return add_free(begin, held + added, small);
}

bool CachingAllocator::allocate(std::uint64_t name, std::uint64_t bytes) {
  ORRERY_ASSERT(bytes > 0 && !holds(name), bytes, name);
  const std::uint64_t size = rounded_up(bytes, rules_.block);
  const bool small = is_small(size);
  FreeList& list = free_list(small);
  bool room = true;
  const auto best = list.lower_bound({size, 0});
  auto piece = best != list.end()  ? pieces_.find(best->second)
               : rules_.expandable ? expand(size, small, room)
                                   : grow(size, small, room);
  const std::uint64_t rest = piece->second.size - size;
  list.erase({piece->second.size, piece->first});
  piece->second.free = false;
  if (small || rules_.expandable ? rest >= rules_.block : rest > rules_.large_remainder) {
    piece->second.size = size;
    add_free(piece->first + size, rest, small);
  }
  live_.emplace(name, piece->first);
  allocated_ += piece->second.size;
  most_allocated_ = std::max(most_allocated_, allocated_);
  most_reserved_ = std::max(most_reserved_, reserved_);
  return room;
}

void CachingAllocator::free(std::uint64_t name) {
  const auto live = live_.find(name);
  ORRERY_ASSERT(live != live_.end(), name);
  auto piece = pieces_.find(live->second);
  live_.erase(live);
  const bool small = piece->second.small;
  std::uint64_t address = piece->first;
  std::uint64_t size = piece->second.size;
  allocated_ -= size;
  if (const auto next = std::next(piece);
      next != pieces_.end() && next->second.free && next->first == address + size && !starts_segment(next->first)) {
    size += next->second.size;
    free_list(small).erase({next->second.size, next->first});
    pieces_.erase(next);
  }
  if (!starts_segment(address)) {  // what stands before lies in the same segment
    const auto before = std::prev(piece);
    if (before->second.free) {
      address = before->first;
      size += before->second.size;
      free_list(small).erase({before->second.size, before->first});
      pieces_.erase(before);
    }
  }
  pieces_.erase(piece);
  add_free(address, size, small);
}

std::vector<CachingAllocator::Segment> CachingAllocator::segments() const {
  std::vector<Segment> out;
  for (const auto& [address, size] : segments_) {
    Segment s{address, size, {}};
    for (auto p = pieces_.lower_bound(address); p != pieces_.end() && p->first < address + size; ++p) {
      s.blocks.push_back({p->first, p->second.size, p->second.free});
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace orrery
