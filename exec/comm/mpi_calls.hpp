#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery {

/// What of an MPI library the project uses, as plain functions: the module that
/// holds them is loaded when ranks are to meet over MPI, so that the program
/// runs where no MPI is, and MPI is included in one source file.
///
/// Functions that can fail return 0 or an MPI error code.
struct MpiCalls {
  /// Of this table; a module of another version is refused.
  static constexpr std::uint32_t current = 1;
  /// Messages travel on one of these, so that they never meet one of another.
  enum Plane : int { payload, acknowledgement, planes };
  struct Bytes {
    std::byte* data;
    std::uint64_t count;
  };

  std::uint32_t version;
  /// Starts MPI for several threads.  `threads`: whether the library allows them.
  int (*start)(int* rank, int* ranks, bool* threads, std::int64_t* largest_tag);
  void (*finish)();
  /// Ends all processes of the job.
  void (*abort)(int status);
  const char* (*library)();
  const char* (*error_text)(int code);
  /// `all` has room for every rank's bytes.
  int (*all_gather)(const void* mine, void* all, std::size_t bytes);
  /// Sends and receives under way.  A batch is for one thread.
  void* (*make_batch)();
  void (*drop_batch)(void* batch);  ///< requires that all of it are done
  int (*send)(void* batch, Plane, int peer, int tag, const Bytes* pieces, std::size_t count);
  int (*receive)(void* batch, Plane, int peer, int tag, const Bytes* pieces, std::size_t count);
  /// Whether all of the batch are done; then it is empty.
  int (*test)(void* batch, bool* done);
};

/// The module's only symbol.
inline constexpr const char* mpi_calls_symbol = "orrery_mpi_calls";

}  // namespace orrery
