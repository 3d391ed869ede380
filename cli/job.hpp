#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/comm/mpi_communicator.hpp"

namespace orrery {

// What the processes of one run agree on before they begin, and what they leave.

/// Where the module for MPI lies: beside this program, or where it is installed.
[[nodiscard]] std::filesystem::path mpi_module();
/// Likewise, the module with all of CUDA.
[[nodiscard]] std::filesystem::path cuda_module();

/// What one process of a job found when it had read its files.
struct JobState {
  std::int32_t status = 0;   ///< exit status of what is wrong; 0: nothing
  std::uint64_t digest = 0;  ///< of plan, Program, flags and the program's version
  std::uint64_t gpu = 0;     ///< of the GPU that is for it alone; 0: of none
};
[[nodiscard]] const char* orrery_version();
/// The same numbers for the same texts, on every machine.
[[nodiscard]] std::uint64_t digest_of(std::initializer_list<std::string_view> texts);

/// The process that is to say what is wrong, if something is: the first that
/// failed, else rank 0 where not all are about to run the same, or two on one GPU.
struct JobMistake {
  Rank rank{};
  int status = 0;
  std::string what;  ///< where no process failed
};
[[nodiscard]] std::optional<JobMistake> first_wrong(const std::vector<JobState>& by_rank);

/// This process's part before all agree: what it found, and the exception where something is wrong.
struct OwnState {
  JobState state;
  std::exception_ptr wrong;
};
/// `read` reads this process's files and fills in what it is about to do; what it throws is told when all know of it.
[[nodiscard]] OwnState own_state(const std::function<void(JobState&)>& read);
/// Whatever is wrong is wrong for all, and said once: the rank that is to say it throws, for others it is the exit
/// status.  Nothing where all are about to run the same.
[[nodiscard]] std::optional<int> disagreement(const OwnState& own, Rank rank, const std::vector<JobState>& by_rank);

/// As many processes as ranks were not started: how to start them, by torchrun too where they have GPUs.
[[noreturn]] void refuse_world_size(std::uint64_t plan_ranks, std::uint32_t processes, bool gpus);

/// The folder in which a run's processes keep their last operations: a new one
/// inside the given folder, which exists, or inside the system's for temporary files.
class RecordsFolder {
 public:
  explicit RecordsFolder(const std::optional<std::string>& parent);
  /// The same name for all processes; `execute_mpi` makes and removes it.
  RecordsFolder(const std::optional<std::string>& parent, MpiSession&);
  /// Removes what was not kept.
  ~RecordsFolder();
  RecordsFolder(const RecordsFolder&) = delete;
  RecordsFolder& operator=(const RecordsFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Keeps the folder; the failure, and where it is.
  [[nodiscard]] std::string kept(const std::string& failure) const;

 private:
  std::filesystem::path path_;
  mutable bool keep_;
};

}  // namespace orrery
