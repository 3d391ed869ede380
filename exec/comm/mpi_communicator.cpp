#include "exec/comm/mpi_communicator.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/clock_offset.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/mpi_calls.hpp"
#include "exec/kernels/combine.hpp"

namespace orrery {
namespace {

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A text that is equal where processes share a clock: the same boot of the same kernel.
std::array<char, 64> boot_of_this_host() {
  std::array<char, 64> id{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(id.data(), id.size() - 1);
  if (id[0] == '\0') gethostname(id.data(), id.size() - 1);
  return id;
}

const MpiCalls* load(const std::filesystem::path& module) {
  std::error_code ignored;
  if (!std::filesystem::exists(module, ignored)) {
    throw Error("this orrery was built without MPI: there is no " + module.string() +
                ".  Where an MPI library is installed (Debian: libopenmpi-dev), building again makes it.");
  }
  // The library loads parts of its own, which look for its symbols.
  void* const handle = dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw Error(std::string("cannot load MPI: ") + dlerror());
  const auto* calls = static_cast<const MpiCalls*>(dlsym(handle, mpi_calls_symbol));
  if (calls == nullptr || calls->version != MpiCalls::current) {
    throw Error(module.string() + " belongs to another version of orrery");
  }
  return calls;
}

}  // namespace

MpiSession::MpiSession(const std::filesystem::path& module) : calls_(load(module)) {
  int rank = 0, ranks = 1;
  require(calls_->start(&rank, &ranks, &threads_, &largest_tag_), "start MPI");
  rank_ = Rank{static_cast<std::uint32_t>(rank)};
  ranks_ = static_cast<std::uint32_t>(ranks);
  const auto boots = all_gather(boot_of_this_host());
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (boots[r] == boots[index(rank_)]) neighbours_.push_back(Rank{r});
    shares_clock_.push_back(boots[r] == boots[0]);
  }
}

MpiSession::~MpiSession() { calls_->finish(); }

std::string MpiSession::library() const { return calls_->library(); }

void MpiSession::require(int code, const char* what) const {
  if (code != 0) throw Error(std::string("cannot ") + what + ": " + calls_->error_text(code));
}

void MpiSession::gather_bytes(const void* mine, void* all, std::size_t bytes) {
  require(calls_->all_gather(mine, all, bytes), "reach all MPI processes");
}

void MpiSession::abort(int status) {
  calls_->abort(status);
  _exit(status);
}

int mpi_tag(std::uint64_t tag, std::int64_t largest) {
  // Streams of Issuer's tags: groups count from 0 on, channels of exchanges from 2^31 on, and just below that are two
  // of our own.
  constexpr std::uint32_t first_channel = 0x80000000U, channels = 256, own = 2;
  const auto stream = static_cast<std::uint32_t>(tag >> 32);
  const auto number = static_cast<std::uint32_t>(tag);
  std::uint64_t dense = std::uint64_t{stream} + channels + own;  // a group
  if (stream >= first_channel) {
    dense = stream - first_channel + own;
  } else if (stream >= first_channel - own) {
    dense = first_channel - 1 - stream;
  }
  constexpr std::uint64_t streams = 2048;
  const auto numbers = static_cast<std::uint64_t>(largest) / streams;
  constexpr std::uint64_t unfinished = 1024;  // ops of a rank, at most (Lanes::most_unfinished)
  if (dense >= streams || numbers < 2 * unfinished) {
    throw Error("this MPI has tags up to " + std::to_string(largest) + " only, too few for the plan's groups");
  }
  return static_cast<int>(dense * numbers + number % numbers);
}

/// One thread's end.
class MpiWorld::Endpoint final : public Communicator {
 public:
  Endpoint(MpiWorld& world, bool patient)
      : world_(world), calls_(world.session_.calls()), patient_(patient), batch_(calls_.make_batch()) {}
  ~Endpoint() override {
    if (!world_.aborted()) calls_.drop_batch(batch_);  // else MPI may still write into what it holds
  }

  [[nodiscard]] Rank rank() const override { return world_.rank(); }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return sent_; }

  std::int64_t exchange(std::span<const Message> messages, std::int64_t ready) override {
    if (messages.empty()) return ready;
    if (world_.aborted()) throw Aborted{};
    own_ready_ = ready;
    partners_ready_.assign(messages.size(), unknown);
    for (std::size_t i = 0; i < messages.size(); ++i) post(messages[i], partners_ready_[i]);
    wait([&] {
      const auto open = std::find(partners_ready_.begin(), partners_ready_.end(), unknown);
      const auto which = open == partners_ready_.end() ? 0 : open - partners_ready_.begin();
      return messages[static_cast<std::size_t>(which)].peer;
    });
    for (const std::int64_t partner : partners_ready_) ready = std::max(ready, partner);
    return ready;
  }

  std::optional<std::int64_t> library_collective(const Collective& c, const Members& members,
                                                 std::span<const MemoryView> views, std::int64_t ready) override {
    using Kind = Collective::Kind;
    const std::uint64_t number = members.tag >> 32;
    if (members.size() < 2 || c.kind == Kind::permute || c.kind == Kind::barrier || views.empty()) return std::nullopt;
    if (number >= world_.groups_.size() || world_.groups_[number] == nullptr) return std::nullopt;
    if (world_.aborted()) throw Aborted{};
    const Steps steps = steps_of(c, members, views);
    for (const MpiCalls::Vector& v : steps.vectors) {
      world_.session_.require(calls_.collective(batch_, world_.groups_[number], v), "begin one of its own collectives");
    }
    // It is not known who is late. So each waits for the next, and the last in that chain is the one that does not
    // wait.
    const Rank next = members.ranks[(members.me + 1) % members.size()];
    wait([&] { return next; });
    const std::byte* sum = sums_.data();
    for (const MemoryView& v : steps.results) {
      if (v.use == View::Use::accumulate) {
        combine(v.dtype, c.reduction, v.data, sum, v.count);
      } else {
        std::memcpy(v.data, sum, v.count * size_of(v.dtype));
      }
      sum += v.count * size_of(v.dtype);
    }
    return ready;
  }

 private:
  /// The calls to MPI, and the views into which sums_ goes after them.
  struct Steps {
    std::vector<MpiCalls::Vector> vectors;
    std::vector<MemoryView> results;
  };

  /// One of MPI's collectives for each view or pair of views.
  Steps steps_of(const Collective& c, const Members& members, std::span<const MemoryView> views) {
    using Kind = Collective::Kind;
    const std::uint64_t p = members.size();
    const bool pairs = views.size() >= 2 && views[0].use == View::Use::read && views[1].use != View::Use::read;
    const bool is_root = members.me == index(c.root);
    Steps steps;
    const auto ask = [&](const MemoryView& like, const std::byte* from, std::byte* into, std::uint64_t count) {
      if (count == 0) return;
      steps.vectors.push_back({c.kind, c.reduction, static_cast<int>(index(c.root)), like.dtype, from, into, count});
    };
    // Sums that are added to existing values, or whose place MPI must not write while it reads, come to sums_ first.
    std::uint64_t bytes = 0;
    for (const MemoryView& v : views) bytes += v.count * size_of(v.dtype);
    std::byte* sum = nullptr;
    if (c.kind == Kind::reduce_scatter || (c.kind == Kind::reduce && pairs && is_root)) {
      sums_.resize(bytes);
      sum = sums_.data();
    }
    const std::size_t stride =
        pairs || c.kind == Kind::all_gather || c.kind == Kind::reduce_scatter || c.kind == Kind::all_to_all ? 2 : 1;
    for (std::size_t i = 0; i + stride <= views.size(); i += stride) {
      const MemoryView& a = views[i];
      const MemoryView& b = views[i + stride - 1];
      const std::uint64_t part = a.count * size_of(a.dtype);
      switch (c.kind) {
        case Kind::all_reduce: ask(a, nullptr, a.data, a.count); break;
        case Kind::broadcast:
          if (pairs && is_root && part > 0) std::memmove(b.data, a.data, part);
          ask(b, nullptr, b.data, b.count);
          break;
        case Kind::reduce:
          if (sum != nullptr) {
            ask(a, a.data, sum, a.count);
            steps.results.push_back(b);
            sum += b.count * size_of(b.dtype);
          } else {
            ask(a, is_root ? nullptr : a.data, is_root ? a.data : nullptr, a.count);
          }
          break;
        case Kind::all_gather: ask(a, a.data == b.data + members.me * part ? nullptr : a.data, b.data, a.count); break;
        case Kind::reduce_scatter:
          ask(a, a.data, sum, b.count);
          steps.results.push_back(b);
          sum += b.count * size_of(b.dtype);
          break;
        case Kind::all_to_all: ask(a, a.data, b.data, a.count / p); break;
        case Kind::permute:
        case Kind::barrier: break;
      }
    }
    return steps;
  }

  static constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::min();

  void post(const Message& m, std::int64_t& partner_ready) {
    const int peer = static_cast<int>(index(m.peer));
    const int tag = mpi_tag(m.tag, world_.session_.largest_tag());
    const MpiCalls::Bytes own{reinterpret_cast<std::byte*>(&own_ready_), sizeof own_ready_};
    const MpiCalls::Bytes theirs{reinterpret_cast<std::byte*>(&partner_ready), sizeof partner_ready};
    pieces_.assign(1, m.send ? own : theirs);
    for (const Piece& p : m.pieces) {
      pieces_.push_back({p.data, p.bytes});
      if (m.send) sent_ += p.bytes;
    }
    const auto moves = m.send ? calls_.send : calls_.receive;
    const auto answers = m.send ? calls_.receive : calls_.send;
    world_.session_.require(moves(batch_, MpiCalls::payload, peer, tag, pieces_.data(), pieces_.size()),
                            "exchange a message");
    world_.session_.require(answers(batch_, MpiCalls::acknowledgement, peer, tag, m.send ? &theirs : &own, 1),
                            "exchange a message");
  }

  /// Waits until all messages of the batch are done. `partner` names a rank that this one waits for.
  template <class Partner>
  void wait(const Partner& partner) {
    const std::int64_t began = steady_ns();
    // Where others need the core, a long wait gives it up for longer than a turn.
    const std::uint64_t looks_before_sleep = world_.options_.crowded ? 200 : 20000;
    bool told = false;
    for (std::uint64_t look = 0;; ++look) {
      bool done = false;
      world_.session_.require(calls_.test(batch_, &done), "exchange a message");
      if (done) break;
      if (world_.aborted()) throw Aborted{};
      if (world_.options_.crowded) std::this_thread::yield();
      if (look < looks_before_sleep) continue;
      // The longer it has waited, the less a sleep adds.
      const std::uint64_t slept = look - looks_before_sleep;
      std::this_thread::sleep_for(std::chrono::microseconds(std::clamp<std::uint64_t>(slept, 20, 1000)));
      if (slept % 32 != 0) continue;
      const Rank whom = partner();
      if (!told && world_.options_.waiting) world_.options_.waiting(whom);
      told = true;
      give_up_if_late(began, whom);
    }
    if (told && world_.options_.waiting) world_.options_.waiting(std::nullopt);
  }

  void give_up_if_late(std::int64_t began, Rank peer) {
    const double limit = world_.options_.watchdog.base();
    const std::int64_t met = world_.options_.last_end ? world_.options_.last_end() : 0;
    if (patient_ || static_cast<double>(steady_ns() - std::max(began, met)) * 1e-9 < limit) return;
    world_.abort(waited_text(rank(), peer, limit));
    throw Aborted{};
  }

  MpiWorld& world_;
  const MpiCalls& calls_;
  bool patient_;
  void* batch_;
  std::int64_t own_ready_ = 0;
  std::vector<std::int64_t> partners_ready_;
  std::vector<MpiCalls::Bytes> pieces_;
  std::vector<std::byte> sums_;  ///< of a collective of MPI's own under way
  std::uint64_t sent_ = 0;
};

MpiWorld::MpiWorld(MpiSession& session, WaitOptions options, std::optional<std::uint32_t> ranks)
    : session_(session), options_(std::move(options)), ranks_(ranks.value_or(session.ranks())) {
  ORRERY_ASSERT(index(session.rank()) < ranks_ && ranks_ <= session.ranks(), session.rank(), ranks_);
  if (options_.ends > 1 && !session.threads()) {
    throw Error(session.library() + " does not allow threads, but lanes side by side need them");
  }
  options_.crowded = std::uint64_t{session.neighbours().size()} * options_.ends > std::thread::hardware_concurrency();
  for (std::uint32_t e = 0; e <= options_.ends; ++e) {
    endpoints_.push_back(std::make_unique<Endpoint>(*this, e == options_.ends));
  }
  std::vector<bool> shares_clock;
  for (std::uint32_t r = 0; r < ranks_; ++r) shares_clock.push_back(session.shares_clock(Rank{r}));
  clock_offset_ = measured_clock_offset(control(), shares_clock);
}

MpiWorld::~MpiWorld() {
  if (aborted()) return;  // others may never come to give theirs back
  for (void* group : groups_) {
    if (group != nullptr) session_.calls().drop_group(group);
  }
}

void MpiWorld::use_library_collectives(const std::vector<std::vector<Rank>>& groups) {
  ORRERY_ASSERT(options_.ends == 1, options_.ends);
  for (const std::vector<Rank>& group : groups) {
    std::vector<int> ranks;
    for (const Rank r : group) ranks.push_back(static_cast<int>(index(r)));
    groups_.push_back(nullptr);
    if (group.size() < 2 || std::find(group.begin(), group.end(), rank()) == group.end()) continue;
    session_.require(session_.calls().make_group(ranks.data(), ranks.size(), combine, &groups_.back()),
                     "make a communicator of a group");
  }
}

Communicator& MpiWorld::communicator(Rank rank, std::uint32_t end) {
  ORRERY_ASSERT(rank == session_.rank() && end < options_.ends, rank, end, options_.ends);
  return *endpoints_[end];
}

Communicator& MpiWorld::control() { return *endpoints_.back(); }

void MpiWorld::abort(const std::string& reason) {
  const std::lock_guard lock(reason_mutex_);
  if (aborted()) return;
  reason_ = reason;
  aborted_.store(true, std::memory_order_release);
}

std::string MpiWorld::reason() const {
  const std::lock_guard lock(reason_mutex_);
  return reason_;
}

}  // namespace orrery
