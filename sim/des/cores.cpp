#include "sim/des/cores.hpp"

namespace orrery {

void Cores::run(Picoseconds now, Picoseconds alone, Job job) {
  if (limited_) ++ranks_[job.actor].jobs;
  running_.push(now + alone, job);
  started_.push_back(job);
}

void Cores::serve(Picoseconds now) {
  while (!queue_.empty()) {
    const Waiting next = queue_.front();
    Rank& rank = ranks_[next.job.actor];
    if (!rank.has_core) {
      if (free_ == 0) return;
      --free_;
      rank.has_core = true;
      rank.since = now;
    }
    queue_.pop_front();
    run(now, next.alone, next.job);
  }
}

void Cores::start(Picoseconds now, Picoseconds alone, Job job) {
  if (!limited_) {
    run(now, alone, job);
    return;
  }
  Rank& rank = ranks_[job.actor];
  if (rank.has_core && (rank.jobs > 0 || queue_.empty() || now - rank.since < slice)) {
    run(now, alone, job);
    return;
  }
  if (rank.has_core) {  // its slice is over
    rank.has_core = false;
    ++free_;
  }
  queue_.push_back({job, alone});
  serve(now);
}

void Cores::rest(Picoseconds now, std::uint32_t actor) {
  if (!limited_) return;
  Rank& rank = ranks_[actor];
  if (!rank.has_core || rank.jobs > 0) return;
  rank.has_core = false;
  ++free_;
  serve(now);
}

Cores::Job Cores::finish() {
  const Job job = running_.pop();
  if (limited_) --ranks_[job.actor].jobs;
  return job;
}

}  // namespace orrery
