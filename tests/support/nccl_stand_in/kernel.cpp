#include "tests/support/nccl_stand_in/kernel.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "exec/kernels/convert.hpp"

namespace orrery::test::nccl_stand_in {

std::size_t size_of_type(int type) {
  constexpr std::array<std::size_t, 10> sizes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? sizes[static_cast<std::size_t>(type)] : 0;
}

namespace {

/// A message, or the part of a collective between one rank and another.
struct Part {
  bool send = true;
  int peer = 0;
  Header header;
  std::byte* data = nullptr;  ///< a send only reads it
  std::uint64_t header_moved = 0, moved = 0;
  Header seen;
  [[nodiscard]] bool done() const { return header_moved == sizeof(Header) && moved == header.bytes; }
};

double load(const std::byte* at, int type) {
  const auto as = [&]<class T>(T) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case 1: return as(std::uint8_t{});
    case 2: return as(std::int32_t{});
    case 6: return orrery::from_f16(as(std::uint16_t{}));
    case 7: return as(float{});
    case 8: return as(double{});
    case 9: return orrery::from_bf16(as(std::uint16_t{}));
    default: std::abort();
  }
}

void store(std::byte* at, int type, double value) {
  const auto as = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (type) {
    case 1: return as(static_cast<std::uint8_t>(value));
    case 2: return as(static_cast<std::int32_t>(value));
    case 6: return as(orrery::f16_of(static_cast<float>(value)));
    case 7: return as(static_cast<float>(value));
    case 8: return as(value);
    case 9: return as(orrery::bf16_of(static_cast<float>(value)));
    default: std::abort();
  }
}

/// Sums in f64 in the order of ranks, rounded once, so that all ranks get the same bits.
void combine(std::byte* to, const std::vector<const std::byte*>& parts, std::uint64_t count, int type, int operation) {
  const std::size_t size = size_of_type(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    double value = load(parts[0] + i * size, type);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const double other = load(parts[p] + i * size, type);
      value = operation == 0 ? value + other : std::max(value, other);
    }
    store(to + i * size, type, value);
  }
}

/// One kernel: moves the parts of a group's messages together, or one collective.
class Kernel {
 public:
  Kernel(Pointer on, std::uint64_t number) : on_(std::move(on)), number_(number) {}
  void add(Call call) { calls_.push_back(std::move(call)); }

  void run() {
    wait_until([&] { return on_->ended.load() == number_; });
    std::vector<Part> messages;
    for (const Call& c : calls_) {
      if (c.header.kind == Kind::message) {
        messages.push_back({c.send, c.peer, c.header, const_cast<std::byte*>(c.send ? c.from : c.to), 0, 0, {}});
      } else {
        move_all(messages);
        messages.clear();
        collective(c);
      }
    }
    move_all(messages);
    on_->ended.fetch_add(1);
  }

 private:
  template <class Ready>
  void wait_until(Ready ready) const {
    for (int look = 0; !on_->aborted.load() && !ready(); ++look) {
      if (look < 50) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  void move_all(std::vector<Part>& parts) {
    wait_until([&] {
      bool all = true;
      std::set<std::pair<bool, int>> busy;
      for (Part& p : parts) {
        if (!p.done() && !busy.contains({p.send, p.peer})) move(p);
        if (p.done()) continue;
        busy.insert({p.send, p.peer});
        all = false;
      }
      return all || on_->failed.load() != success;
    });
  }

  void move(Part& p) {
    Pipe& pipe = p.send ? on_->shared->pipes[on_->rank][p.peer] : on_->shared->pipes[p.peer][on_->rank];
    const bool had_header = p.header_moved == sizeof(Header);
    if (!had_header) {
      std::byte* const at = reinterpret_cast<std::byte*>(p.send ? &p.header : &p.seen) + p.header_moved;
      const std::uint64_t left = sizeof(Header) - p.header_moved;
      p.header_moved += p.send ? pipe.put(at, left) : pipe.take(at, left);
      if (p.header_moved < sizeof(Header)) return;
    }
    if (!had_header && !p.send && !(p.seen == p.header)) {
      on_->failed.store(broken("rank " + std::to_string(on_->rank) + " wants " + text(p.header) + " from rank " +
                               std::to_string(p.peer) + ", which sends " + text(p.seen)));
      return;
    }
    const std::uint64_t left = p.header.bytes - p.moved;
    p.moved += p.send ? pipe.put(p.data + p.moved, left) : pipe.take(p.data + p.moved, left);
  }

  static std::string text(const Header& h) {
    return "kind " + std::to_string(static_cast<int>(h.kind)) + " number " + std::to_string(h.number) + " of " +
           std::to_string(h.bytes) + " bytes, type " + std::to_string(h.type) + ", operation " +
           std::to_string(h.operation) + ", root " + std::to_string(h.root);
  }

  void collective(const Call& c) {
    const auto n = static_cast<std::size_t>(on_->ranks);
    const auto me = static_cast<std::size_t>(on_->rank);
    const auto root = static_cast<std::size_t>(c.header.root);
    const std::uint64_t bytes = c.header.bytes;  // of one part
    std::vector<std::vector<std::byte>> came(n);
    std::vector<Part> parts;
    const bool cut = c.header.kind == Kind::reduce_scatter;
    const bool from_root = c.header.kind == Kind::broadcast;
    const bool to_root = c.header.kind == Kind::reduce;
    for (std::size_t peer = 0; peer < n; ++peer) {
      if (peer == me) continue;
      if (from_root ? me == root : !to_root || peer == root) {
        parts.push_back({true,
                         static_cast<int>(peer),
                         c.header,
                         const_cast<std::byte*>(c.from) + (cut ? peer * bytes : 0),
                         0,
                         0,
                         {}});
      }
      if (from_root ? peer == root : !to_root || me == root) {
        came[peer].resize(bytes);
        parts.push_back({false, static_cast<int>(peer), c.header, came[peer].data(), 0, 0, {}});
      }
    }
    const std::byte* const own = c.from + (cut ? me * bytes : 0);
    came[me].assign(own, own + bytes);
    move_all(parts);
    if (on_->aborted.load() || on_->failed.load() != success) return;
    switch (c.header.kind) {
      case Kind::message: break;
      case Kind::broadcast: std::copy_n(came[root].data(), bytes, c.to); break;
      case Kind::all_gather:
        for (std::size_t peer = 0; peer < n; ++peer) std::copy_n(came[peer].data(), bytes, c.to + peer * bytes);
        break;
      case Kind::reduce:
        if (me != root) break;
        [[fallthrough]];
      case Kind::all_reduce:
      case Kind::reduce_scatter: {
        std::vector<const std::byte*> all;
        for (const auto& part : came) all.push_back(part.data());
        combine(c.to, all, c.count, c.header.type, c.header.operation);
      }
    }
  }

  Pointer on_;
  std::uint64_t number_;
  std::vector<Call> calls_;
};

}  // namespace

std::function<bool()> launch(Pointer on, std::vector<Call> calls) {
  return [on, calls = std::move(calls)] {
    bool connected = true;
    for (const Call& c : calls) {
      if (c.header.kind != Kind::message) continue;
      Pipe& pipe = c.send ? on->shared->pipes[on->rank][c.peer] : on->shared->pipes[c.peer][on->rank];
      (c.send ? pipe.wanted_by_sender : pipe.wanted_by_receiver).store(1);
      connected = connected && (c.send ? pipe.wanted_by_receiver : pipe.wanted_by_sender).load() == 1;
    }
    if (!connected) return false;
    std::vector<HostStream*> streams;
    for (const Call& c : calls) {
      if (std::find(streams.begin(), streams.end(), c.stream) == streams.end()) streams.push_back(c.stream);
    }
    for (HostStream* stream : streams) {
      auto* kernel = new Kernel(on, on->launched++);
      for (const Call& c : calls) {
        if (c.stream == stream) kernel->add(c);
      }
      stream->call(
          stream->stream,
          [](void* argument) {
            const std::unique_ptr<Kernel> mine(static_cast<Kernel*>(argument));
            mine->run();
          },
          kernel);
    }
    return true;
  };
}

}  // namespace orrery::test::nccl_stand_in
