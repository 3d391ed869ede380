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

// What the processes of one run agree on before they begin, and what they leave behind.

/// Path of the module for MPI: beside this program, or where it is installed.
[[nodiscard]] std::filesystem::path mpi_module();
/// Path of the module with all of CUDA, found in the same way. The environment variable ORRERY_CUDA_MODULE names
/// another, or stand_in_module.
[[nodiscard]] std::filesystem::path cuda_module();

/// What one process of a job found after it had read its files.
struct JobState {
  std::int32_t status = 0;   ///< exit status of what is wrong; 0: nothing
  std::uint64_t digest = 0;  ///< of plan, Program, flags and the program's version
  std::uint64_t gpu = 0;     ///< the GPU that is for it alone; 0: none
};
[[nodiscard]] const char* orrery_version();
/// The same numbers for the same texts, on every machine.
[[nodiscard]] std::uint64_t digest_of(std::initializer_list<std::string_view> texts);

/// The process that reports a mistake, if there is one: the first that failed, or rank 0 where the processes are not
/// all about to run the same, or where two are on one GPU.
struct JobMistake {
  Rank rank{};
  int status = 0;
  std::string what;  ///< where no process failed
};
[[nodiscard]] std::optional<JobMistake> first_wrong(const std::vector<JobState>& by_rank);

/// This process's part before all agree: its findings, and the exception where something is wrong.
struct OwnState {
  JobState state;
  std::exception_ptr wrong;
};
/// `read` reads this process's files and fills in what it is about to do; its exceptions are thrown when all know of
/// them.
[[nodiscard]] OwnState own_state(const std::function<void(JobState&)>& read);
/// A mistake of one process counts for all, and is reported once: the rank that reports it throws, and the others get
/// the exit status. Empty where all are about to run the same.
[[nodiscard]] std::optional<int> disagreement(const OwnState& own, Rank rank, const std::vector<JobState>& by_rank);

/// Throws where the number of processes is not that of the ranks, and says how to start them, also by torchrun where
/// they have GPUs.
[[noreturn]] void refuse_world_size(std::uint64_t plan_ranks, std::uint32_t processes, bool gpus);

/// The folder in which a run's processes keep their last operations. It is a new one inside the given folder, which
/// must exist, or inside the system's folder for temporary files.
class RecordsFolder {
 public:
  explicit RecordsFolder(const std::optional<std::string>& parent);
  /// The name is the same for all processes; `execute_mpi` makes and removes the folder.
  RecordsFolder(const std::optional<std::string>& parent, MpiSession&);
  /// Removes the folder unless it was kept.
  ~RecordsFolder();
  RecordsFolder(const RecordsFolder&) = delete;
  RecordsFolder& operator=(const RecordsFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Keeps the folder; returns the failure, and where the folder is.
  [[nodiscard]] std::string kept(const std::string& failure) const;

 private:
  std::filesystem::path path_;
  mutable bool keep_;
};

}  // namespace orrery
