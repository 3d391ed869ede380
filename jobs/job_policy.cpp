#include "jobs/job_policy.hpp"

namespace orrery {

const std::vector<JobPolicyRow>& job_policies() {
  constexpr std::string_view tiresias = "SymbioticLab/Tiresias 959f9b0, simulator/run_sim.py";
  static const std::vector<JobPolicyRow> rows = {
      {"fifo", "in order of submission; the first that does not fit holds up all others", false, false, tiresias,
       fifo_policy},
      {"fjf", "in order of submission; jobs that fit pass those that do not", false, false, tiresias, fit_first_policy},
      {"sjf", "jobs of the fewest GPUs first", true, false, tiresias, smallest_first_policy},
      {"lpjf", "the longest pending first; at each event the one behind a job that starts is passed over", false, false,
       tiresias, longest_pending_policy},
      {"srtf", "the shortest remaining time first", true, false, tiresias, shortest_time_policy},
      {"srsf", "the least remaining GPU time first", true, false, tiresias, shortest_service_policy},
      {"easy", "fifo; jobs that do not delay the first one's reservation pass it", false, false,
       "Mu'alem and Feitelson, IEEE TPDS 12(6), 2001, section 2.2", backfill_policy},
      {"gavel", "every six minutes the jobs that are furthest behind an equal share of GPU time", true, false,
       "Narayanan et al., Gavel, OSDI 2020, sections 3.1, 4.1 and 5; stanford-futuredata/gavel c4fa400", gavel_policy},
      {"pollux",
       "every minute the GPUs of all jobs anew, for the best harmonic mean of speeds over those of equal shares", true,
       true, "Qiao et al., Pollux, OSDI 2021, section 4.2; siasosp23/artifacts aaf7a0d, pollux_unaware_fix.py",
       pollux_policy},
      {"marginal", "whenever jobs come or end, GPUs where they bring ends nearest; jobs behind an equal share first",
       true, true, "our own (docs/formulas/jobs.md)", marginal_policy},
      {"sia", "every minute the GPUs of all jobs anew, by an integer program over their speeds", true, true,
       "Jayaram Subramanya et al., Sia, SOSP 2023; siasosp23/artifacts aaf7a0d, sia-simulator/sia.py", sia_policy},
      {"las", "three queues by time had; fifo in each", true, false, tiresias, least_time_policy},
      {"2d-las", "three queues by GPU time had (Tiresias); fifo in each", true, false,
       "Gu et al., Tiresias, NSDI 2019, section 3.2; thresholds of SymbioticLab/Tiresias 959f9b0",
       least_service_policy},
  };
  return rows;
}

const JobPolicyRow* find_job_policy(std::string_view name) {
  for (const JobPolicyRow& row : job_policies()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace orrery
