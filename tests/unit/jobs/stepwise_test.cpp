#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>

#include "tests/unit/jobs/job_examples.hpp"

// The event simulation against one that goes second by second and sorts plain lists, written without any of its parts.
// GPUs are only counted, so places play no role.

using namespace orrery;
using namespace orrery::test;

namespace {

struct Stepped {
  std::int64_t submit, left;
  std::uint32_t gpus;
  bool runs = false;
  double end = -1.0;
};

/// Chooses among the jobs that are there, in order of submission, which of them run.
using Choose = std::function<void(std::vector<Stepped*>&, std::uint32_t gpus)>;

std::vector<double> stepwise(const JobWorkload& w, std::uint32_t gpus, const Choose& choose) {
  std::vector<Stepped> jobs;
  for (const ClusterJob& j : w.jobs) {
    jobs.push_back({j.submit / microseconds_per_second, j.run / microseconds_per_second, j.gpus});
  }
  std::size_t ended = 0;
  for (std::int64_t now = 0; ended < jobs.size(); ++now) {
    // A job without work starts and ends at one instant, which makes room for others at the same instant.
    for (bool again = true; again;) {
      again = false;
      for (Stepped& j : jobs) {
        if (!j.runs || j.left > 0) continue;
        j.runs = false;
        j.end = static_cast<double>(now);
        ++ended;
      }
      std::vector<Stepped*> there;
      for (Stepped& j : jobs) {
        if (j.submit <= now && j.end < 0.0) there.push_back(&j);
      }
      choose(there, gpus);
      for (const Stepped& j : jobs) again = again || (j.runs && j.left == 0);
    }
    for (Stepped& j : jobs) j.left -= j.runs ? 1 : 0;
  }
  std::vector<double> ends;
  for (const Stepped& j : jobs) ends.push_back(j.end);
  return ends;
}

std::uint32_t held(const std::vector<Stepped*>& jobs) {
  std::uint32_t sum = 0;
  for (const Stepped* j : jobs) sum += j->runs ? j->gpus : 0;
  return sum;
}

/// All jobs anew, by a key; the order of submission breaks ties.
Choose by(const std::function<std::int64_t(const Stepped&)>& key) {
  return [key](std::vector<Stepped*>& jobs, std::uint32_t gpus) {
    std::stable_sort(jobs.begin(), jobs.end(), [&](const Stepped* a, const Stepped* b) { return key(*a) < key(*b); });
    for (Stepped* j : jobs) {
      j->runs = j->gpus <= gpus;
      if (j->runs) gpus -= j->gpus;
    }
  };
}

void fifo(std::vector<Stepped*>& jobs, std::uint32_t gpus) {
  for (Stepped* j : jobs) {
    if (j->runs) continue;
    if (j->gpus > gpus - held(jobs)) return;
    j->runs = true;
  }
}

void fit_first(std::vector<Stepped*>& jobs, std::uint32_t gpus) {
  for (Stepped* j : jobs) j->runs = j->runs || j->gpus <= gpus - held(jobs);
}

/// EASY as it is told: the first in line is reserved where it fits earliest, and each other job is tried in line.
void easy(std::vector<Stepped*>& jobs, std::uint32_t gpus) {
  fifo(jobs, gpus);
  const auto first = std::find_if(jobs.begin(), jobs.end(), [](const Stepped* j) { return !j->runs; });
  if (first == jobs.end()) return;
  std::int64_t after = 0;
  std::uint32_t free_then = 0;
  for (;; ++after) {  // seconds from now at which the first in line fits
    free_then = gpus;
    for (const Stepped* j : jobs) free_then -= j->runs && j->left > after ? j->gpus : 0;
    if (free_then >= (*first)->gpus) break;
  }
  std::uint32_t spare = free_then - (*first)->gpus;
  for (auto at = first + 1; at < jobs.end(); ++at) {
    Stepped& j = **at;
    if (j.runs || j.gpus > gpus - held(jobs)) continue;
    if (j.left > after && j.gpus > spare) continue;
    j.runs = true;
    if (j.left > after) spare -= j.gpus;
  }
}

}  // namespace

TEST_CASE("policies end every job when a walk through the seconds does", "[property][jobs]") {
  struct Pair {
    const char* policy;
    Choose choose;
  };
  const std::vector<Pair> pairs = {{"fifo", fifo},
                                   {"fjf", fit_first},
                                   {"easy", easy},
                                   {"sjf", by([](const Stepped& j) { return std::int64_t{j.gpus}; })},
                                   {"srtf", by([](const Stepped& j) { return j.left; })},
                                   {"srsf", by([](const Stepped& j) { return 16 * j.left * j.gpus + j.gpus; })}};
  for (const Pair& pair : pairs) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(pair.policy, seed);
      const JobWorkload w = random_workload(seed, 60);
      REQUIRE(ends_of(played(w, pair.policy, {4, 4, 2})) == stepwise(w, 10, pair.choose));
    }
  }
}
