#include "exec/device/shared_device.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/device/reduction.hpp"

namespace orrery {
namespace {

std::uint64_t number_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
std::byte* memory_at(std::uint64_t n) { return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(n)); }
const DeviceEvent& event_at(std::uint64_t n) {
  return *reinterpret_cast<const DeviceEvent*>(static_cast<std::uintptr_t>(n));
}

/// The part of one collective's work that one member does.
class Share {
 public:
  /// `addresses` has those of every member's views, member after member.
  Share(const Members& members, std::span<const MemoryView> views, std::vector<std::byte*> addresses,
        DeviceStream& stream)
      : members_(members), views_(views), addresses_(std::move(addresses)), stream_(stream), p_(members.size()) {}

  /// Sums chunk `me` of all views, taken as one vector, for every member.
  void all_reduce(Collective::Reduction reduction) {
    std::uint64_t n = 0;
    for (const MemoryView& v : views_) n += v.count;
    const std::uint64_t first = members_.me * n / p_;
    const std::uint64_t last = (std::uint64_t{members_.me} + 1) * n / p_;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < views_.size(); begin += views_[i++].count) {
      const std::uint64_t low = std::max(first, begin);
      const std::uint64_t high = std::min(last, begin + views_[i].count);
      if (low >= high) continue;
      ReductionShare share = chain(i, low - begin, high - low, reduction);
      for (std::uint32_t m = 0; m < p_; ++m) share.results.push_back(at(m, i, low - begin));
      stream_.reduce(share);
    }
  }

  /// Takes pairs (whole, part).
  void reduce_scatter(Collective::Reduction reduction) {
    for (std::size_t i = 0; i + 1 < views_.size(); i += 2) {
      const std::uint64_t size = views_[i + 1].count;
      ReductionShare share = chain(i, members_.me * (views_[i].count / p_), size, reduction);
      if (views_[i + 1].use == View::Use::accumulate) share.base = views_[i + 1].data;
      share.results.push_back(views_[i + 1].data);
      stream_.reduce(share);
    }
  }

  /// Takes pairs (part, whole).
  void all_gather() {
    for (std::size_t i = 0; i + 1 < views_.size(); i += 2) {
      for (std::uint32_t m = 0; m < p_; ++m) copy(at(me(), i + 1, m * views_[i].count), at(m, i), views_[i]);
    }
  }

  void broadcast(std::uint32_t root, bool pairs) {
    for (std::size_t i = 0; i < views_.size(); i += pairs ? 2 : 1) {
      copy(at(me(), pairs ? i + 1 : i), at(root, i), views_[i]);
    }
  }

  /// The root adds up: a chain from the peer after it, then its own part.
  void reduce(std::uint32_t root, bool pairs, Collective::Reduction reduction) {
    if (me() != root) return;
    for (std::size_t i = 0; i < views_.size(); i += pairs ? 2 : 1) {
      ReductionShare share;
      share.dtype = views_[i].dtype;
      share.reduction = reduction;
      share.count = views_[i].count;
      for (std::uint32_t t = 1; t < p_; ++t) share.chain.push_back(at((root + t) % p_, i));
      share.base = views_[i].data;
      std::byte* result = views_[i].data;
      if (pairs) {
        result = views_[i + 1].data;
        if (views_[i + 1].use == View::Use::accumulate) {
          share.base = result;
          share.base2 = views_[i].data;
        }
      }
      share.results.push_back(result);
      stream_.reduce(share);
    }
  }

  /// Takes pairs (read, write), with equal parts per peer.
  void all_to_all() {
    for (std::size_t i = 0; i + 1 < views_.size(); i += 2) {
      MemoryView part = views_[i];
      part.count /= p_;
      for (std::uint32_t m = 0; m < p_; ++m) copy(at(me(), i + 1, m * part.count), at(m, i, me() * part.count), part);
    }
  }

  /// Takes pairs (read, write), from the member `distance` places back in its ring of `width`.
  void permute(std::uint32_t distance, std::uint32_t width) {
    if (width == 0) width = p_;
    const std::uint32_t first = me() / width * width;
    const std::uint32_t from = first + (me() - first + width - distance % width) % width;
    for (std::size_t i = 0; i + 1 < views_.size(); i += 2) copy(at(me(), i + 1), at(from, i), views_[i]);
  }

 private:
  [[nodiscard]] std::uint32_t me() const { return members_.me; }
  [[nodiscard]] std::byte* at(std::uint32_t member, std::size_t view, std::uint64_t element = 0) const {
    return addresses_[member * views_.size() + view] + element * size_of(views_[view].dtype);
  }
  void copy(std::byte* to, const std::byte* from, const MemoryView& what) {
    if (to != from && what.count > 0) stream_.copy(to, from, what.count * size_of(what.dtype));
  }
  /// Sums of a ring's chunk `me` begin at the next peer and end here.
  [[nodiscard]] ReductionShare chain(std::size_t view, std::uint64_t first, std::uint64_t count,
                                     Collective::Reduction reduction) const {
    ReductionShare share;
    share.dtype = views_[view].dtype;
    share.reduction = reduction;
    share.count = count;
    for (std::uint32_t t = 1; t <= p_; ++t) share.chain.push_back(at((me() + t) % p_, view, first));
    return share;
  }

  const Members& members_;
  std::span<const MemoryView> views_;
  std::vector<std::byte*> addresses_;
  DeviceStream& stream_;
  std::uint32_t p_;
};

bool are_pairs(std::span<const MemoryView> views) {
  return views.size() >= 2 && views[0].use == View::Use::read && views[1].use != View::Use::read;
}

/// Whether a member's result lies where others still read. This is so inside its own source, but not in the part that
/// only it reads (reduce_scatter); or where its source is inside its result, elsewhere than in its place (all_gather).
bool overlaps(Collective::Kind kind, std::span<const MemoryView> views, std::uint32_t me, std::uint32_t members) {
  const bool scatter = kind == Collective::Kind::reduce_scatter;
  if (!scatter && kind != Collective::Kind::all_gather) return false;
  for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
    const MemoryView& whole = views[scatter ? i : i + 1];
    const MemoryView& part = views[scatter ? i + 1 : i];
    const std::uint64_t bytes = part.count * size_of(part.dtype);
    const bool apart = part.data + bytes <= whole.data || whole.data + bytes * members <= part.data;
    if (!apart && part.data != whole.data + me * bytes) return true;
  }
  return false;
}

}  // namespace

DeviceEvent& EventSupply::next() {
  if (used_ == events_.size()) events_.push_back(device_.make_event());
  return *events_[used_++];
}

void SharedDevice::collective(const Collective& c, const Members& members, std::span<const MemoryView> views,
                              DeviceStream& stream, DeviceEvent& start) {
  const std::uint32_t p = members.size();
  if (p > device::most_members) {
    throw Error(std::to_string(p) + " ranks of one group on one device; at most " +
                std::to_string(device::most_members) + " can share it");
  }
  for (const MemoryView& v : views) ORRERY_ASSERT(v.dtype == views[0].dtype, v.dtype);
  ORRERY_ASSERT(!overlaps(c.kind, views, members.me, p), members.me);
  DeviceEvent& ready = events_.next();
  DeviceEvent& done = events_.next();
  stream.record(ready);
  // Each member sends all its views, then its events.
  std::vector<std::uint64_t> mine;
  for (const MemoryView& v : views) mine.push_back(number_of(v.data));
  mine.push_back(number_of(&ready));
  mine.push_back(number_of(&done));
  std::vector<std::uint64_t> all(mine.size() * p);
  static_assert(sizeof(std::uint64_t) == sizeof(double));  // what travels are bytes
  const MemoryView told[2] = {{reinterpret_cast<std::byte*>(mine.data()), DType::f64, mine.size(), View::Use::read},
                              {reinterpret_cast<std::byte*>(all.data()), DType::f64, all.size(), View::Use::write}};
  Collective tell;
  tell.kind = Collective::Kind::all_gather;
  run_collective(communicator_, tell, members, told, scratch_, 0);
  std::vector<std::byte*> addresses;
  for (std::uint32_t m = 0; m < p; ++m) {
    const std::uint64_t* row = all.data() + m * mine.size();
    for (std::size_t i = 0; i < views.size(); ++i) addresses.push_back(memory_at(row[i]));
    if (m != members.me) stream.wait(event_at(row[views.size()]));
  }
  stream.record(start);
  Share share(members, views, std::move(addresses), stream);
  const bool pairs = are_pairs(views);
  if (!views.empty()) {
    switch (c.kind) {
      case Collective::Kind::all_reduce: share.all_reduce(c.reduction); break;
      case Collective::Kind::reduce: share.reduce(index(c.root), pairs, c.reduction); break;
      case Collective::Kind::broadcast: share.broadcast(index(c.root), pairs); break;
      case Collective::Kind::all_gather: share.all_gather(); break;
      case Collective::Kind::reduce_scatter: share.reduce_scatter(c.reduction); break;
      case Collective::Kind::all_to_all: share.all_to_all(); break;
      case Collective::Kind::permute: share.permute(index(c.root), c.width); break;
      case Collective::Kind::barrier: break;
    }
  }
  stream.record(done);
  Collective meet;
  meet.kind = Collective::Kind::barrier;
  run_collective(communicator_, meet, members, {}, scratch_, 0);  // all have recorded
  for (std::uint32_t m = 0; m < p; ++m) {
    if (m != members.me) stream.wait(event_at(all[(m + 1) * mine.size() - 1]));
  }
}

void SharedDevice::exchange(std::span<const DeviceTransfer> transfers, DeviceStream& stream, DeviceEvent& start) {
  struct Post {
    std::uint64_t data, ready, done;
  };
  // Streams of tags have less than 2^30 numbers, so the bit is free.
  constexpr std::uint64_t answer = std::uint64_t{1} << 62;
  DeviceEvent& ready = events_.next();
  DeviceEvent& done = events_.next();
  stream.record(ready);
  std::vector<Post> mine, theirs(transfers.size());
  std::vector<Piece> out, in;
  for (const DeviceTransfer& t : transfers) mine.push_back({number_of(t.data), number_of(&ready), number_of(&done)});
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    out.push_back({reinterpret_cast<std::byte*>(&mine[i]), sizeof(Post)});
    in.push_back({reinterpret_cast<std::byte*>(&theirs[i]), sizeof(Post)});
  }
  std::vector<Message> messages;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const DeviceTransfer& t = transfers[i];
    messages.push_back({true, t.peer, t.send ? t.tag : t.tag ^ answer, std::span<const Piece>(&out[i], 1)});
    messages.push_back({false, t.peer, t.send ? t.tag ^ answer : t.tag, std::span<const Piece>(&in[i], 1)});
  }
  communicator_.exchange(messages, 0);
  for (const Post& post : theirs) stream.wait(event_at(post.ready));
  stream.record(start);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (!transfers[i].send) stream.copy(transfers[i].data, memory_at(theirs[i].data), transfers[i].bytes);
  }
  stream.record(done);
  // Receivers say that they have recorded their events; then senders wait for these on the device.
  messages.clear();
  for (const DeviceTransfer& t : transfers) messages.push_back({!t.send, t.peer, t.tag ^ answer, {}});
  communicator_.exchange(messages, 0);
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i].send) stream.wait(event_at(theirs[i].done));
  }
}

}  // namespace orrery
