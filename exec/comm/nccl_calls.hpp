#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace orrery {

/// The part of NCCL that the project uses, as it lies in memory. The library is loaded when ranks are to meet over it,
/// so that the program builds and runs without it. A test compares every number here with nccl.h where that is found.
///
/// It works from NCCL 2.18 on (the first version that splits communicators without blocking); later versions accept
/// what an earlier one knew.
struct NcclCalls {
  static constexpr int oldest = 21800;  ///< 2.18.0
  using Communicator = void*;
  using Stream = void*;  ///< a cudaStream_t

  enum Result : int {
    success,
    unhandled_cuda_error,
    system_error,
    internal_error,
    invalid_argument,
    invalid_usage,
    remote_error,
    in_progress
  };
  enum Type : int { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16 };
  enum Reduction : int { sum, product, max, min };

  /// Says where rank 0 listens.
  struct Id {
    char bytes[128] = {};
  };
  static constexpr int unset = std::numeric_limits<int>::min();
  static constexpr int no_color = -1;  ///< of a split: in no part
  /// The struct of 2.18: `size` and `version` say how much of it is there.
  struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeefU;
    unsigned version = oldest;
    int blocking = 0;
    int cga_cluster_size = unset;
    int min_ctas = unset;
    int max_ctas = unset;
    const char* net_name = nullptr;
    int split_share = unset;
  };

  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(Id*) = nullptr;
  int (*init_rank)(Communicator*, int ranks, Id, int rank, Config*) = nullptr;
  int (*split)(Communicator, int color, int key, Communicator*, Config*) = nullptr;
  int (*finalize)(Communicator) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*abort)(Communicator) = nullptr;
  int (*async_error)(Communicator, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int type, int op, Communicator, Stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t each, int type, int op, Communicator, Stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t each, int type, Communicator, Stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int type, int root, Communicator, Stream) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int type, int op, int root, Communicator, Stream) = nullptr;
  int (*send)(const void*, std::size_t, int type, int peer, Communicator, Stream) = nullptr;
  int (*receive)(void*, std::size_t, int type, int peer, Communicator, Stream) = nullptr;

  int version = 0;      ///< 22809
  std::string library;  ///< as it was named
};

/// "2.28.9"
[[nodiscard]] std::string nccl_version_text(int version);

/// The names by which the library is looked for as a rule.
inline constexpr const char* nccl_library_name = "libnccl.so.2";

/// Loads the library, which stays loaded, as NCCL's threads may. Throws Error that says what is missing: the library
/// itself, a function that this program needs, or a version that is new enough.
[[nodiscard]] NcclCalls load_nccl(const std::string& library = nccl_library_name);

}  // namespace orrery
