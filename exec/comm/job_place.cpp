#include "exec/comm/job_place.hpp"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "core/base/fnv.hpp"

namespace orrery {
namespace {

/// A launcher of processes, with the names of the variables that it sets.
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;
};
constexpr Launcher torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Launcher open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Launcher mpich{"MPICH (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Launcher slurm{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""};

struct Found {
  const Launcher* launcher = nullptr;
  JobPlace place;
  std::optional<std::uint32_t> local_ranks;
};

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The address where processes of one host meet; nobody else comes there.
const std::string this_host_alone = "127.0.0.1";

/// The port of a job without one: the same on all hosts.
std::string port_for(const std::string& job) { return std::to_string(20000 + fnv1a(job) % 20000); }

class Finder {
 public:
  Finder(const Environment& environment, Diagnostics& d) : environment_(environment), d_(d) {}

  std::optional<Found> find(const Launcher& by) {
    // The number is that of the step, where Slurm gives it: the job may have more tasks.
    const bool of_step = &by == &slurm && value("SLURM_STEP_NUM_TASKS");
    const char* const ranks_name = of_step ? "SLURM_STEP_NUM_TASKS" : by.ranks;
    const auto rank = value(by.rank), ranks = value(ranks_name);
    if (!rank && !ranks) return std::nullopt;
    Found found;
    found.launcher = &by;
    found.place.source = fmt::format("{} ({}, {})", by.name, by.rank, ranks_name);
    if (!rank || !ranks) {
      d_.error("cli.job",
               fmt::format("{} is set and {} is not", rank ? by.rank : ranks_name, rank ? ranks_name : by.rank),
               {fmt::format("{} sets both. Unset the one, or give --rank and --world-size.", by.name)});
      return std::nullopt;
    }
    found.place.rank = number_of(by.rank, *rank);
    found.place.ranks = number_of(ranks_name, *ranks);
    if (const auto local = value(by.local_rank)) found.place.local_rank = number_of(by.local_rank, *local);
    if (const auto locals = value(by.local_ranks)) found.local_ranks = number_of(by.local_ranks, *locals);
    if (d_.empty() && found.place.rank >= found.place.ranks) {
      d_.error("cli.job", fmt::format("{} is {}, and {} is {}: ranks count from 0", by.rank, found.place.rank,
                                      ranks_name, found.place.ranks));
    }
    if (!d_.empty()) return std::nullopt;
    say_where(found);
    return found;
  }

  std::optional<std::string> value(const std::string& name) const {
    return name.empty() ? std::nullopt : environment_(name);
  }

 private:
  std::uint32_t number_of(const char* name, const std::string& text) {
    if (const auto n = number(text)) return *n;
    d_.error("cli.job", fmt::format("the environment variable {} is not a number: \"{}\"", name, text));
    return 0;
  }

  /// Finds where a job of the launcher meets.
  void say_where(Found& found) {
    JobPlace& place = found.place;
    const bool one_host = found.local_ranks == place.ranks || is_one_node(found);
    if (found.launcher == &torchrun) {
      place.job = value("TORCHELASTIC_RUN_ID").value_or("") + "." + value("TORCHELASTIC_RESTART_COUNT").value_or("0");
      const auto host = value("MASTER_ADDR");
      const auto port = number(value("MASTER_PORT").value_or(""));
      // torchrun itself listens at that port.
      if (host && port && *port < 65535) {
        place.meeting = fmt::format("{}:{}", one_host ? this_host_alone : *host, *port + 1);
      }
    } else if (found.launcher == &slurm) {
      place.job = value("SLURM_JOB_ID").value_or("") + "." + value("SLURM_STEP_ID").value_or("");
      const auto hosts = value("SLURM_STEP_NODELIST") ? value("SLURM_STEP_NODELIST") : value("SLURM_JOB_NODELIST");
      if (hosts) place.meeting = (one_host ? this_host_alone : first_host(*hosts)) + ":" + port_for(place.job);
    } else {
      place.job = value(found.launcher == &open_mpi ? "PMIX_NAMESPACE" : "PMI_PORT").value_or("");
      if (one_host && !place.job.empty()) place.meeting = this_host_alone + ":" + port_for(place.job);
    }
  }

  [[nodiscard]] bool is_one_node(const Found& found) const {
    if (found.launcher != &slurm) return false;
    const auto of_step = value("SLURM_STEP_NUM_NODES");
    return (of_step ? of_step : value("SLURM_JOB_NUM_NODES")) == "1";
  }

  const Environment& environment_;
  Diagnostics& d_;
};

bool agree(const Found& chosen, const Found& other) {
  const JobPlace& a = chosen.place;
  const JobPlace& b = other.place;
  if (b.ranks == 1 || (a.rank == b.rank && a.ranks == b.ranks)) return true;
  if (chosen.launcher == &torchrun && chosen.local_ranks && *chosen.local_ranks > 0) {
    return b.ranks * *chosen.local_ranks == a.ranks && a.rank / *chosen.local_ranks == b.rank;
  }
  return other.launcher == &slurm && chosen.launcher != nullptr && chosen.launcher != &torchrun;
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string first;
  for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      first += list[at++];
      continue;
    }
    // In a name with several ranges, the first number of each counts.
    const std::size_t close = list.find(']', at);
    if (close == std::string::npos) return list;
    first += list.substr(at + 1, list.find_first_of("-,]", at) - at - 1);
    at = close + 1;
  }
  return first;
}

std::optional<JobPlace> find_job(const JobFlags& flags, const Environment& environment, Diagnostics& d) {
  const std::size_t before = d.size();
  Finder finder(environment, d);
  std::vector<Found> found;
  if (flags.rank || flags.ranks) {
    if (!flags.rank || !flags.ranks) {
      d.error("cli.job",
              fmt::format("{} needs {}", flags.rank ? "--rank" : "--world-size",
                          flags.rank ? "--world-size, the number of ranks" : "--rank, which of them this is"));
    } else if (*flags.rank >= *flags.ranks) {
      d.error("cli.job",
              fmt::format("--rank is {}, and --world-size is {}: ranks count from 0", *flags.rank, *flags.ranks));
    } else {
      found.emplace_back();
      found.back().place.rank = *flags.rank;
      found.back().place.ranks = *flags.ranks;
      found.back().place.source = "the flags --rank and --world-size";
    }
  }
  for (const Launcher* by : {&torchrun, &open_mpi, &mpich, &slurm}) {
    // A batch script has Slurm's variables too, but is no task of a step.
    if (by == &slurm && !finder.value("SLURM_STEP_ID")) continue;
    if (auto more = finder.find(*by)) found.push_back(*std::move(more));
  }
  if (d.size() == before && found.empty() && (flags.local_rank || flags.meeting)) {
    d.error("cli.job",
            fmt::format("{} is for a process of a job, but nothing says which one this is",
                        flags.meeting ? "--rendezvous" : "--local-rank"),
            {"Give --rank and --world-size, or start the job by torchrun, mpirun or srun."});
  }
  if (d.size() > before || found.empty()) return std::nullopt;
  const Found& chosen = found.front();
  for (const Found& other : found) {
    if (agree(chosen, other)) continue;
    d.error("cli.job",
            fmt::format("{} say rank {} of {}, but {} say rank {} of {}", chosen.place.source, chosen.place.rank,
                        chosen.place.ranks, other.place.source, other.place.rank, other.place.ranks),
            {"Unset what is left over from elsewhere, or start the job with one launcher."});
    return std::nullopt;
  }
  JobPlace place = chosen.place;
  if (flags.local_rank) place.local_rank = flags.local_rank;
  if (flags.meeting) place.meeting = *flags.meeting;
  return place;
}

}  // namespace orrery
