#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/comm/socket_communicator.hpp"
#include "exec/comm/world.hpp"

namespace orrery {

struct MpiCalls;

/// This process's part in an MPI job, from MPI_Init to MPI_Finalize; at most
/// one in the life of a process.
///
/// MPI is in a module that is loaded here. A program built without it, or run where the library is missing, says so.
class MpiSession {
 public:
  /// Loads the module and starts MPI.  Throws Error when either cannot be done.
  explicit MpiSession(const std::filesystem::path& module);
  /// Ends MPI, which waits for the other processes; does nothing after `abort`.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  [[nodiscard]] std::string library() const;  ///< "Open MPI v4.1.4"
  /// Processes on this one's host, by rank.
  [[nodiscard]] const std::vector<Rank>& neighbours() const { return neighbours_; }
  /// Whether a process's host is rank 0's, so that their clocks are one.
  [[nodiscard]] bool shares_clock(Rank r) const { return shares_clock_[index(r)]; }
  /// Gathers every process's value, by rank; all must call it. T is plain bytes.
  template <class T>
  [[nodiscard]] std::vector<T> all_gather(const T& mine) {
    std::vector<T> all(ranks_);
    gather_bytes(&mine, all.data(), sizeof(T));
    return all;
  }
  /// Ends all processes of the job with this status, as far as the launcher passes it on.
  [[noreturn]] void abort(int status);

  [[nodiscard]] const MpiCalls& calls() const { return *calls_; }
  [[nodiscard]] bool threads() const { return threads_; }
  [[nodiscard]] std::int64_t largest_tag() const { return largest_tag_; }
  /// Throws Error with MPI's own text unless the code is 0.
  void require(int code, const char* what) const;

 private:
  void gather_bytes(const void* mine, void* all, std::size_t bytes);
  const MpiCalls* calls_ = nullptr;
  Rank rank_{};
  std::uint32_t ranks_ = 1;
  bool threads_ = false;
  std::int64_t largest_tag_ = 0;
  std::vector<Rank> neighbours_;
  std::vector<bool> shares_clock_;
};

/// The number that a message's tag has in MPI, whose tags are ints.
///
/// A tag of ours is a stream (a group, or a channel of exchanges) and a running number. Streams keep their own numbers,
/// and running numbers wrap. Two messages with one number between the same ranks would have to be many ops of one
/// stream apart while both are under way, but a rank has at most 1024 unfinished ops. Throws Error when the library's
/// tags are too few for the stream.
[[nodiscard]] int mpi_tag(std::uint64_t tag, std::int64_t largest);

/// One rank's view of ranks that are MPI processes.
///
/// Sends are MPI's own point-to-point messages, from the sender's memory into the receiver's. Each is acknowledged when
/// it has arrived, so a message tells when both sides were ready. Waits let others run where ranks outnumber cores.
class MpiWorld final : public ProcessWorld {
 public:
  /// The number of processes on the host decides `crowded` of the options. Throws Error when the library does not allow
  /// as many threads. With `ranks` the world is the first `ranks` processes of the job.
  MpiWorld(MpiSession&, WaitOptions, std::optional<std::uint32_t> ranks = std::nullopt);
  ~MpiWorld() override;

  /// From here on MPI makes the collectives on these groups itself, all but permutes and barriers; groups go by the
  /// number with which their tags begin. Sums have the order that MPI chooses. All processes of the world call it with
  /// the same groups, each as it sees them (a group's ranks in the order of peers); a group that a process does not
  /// belong to is empty. Requires one end, because MPI tells the collectives of a group apart by their order alone.
  void use_library_collectives(const std::vector<std::vector<Rank>>& groups);

  [[nodiscard]] Communicator& communicator(Rank, std::uint32_t end = 0) override;
  [[nodiscard]] Communicator& control() override;
  void abort(const std::string& reason) override;
  [[nodiscard]] bool aborted() const override { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const override;
  [[nodiscard]] bool crowded() const override { return options_.crowded; }
  [[nodiscard]] Rank rank() const override { return session_.rank(); }
  [[nodiscard]] std::uint32_t ranks() const override { return ranks_; }
  [[nodiscard]] std::int64_t clock_offset() const override { return clock_offset_; }

 private:
  class Endpoint;

  MpiSession& session_;
  WaitOptions options_;
  std::uint32_t ranks_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  ///< by end; the last is for control
  std::vector<void*> groups_;                         ///< MPI's communicators by group; null: it has none
  std::atomic<bool> aborted_{false};
  std::int64_t clock_offset_ = 0;
  mutable std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace orrery
