// A library with NCCL's functions, for devices that are threads of the host (HostDevice). With it, the whole path to
// NCCL and back is tested without a GPU. Ranks may be threads or processes; they meet in files that all of them map.
//
// It promises no more than NCCL does and refuses what NCCL leaves undefined:
//
//   * a communicator begins, splits and launches only while it is asked for its state, and must not be asked for
//     anything else meanwhile;
//   * messages must stand in a group, and two ranks that have not spoken before
//     connect when both have asked for it, not when one has;
//   * calls on one communicator run in their order, whatever the stream;
//   * members must ask for the same: every message says what it belongs to;
//   * a group's parts for two communicators are two kernels, one after the other;
//   * a communicator ends by finalize and destroy, or by abort, and is then no
//     handle any more; a rank that aborts frees itself, and not its peers.
//
// A broken rule is an error of the call, and is reported on standard error.

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/nccl_stand_in/kernel.hpp"

using namespace orrery::test::nccl_stand_in;

namespace {

struct Id {
  char bytes[128];
};
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};
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

/// Whether the call must not be made on the communicator.
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

int orrery_nccl_broken_rules() { return broken_rules(); }

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
  // It is never ready at once, so that no code relies on that.
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
  forget(on);
  return success;
}

int ncclCommAbort(void* communicator) {
  const Pointer on = find(communicator);
  if (on == nullptr) return broken("ncclCommAbort of what is no communicator (any more)");
  on->aborted.store(true);
  on->under_way = nullptr;
  forget(on);
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
