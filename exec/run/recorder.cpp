#include "exec/run/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t magic = 0x3174636552727245ULL;  // "ErrRect1" in a hex dump
constexpr std::uint32_t nobody = ~std::uint32_t{0};
constexpr std::size_t most_threads = lane_count + 1;

/// An op of the ring; `number` is written last, and is 0 while the rest changes.
struct Entry {
  std::atomic<std::uint64_t> number, step;
  std::atomic<std::uint32_t> op;
  std::atomic<std::int64_t> start, end;
};

/// The step and op that a thread is in, plus one, in one word; 0: none.
std::uint64_t packed(std::uint64_t step, OpId op) { return (step + 1) << 32 | index(op); }

[[noreturn]] void failed(const std::filesystem::path& path, const char* what) {
  throw Error("cannot " + std::string(what) + " the record " + path.string() + ": " + std::strerror(errno));
}

}  // namespace

struct Recorder::Page {
  std::uint64_t kind;
  std::uint32_t rank, ranks;
  std::atomic<std::int32_t> process;
  std::atomic<std::uint8_t> state;
  std::atomic<std::int64_t> beat, last_end;
  std::atomic<std::uint32_t> waits_for;
  std::array<std::atomic<std::uint64_t>, most_threads> current;
  std::atomic<std::uint64_t> written;  ///< ops so far
  std::array<Entry, kept> ring;
  std::array<char, longest_text + 1> text;
};

Recorder::Recorder(const std::filesystem::path& path, Rank rank, std::uint32_t ranks) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint8_t>::is_always_lock_free);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) failed(path, "make");
  // Space is allocated now: a full disk must not show as a bus error later.
  const int full = posix_fallocate(fd, 0, sizeof(Page));
  void* at = full == 0 ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (full != 0) errno = full;
  const int reason = errno;
  close(fd);
  errno = reason;
  if (at == MAP_FAILED) failed(path, "write");
  page_ = new (at) Page{};
  page_->rank = index(rank);
  page_->ranks = ranks;
  page_->waits_for = nobody;
  page_->kind = magic;
}

Recorder::Recorder(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) failed(path, "read");
  struct stat about {};
  const bool right_size = fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(sizeof(Page));
  void* at = right_size ? mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (at != MAP_FAILED) page_ = static_cast<Page*>(at);
  if (page_ == nullptr || page_->kind != magic) {
    if (page_ != nullptr) munmap(page_, sizeof(Page));
    throw Error(path.string() + " is not a record of a rank's last operations, or is from another version");
  }
}

Recorder::~Recorder() { munmap(page_, sizeof(Page)); }

std::filesystem::path Recorder::file(const std::filesystem::path& folder, Rank rank) {
  return folder / ("rank-" + std::to_string(index(rank)) + ".record");
}

void Recorder::set_process(std::int32_t process) { page_->process = process; }
void Recorder::beat(std::int64_t now) { page_->beat.store(now, std::memory_order_relaxed); }

void Recorder::set_state(RankState state, const std::string& message) {
  const std::size_t n = std::min(message.size(), longest_text);
  std::copy_n(message.begin(), n, page_->text.begin());
  page_->text[n] = '\0';
  page_->state.store(index(state), std::memory_order_release);
}

void Recorder::set_waits_for(std::optional<Rank> rank) {
  page_->waits_for.store(rank ? index(*rank) : nobody, std::memory_order_relaxed);
}

void Recorder::begin(std::size_t thread, std::uint64_t step, OpId op) {
  page_->current[thread].store(packed(step, op), std::memory_order_relaxed);
}

void Recorder::end(std::size_t thread, const RecordedOp& op) {
  const std::uint64_t number = page_->written.fetch_add(1, std::memory_order_relaxed) + 1;
  Entry& e = page_->ring[number % kept];
  e.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  e.step.store(op.step, std::memory_order_relaxed);
  e.op.store(index(op.op), std::memory_order_relaxed);
  e.start.store(op.start, std::memory_order_relaxed);
  e.end.store(op.end, std::memory_order_relaxed);
  e.number.store(number, std::memory_order_release);
  page_->last_end.store(op.end, std::memory_order_relaxed);
  page_->current[thread].store(0, std::memory_order_relaxed);
}

std::int64_t Recorder::last_beat() const { return page_->beat.load(std::memory_order_relaxed); }
std::int64_t Recorder::last_end() const { return page_->last_end.load(std::memory_order_relaxed); }
RankState Recorder::state() const { return RankState{page_->state.load(std::memory_order_acquire)}; }

Recording Recorder::read() const {
  Recording r;
  r.rank = Rank{page_->rank};
  r.ranks = page_->ranks;
  r.process = page_->process;
  r.state = state();
  r.last_beat = last_beat();
  if (const std::uint32_t whom = page_->waits_for.load(std::memory_order_relaxed); whom != nobody) {
    r.waits_for = Rank{whom};
  }
  for (const auto& word : page_->current) {
    const std::uint64_t now = word.load(std::memory_order_relaxed);
    if (now != 0) r.current.push_back({(now >> 32) - 1, OpId{static_cast<std::uint32_t>(now)}});
  }
  const std::uint64_t written = page_->written.load(std::memory_order_acquire);
  for (std::uint64_t n = written > kept ? written - kept + 1 : 1; n <= written; ++n) {
    const Entry& e = page_->ring[n % kept];
    if (e.number.load(std::memory_order_acquire) != n) continue;
    const RecordedOp op{e.step.load(std::memory_order_relaxed), OpId{e.op.load(std::memory_order_relaxed)},
                        e.start.load(std::memory_order_relaxed), e.end.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (e.number.load(std::memory_order_relaxed) == n) r.completed.push_back(op);
  }
  r.message.assign(page_->text.data(), strnlen(page_->text.data(), longest_text));
  return r;
}

}  // namespace orrery
