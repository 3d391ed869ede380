#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// The part of an MPI library that the project uses, as plain functions. The module that holds them is loaded when
/// ranks are to meet over MPI, so the program runs where there is no MPI, and only one source file includes MPI.
///
/// Functions that can fail return 0 or an MPI error code.
struct MpiCalls {
  /// The version of this table; a module of another version is refused.
  static constexpr std::uint32_t current = 2;
  /// The kinds of messages, so that a message never meets one of another kind.
  enum Plane : int { payload, acknowledgement, planes };
  struct Bytes {
    std::byte* data;
    std::uint64_t count;
  };

  /// Adds or compares types that MPI does not have: combine() (exec/kernels/combine.hpp).
  using Combine = void (*)(DType, Collective::Reduction, void* sum, const void* part, std::uint64_t count);
  /// One vector of a collective; `from` is null where it stands in `into` already.
  struct Vector {
    Collective::Kind kind;
    Collective::Reduction reduction;
    int root;
    DType dtype;
    const std::byte* from;
    std::byte* into;
    std::uint64_t count;  ///< elements; for all_gather, reduce_scatter and all_to_all those of each member's part
  };

  std::uint32_t version;
  /// Starts MPI for several threads. `threads` gets whether the library allows them.
  int (*start)(int* rank, int* ranks, bool* threads, std::int64_t* largest_tag);
  void (*finish)();
  /// Ends all processes of the job.
  void (*abort)(int status);
  const char* (*library)();
  const char* (*error_text)(int code);
  /// `all` has room for every rank's bytes.
  int (*all_gather)(const void* mine, void* all, std::size_t bytes);
  /// Makes a set of sends and receives under way. A batch is for one thread.
  void* (*make_batch)();
  void (*drop_batch)(void* batch);  ///< requires that all of it are done
  int (*send)(void* batch, Plane, int peer, int tag, const Bytes* pieces, std::size_t count);
  int (*receive)(void* batch, Plane, int peer, int tag, const Bytes* pieces, std::size_t count);
  /// Whether all messages of the batch are done; then it is empty.
  int (*test)(void* batch, bool* done);
  /// Makes a communicator of these ranks, in this order. All of them call it, and every rank makes its groups in one
  /// order.
  int (*make_group)(const int* ranks, std::size_t count, Combine, void** group);
  void (*drop_group)(void* group);  ///< all of its ranks, likewise
  /// Begins MPI's own collective as a part of the batch.
  int (*collective)(void* batch, void* group, const Vector&);
};

/// The module's only symbol.
inline constexpr const char* mpi_calls_symbol = "orrery_mpi_calls";

}  // namespace orrery
