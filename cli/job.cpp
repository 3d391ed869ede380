#include "cli/job.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <system_error>

#include "cli/common.hpp"
#include "cli/status.hpp"
#include "core/base/counted.hpp"
#include "core/base/diagnostics.hpp"
#include "core/base/fnv.hpp"

namespace orrery {
namespace {

std::filesystem::path parent_folder(const std::optional<std::string>& parent) {
  return parent ? std::filesystem::path(*parent) : std::filesystem::temp_directory_path();
}

/// The path where the module is installed, or the one beside the program.
std::filesystem::path module_path(const char* name) {
  std::error_code ignored;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path installed = here.parent_path() / ORRERY_MODULE_FOLDER / name;
  return std::filesystem::exists(installed, ignored) ? installed : here / name;
}

}  // namespace

std::filesystem::path mpi_module() { return module_path("orrery_mpi.so"); }
std::filesystem::path cuda_module() {
  const char* chosen = std::getenv("ORRERY_CUDA_MODULE");
  return chosen != nullptr && *chosen != '\0' ? std::filesystem::path(chosen) : module_path("orrery_cuda.so");
}

const char* orrery_version() { return ORRERY_VERSION; }

std::uint64_t digest_of(std::initializer_list<std::string_view> texts) {
  std::uint64_t hash = fnv1a("");
  for (const std::string_view text : texts) hash = fnv1a(std::string_view("\0", 1), fnv1a(text, hash));
  return hash;
}

std::optional<JobMistake> first_wrong(const std::vector<JobState>& by_rank) {
  for (std::uint32_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r].status != status_fine) return JobMistake{Rank{r}, by_rank[r].status, ""};
  }
  for (std::uint32_t r = 1; r < by_rank.size(); ++r) {
    if (by_rank[r].digest == by_rank[0].digest) continue;
    return JobMistake{
        Rank{0}, status_world,
        fmt::format(
            "rank {} is about to run something other than rank 0: their plan files, flags or versions of orrery "
            "differ",
            r)};
  }
  std::map<std::uint64_t, std::uint32_t> taken;
  for (std::uint32_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r].gpu == 0) continue;
    const auto [at, alone] = taken.try_emplace(by_rank[r].gpu, r);
    if (alone) continue;
    return JobMistake{Rank{0}, status_world,
                      fmt::format("ranks {} and {} have the same GPU. Start no more processes on a host than it has "
                                  "GPUs; --share-gpu puts all ranks of one host on one.",
                                  at->second, r)};
  }
  return std::nullopt;
}

OwnState own_state(const std::function<void(JobState&)>& read) {
  OwnState own;
  try {
    read(own.state);
  } catch (const InputError&) {
    own.wrong = std::current_exception();
    own.state.status = status_input;
  } catch (const std::exception&) {
    own.wrong = std::current_exception();
    own.state.status = status_world;
  }
  return own;
}

std::optional<int> disagreement(const OwnState& own, Rank rank, const std::vector<JobState>& by_rank) {
  const std::optional<JobMistake> first = first_wrong(by_rank);
  if (!first) return std::nullopt;
  if (rank != first->rank) return first->status;
  if (own.wrong) std::rethrow_exception(own.wrong);
  throw Error(first->what);
}

void refuse_world_size(std::uint64_t plan_ranks, std::uint32_t processes, bool gpus) {
  refuse(
      "cli.world-size",
      fmt::format("the plan has {}, but {} started", counted(plan_ranks, "rank"),
                  counted(processes, "process was", "processes were")),
      {fmt::format("Start that many: mpirun -n {0} orrery run ..., or srun -n {0} orrery run ...", plan_ranks) +
       (gpus ? fmt::format("; on one host torchrun --no-python --nproc-per-node {} orrery run ...", plan_ranks) : "")});
}

RecordsFolder::RecordsFolder(const std::optional<std::string>& parent) : keep_(false) {
  std::string name = (parent_folder(parent) / "orrery-run-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error(fmt::format("cannot make the folder {}: {}", name, std::strerror(errno)));
  }
  path_ = name;
}

RecordsFolder::RecordsFolder(const std::optional<std::string>& parent, MpiSession& session) : keep_(true) {
  // The job's name is made of rank 0's process and the time.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::uint64_t own = static_cast<std::uint64_t>(now / std::chrono::milliseconds(1)) << 22 |
                            (static_cast<std::uint64_t>(getpid()) & 0x3fffff);
  path_ = parent_folder(parent) / fmt::format("orrery-run-{:x}", session.all_gather(own)[0]);
}

RecordsFolder::~RecordsFolder() {
  std::error_code ignored;
  if (!keep_) std::filesystem::remove_all(path_, ignored);
}

std::string RecordsFolder::kept(const std::string& failure) const {
  keep_ = true;
  return fmt::format("{}\n  The ranks' last operations are kept in {}.", failure, path_.string());
}

}  // namespace orrery
