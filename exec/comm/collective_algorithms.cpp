#include "exec/comm/collective_algorithms.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/combine.hpp"

namespace orrery {
namespace {

/// One collective under way on one rank.
class Run {
 public:
  Run(Communicator& communicator, const Members& members, CollectiveScratch& scratch, std::int64_t ready)
      : communicator_(communicator), members_(members), scratch_(scratch), p_(members.size()), ready_(ready) {}

  std::int64_t all_reduce(std::span<const MemoryView> views, Collective::Reduction reduction) {
    const DType dtype = views[0].dtype;
    const std::uint64_t n = total(views);
    scratch_.received.resize(((n + p_ - 1) / p_) * size_of(dtype));
    for (std::uint32_t t = 0; t + 1 < p_; ++t) {
      const std::uint32_t sent = chunk(members_.me + 2 * p_ - 1 - t);
      const std::uint32_t taken = chunk(members_.me + 2 * p_ - 2 - t);
      put(scratch_.out, views, n, sent);
      scratch_.in.assign(1, {scratch_.received.data(), chunk_count(n, taken) * size_of(dtype)});
      ring_step();
      put(scratch_.in, views, n, taken);
      add(dtype, reduction, scratch_.in, scratch_.received.data());
    }
    for (std::uint32_t t = 0; t + 1 < p_; ++t) {
      put(scratch_.out, views, n, chunk(members_.me + p_ - t));
      put(scratch_.in, views, n, chunk(members_.me + 2 * p_ - 1 - t));
      ring_step();
    }
    return ready_;
  }

  /// Takes pairs (whole, part). The part may lie inside the whole: it is written last.
  std::int64_t reduce_scatter(std::span<const MemoryView> views, Collective::Reduction reduction) {
    const DType dtype = views[0].dtype;
    std::uint64_t bytes = 0;
    for (std::size_t i = 1; i < views.size(); i += 2) bytes += views[i].count * size_of(dtype);
    scratch_.received.resize(bytes);
    scratch_.partial.resize(bytes);
    for (std::uint32_t t = 0; t + 1 < p_; ++t) {
      const std::uint32_t sent = chunk(members_.me + 2 * p_ - 1 - t);
      const std::uint32_t taken = chunk(members_.me + 2 * p_ - 2 - t);
      if (t == 0) {
        parts(scratch_.out, views, 0, sent);
      } else {
        scratch_.out.assign(1, {scratch_.partial.data(), bytes});
      }
      scratch_.in.assign(1, {scratch_.received.data(), bytes});
      ring_step();
      // The chunk travels on with this rank's share added.
      parts(scratch_.in, views, 0, taken);
      std::byte* at = scratch_.received.data();
      for (const Piece& own : scratch_.in) {
        combine(dtype, reduction, at, own.data, own.bytes / size_of(dtype));
        at += own.bytes;
      }
      scratch_.received.swap(scratch_.partial);
    }
    const std::byte* from = scratch_.partial.data();
    for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
      const std::uint64_t size = views[i + 1].count * size_of(dtype);
      if (p_ == 1) from = views[i].data;
      if (views[i + 1].use == View::Use::accumulate) {
        combine(dtype, reduction, views[i + 1].data, from, views[i + 1].count);
      } else if (size > 0) {
        std::memmove(views[i + 1].data, from, size);
      }
      from += size;
    }
    return ready_;
  }

  /// Takes pairs (part, whole). The part may already lie in its place in the whole.
  std::int64_t all_gather(std::span<const MemoryView> views) {
    for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
      const std::uint64_t size = views[i].count * size_of(views[i].dtype);
      if (size > 0) std::memmove(views[i + 1].data + members_.me * size, views[i].data, size);
    }
    for (std::uint32_t t = 0; t + 1 < p_; ++t) {
      parts(scratch_.out, views, 1, chunk(members_.me + p_ - t));
      parts(scratch_.in, views, 1, chunk(members_.me + 2 * p_ - 1 - t));
      ring_step();
    }
    return ready_;
  }

  std::int64_t broadcast(std::span<const MemoryView> views, std::uint32_t root) {
    const std::uint32_t place = (members_.me + p_ - root) % p_;  // in the chain
    const bool pairs = are_pairs(views);
    if (pairs && place == 0) {
      for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
        std::memmove(views[i + 1].data, views[i].data, views[i].count * size_of(views[i].dtype));
      }
    }
    all(scratch_.in, views, pairs ? 1 : 0, pairs ? 2 : 1);
    if (place > 0) step(std::nullopt, previous());
    if (place + 1 < p_) step(next(), std::nullopt, scratch_.in);
    return ready_;
  }

  std::int64_t reduce(std::span<const MemoryView> views, Collective::Reduction reduction, std::uint32_t root) {
    const DType dtype = views[0].dtype;
    const bool pairs = are_pairs(views);
    const std::uint64_t bytes = total(views) / (pairs ? 2 : 1) * size_of(dtype);
    const std::uint32_t place = (members_.me + p_ - root + p_ - 1) % p_;  // root is last
    if (pairs && members_.me == root) {
      for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
        if (views[i + 1].use == View::Use::accumulate) {
          combine(dtype, reduction, views[i + 1].data, views[i].data, views[i].count);
        } else {
          std::memmove(views[i + 1].data, views[i].data, views[i].count * size_of(dtype));
        }
      }
      all(scratch_.out, views, 1, 2);
    } else {
      all(scratch_.out, views, 0, pairs ? 2 : 1);
    }
    if (p_ == 1) return ready_;
    if (place == 0) {
      if (p_ > 1) step(next(), std::nullopt, scratch_.out);
      return ready_;
    }
    scratch_.received.resize(bytes);
    scratch_.in.assign(1, {scratch_.received.data(), bytes});
    step(std::nullopt, previous());
    if (members_.me == root) {
      add(dtype, reduction, scratch_.out, scratch_.received.data());
      return ready_;
    }
    std::byte* at = scratch_.received.data();
    for (const Piece& own : scratch_.out) {
      combine(dtype, reduction, at, own.data, own.bytes / size_of(dtype));
      at += own.bytes;
    }
    step(next(), std::nullopt, scratch_.in);
    return ready_;
  }

  /// Takes pairs (read, write), both cut into equal parts per peer.
  std::int64_t all_to_all(std::span<const MemoryView> views) {
    for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
      const std::uint64_t size = views[i].count / p_ * size_of(views[i].dtype);
      std::memcpy(views[i + 1].data + members_.me * size, views[i].data + members_.me * size, size);
    }
    for (std::uint32_t t = 1; t < p_; ++t) {
      const std::uint32_t to = chunk(members_.me + t);
      const std::uint32_t from = chunk(members_.me + p_ - t);
      parts(scratch_.out, views, 0, to);
      parts(scratch_.in, views, 1, from);
      step(to, from, scratch_.out);
    }
    return ready_;
  }

  /// Takes pairs (read, write), and sends to the member `distance` places on in its ring of `width`.
  std::int64_t permute(std::span<const MemoryView> views, std::uint32_t distance, std::uint32_t width) {
    if (width == 0) width = p_;
    const std::uint32_t first = members_.me / width * width;
    const std::uint32_t place = members_.me - first;
    distance %= width;
    if (distance == 0) {
      for (std::size_t i = 0; i + 1 < views.size(); i += 2) {
        std::memmove(views[i + 1].data, views[i].data, views[i].count * size_of(views[i].dtype));
      }
      return ready_;
    }
    all(scratch_.out, views, 0, 2);
    all(scratch_.in, views, 1, 2);
    step(first + (place + distance) % width, first + (place + width - distance) % width, scratch_.out);
    return ready_;
  }

  std::int64_t barrier() {
    scratch_.out.clear();
    scratch_.in.clear();
    for (std::uint32_t distance = 1; distance < p_; distance *= 2) {
      step(chunk(members_.me + distance), chunk(members_.me + p_ - distance), scratch_.out);
    }
    return ready_;
  }

 private:
  [[nodiscard]] std::uint32_t chunk(std::uint32_t c) const { return c % p_; }
  [[nodiscard]] std::uint32_t next() const { return (members_.me + 1) % p_; }
  [[nodiscard]] std::uint32_t previous() const { return (members_.me + p_ - 1) % p_; }
  [[nodiscard]] std::uint64_t begin(std::uint64_t n, std::uint64_t c) const { return c * n / p_; }
  [[nodiscard]] std::uint64_t chunk_count(std::uint64_t n, std::uint32_t c) const {
    return begin(n, c + 1) - begin(n, c);
  }
  static std::uint64_t total(std::span<const MemoryView> views) {
    std::uint64_t n = 0;
    for (const MemoryView& v : views) n += v.count;
    return n;
  }

  static bool are_pairs(std::span<const MemoryView> views) {
    return views.size() >= 2 && views[0].use == View::Use::read && views[1].use != View::Use::read;
  }
  /// Adds every `stride`-th view from `first` on.
  static void all(std::vector<Piece>& pieces, std::span<const MemoryView> views, std::size_t first = 0,
                  std::size_t stride = 1) {
    pieces.clear();
    for (std::size_t i = first; i < views.size(); i += stride) {
      pieces.push_back({views[i].data, views[i].count * size_of(views[i].dtype)});
    }
  }
  /// Adds chunk c of the views, taken as one vector of n elements.
  void put(std::vector<Piece>& pieces, std::span<const MemoryView> views, std::uint64_t n, std::uint32_t c) const {
    pieces.clear();
    const std::uint64_t first = begin(n, c);
    const std::uint64_t last = begin(n, c + 1);
    std::uint64_t at = 0;
    for (const MemoryView& v : views) {
      const std::uint64_t low = std::max(first, at);
      const std::uint64_t high = std::min(last, at + v.count);
      if (low < high) pieces.push_back({v.data + (low - at) * size_of(v.dtype), (high - low) * size_of(v.dtype)});
      at += v.count;
    }
  }
  /// Adds part c of every second view from `first` on: equal parts of each.
  void parts(std::vector<Piece>& pieces, std::span<const MemoryView> views, std::size_t first, std::uint32_t c) const {
    pieces.clear();
    for (std::size_t i = first; i < views.size(); i += 2) {
      const std::uint64_t size = views[i].count / p_ * size_of(views[i].dtype);
      pieces.push_back({views[i].data + c * size, size});
    }
  }
  static void add(DType dtype, Collective::Reduction reduction, std::span<const Piece> sums, const std::byte* from) {
    for (const Piece& sum : sums) {
      combine(dtype, reduction, sum.data, from, sum.bytes / size_of(dtype));
      from += sum.bytes;
    }
  }

  void ring_step() { step(next(), previous(), scratch_.out); }
  /// Sends `out` to a peer, receives scratch_.in from another, or only one of the two.
  void step(std::optional<std::uint32_t> to, std::optional<std::uint32_t> from, std::span<const Piece> out = {}) {
    Message messages[2];
    std::size_t n = 0;
    if (to) messages[n++] = {true, members_.ranks[*to], members_.tag, out};
    if (from) messages[n++] = {false, members_.ranks[*from], members_.tag, scratch_.in};
    ready_ = communicator_.exchange(std::span<const Message>(messages, n), ready_);
  }

  Communicator& communicator_;
  const Members& members_;
  CollectiveScratch& scratch_;
  std::uint32_t p_;
  std::int64_t ready_;
};

}  // namespace

std::int64_t run_collective(Communicator& communicator, const Collective& collective, const Members& members,
                            std::span<const MemoryView> views, CollectiveScratch& scratch, std::int64_t ready) {
  for (const MemoryView& v : views) ORRERY_ASSERT(v.dtype == views[0].dtype, v.dtype);
  Run run(communicator, members, scratch, ready);
  if (collective.kind == Collective::Kind::barrier) return run.barrier();
  if (views.empty()) return ready;
  switch (collective.kind) {
    case Collective::Kind::all_reduce: return run.all_reduce(views, collective.reduction);
    case Collective::Kind::reduce: return run.reduce(views, collective.reduction, index(collective.root));
    case Collective::Kind::broadcast: return run.broadcast(views, index(collective.root));
    case Collective::Kind::all_gather: return run.all_gather(views);
    case Collective::Kind::reduce_scatter: return run.reduce_scatter(views, collective.reduction);
    case Collective::Kind::all_to_all: return run.all_to_all(views);
    case Collective::Kind::permute: return run.permute(views, index(collective.root), collective.width);
    case Collective::Kind::barrier: break;
  }
  return ready;
}

}  // namespace orrery
