#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/ids.hpp"
#include "core/base/work_progress.hpp"
#include "core/program/work_kind.hpp"

namespace orrery {

/// A kernel or copy as a profiler names it.
struct ProfiledKernel {
  std::string name;
  WorkKind kind = WorkKind::elementwise;
  std::uint32_t ranks = 0;  ///< collectives: members of the group; 0: not told
  friend bool operator==(const ProfiledKernel&, const ProfiledKernel&) = default;
};
/// "gemm", "all_reduce over 4 ranks".
[[nodiscard]] std::string name_of(WorkKind, std::uint32_t ranks);

/// One run of a kernel on a stream.
struct ProfiledRun {
  std::int64_t start = 0, end = 0;  ///< nanoseconds of the recording's clock
  std::uint32_t kernel = 0;         ///< into ProfiledRank::kernels
  std::uint32_t stream = 0;         ///< into ProfiledRank::streams
  friend bool operator==(const ProfiledRun&, const ProfiledRun&) = default;
};

/// A training step as the training program marked it.
struct ProfiledMark {
  std::uint64_t number = 0;
  std::int64_t start = 0, end = 0;  ///< nanoseconds
  friend bool operator==(const ProfiledMark&, const ProfiledMark&) = default;
};

/// What a profiler recorded of one rank's device: kernels on streams, over some steps.
struct ProfiledRank {
  std::string file;
  std::optional<std::uint32_t> rank, ranks;  ///< its number, and of how many
  bool common_clock = false;                 ///< times count from the epoch, so files of one host share them
  bool device_marks = false;  ///< steps are marked where the device runs them; otherwise where they were launched
  std::vector<ProfiledKernel> kernels;
  std::vector<std::string> streams;         ///< "stream 7"; of several devices "device 1 stream 7"
  std::vector<ProfiledRun> runs;            ///< in order of start
  std::vector<ProfiledMark> steps;          ///< in order
  std::optional<std::uint64_t> peak_bytes;  ///< most that PyTorch's allocator gave out, where memory was profiled
};

/// Whether a JSON text says that PyTorch's profiler wrote it.
[[nodiscard]] bool looks_like_profile(std::string_view text);

/// Reads a file that torch.profiler's export_chrome_trace wrote (Kineto's Chrome trace JSON, schemaVersion 1): events
/// of category kernel, gpu_memcpy and gpu_memset, the marks ProfilerStep#N, distributedInfo. Events are dropped as they
/// are read, so memory is the text and 24 bytes a kernel run. `progress` counts bytes.
[[nodiscard]] std::optional<ProfiledRank> read_profile(std::string_view text, const std::string& file, Diagnostics&,
                                                       const WorkProgress& progress = {});

}  // namespace orrery
