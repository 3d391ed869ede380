// A library with NCCL's functions, for devices that are threads of the host
// (HostDevice): with it, all of the path to NCCL and back is tested where no GPU
// is.  Ranks may be threads or processes; they meet in files that all map.
//
// It promises no more than NCCL does and refuses what NCCL leaves undefined:
//
//   * a communicator begins, splits and launches only while it is asked how it
//     is, and must not be asked for anything else meanwhile;
//   * messages must stand in a group, and two ranks that have not spoken before
//     connect when both have asked for it, not when one has;
//   * what is asked of one communicator runs in that order, whatever the stream;
//   * members must ask for the same: every message says what it is of;
//   * a group's parts for two communicators are two kernels, one after the other;
//   * a communicator ends by finalize and destroy, or by abort, and is then no
//     handle any more; a rank that aborts frees itself, and not its peers.
//
// What breaks a rule is an error of the call, and said on standard error.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/kernels/convert.hpp"

namespace {

enum Code { success, unhandled, system_error, internal, invalid_argument, invalid_usage, remote, in_progress };
enum class Kind : std::uint32_t { message, all_reduce, reduce_scatter, all_gather, broadcast, reduce };

struct Id {
  char bytes[128];
};
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};
/// As HostStreamHandle (exec/device/host_device.hpp).
struct HostStream {
  void* stream;
  void (*call)(void* stream, void (*work)(void*), void* argument);
};

// ---- memory that all ranks of a communicator map

/// What stands before the bytes of a message.
struct Header {
  Kind kind = Kind::message;
  std::uint32_t number = 0;  ///< of the collective on its communicator
  std::uint64_t bytes = 0;
  std::int32_t type = 0, operation = 0, root = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

/// Bytes on their way from one rank to another.
struct Pipe {
  static constexpr std::uint64_t capacity = 8192;
  std::atomic<std::uint64_t> written{0}, taken{0};
  std::atomic<std::uint32_t> wanted_by_sender{0}, wanted_by_receiver{0};
  std::byte bytes[capacity];

  std::uint64_t put(const std::byte* from, std::uint64_t n) {
    const std::uint64_t at = written.load(std::memory_order_relaxed);
    n = std::min(n, capacity - (at - taken.load(std::memory_order_acquire)));
    for (std::uint64_t i = 0; i < n; ++i) bytes[(at + i) % capacity] = from[i];
    written.store(at + n, std::memory_order_release);
    return n;
  }
  std::uint64_t take(std::byte* to, std::uint64_t n) {
    const std::uint64_t at = taken.load(std::memory_order_relaxed);
    n = std::min(n, written.load(std::memory_order_acquire) - at);
    for (std::uint64_t i = 0; i < n; ++i) to[i] = bytes[(at + i) % capacity];
    taken.store(at + n, std::memory_order_release);
    return n;
  }
};

struct Choice {
  std::atomic<int> made{0};
  int color = 0, key = 0;
};

constexpr int most_ranks = 16, most_splits = 64;

struct Shared {
  std::atomic<int> arrived{0};
  Choice splits[most_splits][most_ranks];
  Pipe pipes[most_ranks][most_ranks];
};

/// The shared memory of a communicator by its name; zeros when new.
Shared* map_shared(const std::string& name) {
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

// ---- errors

std::string& last_text() {
  thread_local std::string text;
  return text;
}
std::atomic<int> broken_rules{0};

int broken(const std::string& what) {
  last_text() = what;
  broken_rules.fetch_add(1);
  std::fprintf(stderr, "nccl stand-in: %s\n", what.c_str());
  return invalid_usage;
}

// ---- communicators

struct Communicator {
  std::string name;
  int rank = 0, ranks = 0;
  Shared* shared = nullptr;
  int splits = 0;
  std::uint32_t collectives = 0;
  /// What is under way: asked, it says whether it has ended.
  std::function<bool()> under_way;
  int asked = 0;
  std::atomic<int> failed{success};
  bool finalized = false;
  std::atomic<bool> aborted{false};
  std::uint64_t launched = 0;
  std::atomic<std::uint64_t> ended{0};  ///< kernels

  ~Communicator() {
    if (shared != nullptr) munmap(shared, sizeof(Shared));
    unlink(name.c_str());
  }
};
using Pointer = std::shared_ptr<Communicator>;

std::mutex handles_mutex;
std::set<Pointer>& handles() {
  static auto* all = new std::set<Pointer>;
  return *all;
}
Pointer find(void* handle) {
  const std::lock_guard lock(handles_mutex);
  for (const Pointer& p : handles()) {
    if (p.get() == handle) return p;
  }
  return nullptr;
}
Pointer make(std::string name, int rank, int ranks) {
  auto made = std::make_shared<Communicator>();
  made->name = std::move(name);
  made->rank = rank;
  made->ranks = ranks;
  made->shared = map_shared(made->name);
  const std::lock_guard lock(handles_mutex);
  handles().insert(made);
  return made;
}

// ---- kernels

/// A message, or a collective's part of one rank and another.
struct Part {
  bool send = true;
  int peer = 0;
  Header header;
  std::byte* data = nullptr;  ///< a send only reads it
  std::uint64_t header_moved = 0, moved = 0;
  Header seen;
  [[nodiscard]] bool done() const { return header_moved == sizeof(Header) && moved == header.bytes; }
};

/// What one call asks for.
struct Call {
  Header header;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t count = 0;
  int peer = 0;
  bool send = false;
  HostStream* stream = nullptr;
  Pointer on;
};

std::size_t size_of_type(int type) {
  constexpr std::array<std::size_t, 10> sizes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? sizes[static_cast<std::size_t>(type)] : 0;
}

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

/// Sums in f64 in the order of ranks, rounded once: the same bits for all.
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

/// Gives a group's part for one communicator to the streams; asked until it can be.
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

struct Group {
  int depth = 0;
  std::vector<Call> calls;
};
Group& group() {
  thread_local Group g;
  return g;
}

int begin_under_way(const Pointer& on, std::function<bool()> what) {
  on->under_way = std::move(what);
  on->asked = 0;
  return in_progress;
}

int end_group() {
  std::vector<Call> calls;
  calls.swap(group().calls);
  std::vector<Pointer> order;
  for (const Call& c : calls) {
    if (std::find(order.begin(), order.end(), c.on) == order.end()) order.push_back(c.on);
  }
  for (const Pointer& on : order) {
    std::vector<Call> part;
    for (const Call& c : calls) {
      if (c.on == on) part.push_back(c);
    }
    begin_under_way(on, launch(on, std::move(part)));
  }
  return order.empty() ? success : in_progress;
}

/// Whether a call may be made of the communicator.
int refused(const Pointer& on, const char* name) {
  if (on == nullptr) return broken(std::string(name) + " of what is no communicator (any more)");
  if (on->under_way) return broken(std::string(name) + " while the communicator is in progress");
  if (on->finalized) return broken(std::string(name) + " of a communicator that is finalized");
  return on->failed.load();
}

int ask(Call call, void* communicator, void* stream, const char* name) {
  call.on = find(communicator);
  call.stream = static_cast<HostStream*>(stream);
  if (const int code = refused(call.on, name); code != success) return code;
  if (call.stream == nullptr) return broken(std::string(name) + " without a stream");
  if (size_of_type(call.header.type) == 0) return broken(std::string(name) + " of an unknown type");
  const int ranks = call.on->ranks;
  if (call.peer < 0 || call.peer >= ranks || call.header.root < 0 || call.header.root >= ranks) {
    return broken(std::string(name) + " with a rank that there is not");
  }
  const bool message = call.header.kind == Kind::message;
  if (message && group().depth == 0) return broken(std::string(name) + " outside a group");
  if (!message) call.header.number = call.on->collectives++;
  group().calls.push_back(std::move(call));
  return group().depth == 0 ? end_group() : success;
}

Call collective(Kind kind, const void* from, void* to, std::size_t count, int type, int operation, int root) {
  Call call;
  call.header = {kind, 0, count * size_of_type(type), type, operation, root};
  call.from = static_cast<const std::byte*>(from);
  call.to = static_cast<std::byte*>(to);
  call.count = count;
  return call;
}

bool usable(const Config* config) {
  return config != nullptr && config->magic == 0xcafebeefU && config->size >= 48 && config->version >= 21800 &&
         config->blocking == 0;
}

int stand_in_version() {
  const char* const text = std::getenv("ORRERY_NCCL_STAND_IN_VERSION");
  return text != nullptr ? std::atoi(text) : 22809;
}

}  // namespace

extern "C" {

int orrery_nccl_broken_rules() { return broken_rules.load(); }

int ncclGetVersion(int* version) {
  *version = stand_in_version();
  return success;
}

int ncclGetUniqueId(Id* id) {
  const char* const folder = std::getenv("ORRERY_NCCL_STAND_IN_FOLDER");
  std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/orrery-nccl-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0 || name.size() >= sizeof id->bytes) return system_error;
  close(file);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::memcpy(id->bytes, name.c_str(), name.size());
  return success;
}

int ncclCommInitRankConfig(void** communicator, int ranks, Id id, int rank, Config* config) {
  *communicator = nullptr;
  if (!usable(config)) return broken("ncclCommInitRankConfig with a configuration that is none, or that blocks");
  if (ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks) return invalid_argument;
  const Pointer made = make(id.bytes, rank, ranks);
  if (made->shared == nullptr) return system_error;
  *communicator = made.get();
  made->shared->arrived.fetch_add(1);
  return begin_under_way(made, [made = made.get()] { return made->shared->arrived.load() == made->ranks; });
}

int ncclCommSplit(void* communicator, int color, int key, void** part, Config* config) {
  *part = nullptr;
  const Pointer on = find(communicator);
  if (const int code = refused(on, "ncclCommSplit"); code != success) return code;
  if (!usable(config)) return broken("ncclCommSplit with a configuration that is none, or that blocks");
  if (on->splits == most_splits) return internal;
  const int number = on->splits++;
  auto& choices = on->shared->splits[number];
  choices[on->rank].color = color;
  choices[on->rank].key = key;
  choices[on->rank].made.store(1);
  return begin_under_way(on, [on = on.get(), number, color, part] {
    auto& all = on->shared->splits[number];
    for (int r = 0; r < on->ranks; ++r) {
      if (all[r].made.load() == 0) return false;
    }
    if (color < 0) return true;
    std::vector<std::pair<int, int>> members;  // by key, then by rank
    for (int r = 0; r < on->ranks; ++r) {
      if (all[r].color == color) members.emplace_back(all[r].key, r);
    }
    std::sort(members.begin(), members.end());
    const auto me = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.second == on->rank; });
    const Pointer made = make(on->name + "." + std::to_string(number) + "-" + std::to_string(color),
                              static_cast<int>(me - members.begin()), static_cast<int>(members.size()));
    made->shared->arrived.fetch_add(1);
    begin_under_way(made, [made = made.get()] { return made->shared->arrived.load() == made->ranks; });
    *part = made.get();
    return true;
  });
}

int ncclCommGetAsyncError(void* communicator, int* state) {
  const Pointer on = find(communicator);
  if (on == nullptr) return broken("ncclCommGetAsyncError of what is no communicator (any more)");
  // Never at once, so that nobody relies on it.
  if (on->under_way && on->asked++ > 0 && on->under_way()) on->under_way = nullptr;
  *state = on->failed.load();
  if (*state == success && on->under_way) *state = in_progress;
  return success;
}

int ncclCommFinalize(void* communicator) {
  const Pointer on = find(communicator);
  if (const int code = refused(on, "ncclCommFinalize"); code != success) return code;
  on->finalized = true;
  return begin_under_way(on, [on = on.get()] { return on->ended.load() == on->launched; });
}

int ncclCommDestroy(void* communicator) {
  const Pointer on = find(communicator);
  if (on == nullptr) return broken("ncclCommDestroy of what is no communicator (any more)");
  if (!on->finalized || on->under_way) return broken("ncclCommDestroy of a communicator that is not finalized");
  const std::lock_guard lock(handles_mutex);
  handles().erase(on);
  return success;
}

int ncclCommAbort(void* communicator) {
  const Pointer on = find(communicator);
  if (on == nullptr) return broken("ncclCommAbort of what is no communicator (any more)");
  on->aborted.store(true);
  on->under_way = nullptr;
  const std::lock_guard lock(handles_mutex);
  handles().erase(on);
  return success;
}

const char* ncclGetErrorString(int code) {
  constexpr std::array names{"no error",         "unhandled cuda error", "unhandled system error", "internal error",
                             "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return code >= 0 && code < static_cast<int>(names.size()) ? names[static_cast<std::size_t>(code)] : "unknown";
}
const char* ncclGetLastError(void*) { return last_text().c_str(); }

int ncclGroupStart() {
  ++group().depth;
  return success;
}
int ncclGroupEnd() {
  if (group().depth == 0) return broken("ncclGroupEnd without a beginning");
  return --group().depth == 0 ? end_group() : success;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* c, void* stream) {
  return ask(collective(Kind::all_reduce, from, to, count, type, op, 0), c, stream, "ncclAllReduce");
}
int ncclReduceScatter(const void* from, void* to, std::size_t each, int type, int op, void* c, void* stream) {
  return ask(collective(Kind::reduce_scatter, from, to, each, type, op, 0), c, stream, "ncclReduceScatter");
}
int ncclAllGather(const void* from, void* to, std::size_t each, int type, void* c, void* stream) {
  return ask(collective(Kind::all_gather, from, to, each, type, 0, 0), c, stream, "ncclAllGather");
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* c, void* stream) {
  return ask(collective(Kind::broadcast, from, to, count, type, 0, root), c, stream, "ncclBroadcast");
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root, void* c, void* stream) {
  return ask(collective(Kind::reduce, from, to, count, type, op, root), c, stream, "ncclReduce");
}
int ncclSend(const void* from, std::size_t count, int type, int peer, void* c, void* stream) {
  Call call = collective(Kind::message, from, nullptr, count, type, 0, 0);
  call.peer = peer;
  call.send = true;
  return ask(std::move(call), c, stream, "ncclSend");
}
int ncclRecv(void* to, std::size_t count, int type, int peer, void* c, void* stream) {
  Call call = collective(Kind::message, nullptr, to, count, type, 0, 0);
  call.peer = peer;
  return ask(std::move(call), c, stream, "ncclRecv");
}

}  // extern "C"
