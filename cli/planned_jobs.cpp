#include "cli/planned_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "cli/forecast_subject.hpp"
#include "planner/describe.hpp"

namespace orrery {
namespace {

bool same_curve(const PlannedCurve& c, const ClusterJob& job) {
  JobTraining training = c.training;
  training.steps = job.training->steps;
  return c.own == job.gpus && training == *job.training;
}

SearchQuestion question_of(const JobTraining& t, const std::string& cluster, const CommonFlags& flags) {
  SearchQuestion q;
  q.flags = flags;
  q.model = t.model;
  q.cluster = cluster;
  q.batch = t.batch;
  q.sequence = t.sequence;
  q.precision = t.precision;
  q.optimizer = t.optimizer;
  return q;
}

/// The fastest of the plainest plans of trainings on numbers of GPUs, each looked for once.
class BestPlans {
 public:
  BestPlans(std::string cluster, CommonFlags flags) : cluster_(std::move(cluster)), flags_(std::move(flags)) {}

  struct Best {
    std::optional<ForecastSubject> subject;
    std::string why;  ///< there is none
  };
  const Best& on(JobTraining training, std::uint32_t gpus) {
    training.steps = 0;
    for (const auto& [key, best] : known_) {
      if (key.second == gpus && key.first == training) return best;
    }
    SearchQuestion question = question_of(training, cluster_, flags_);
    question.flags.gpus = gpus;
    Best best;
    try {
      best.subject = searched_subject(question, {});
    } catch (const InputError& none) {
      const Diagnostic& first = none.diagnostics.list().front();
      best.why = fmt::format("{} [{}]", first.message, first.code);
    }
    return known_.emplace_back(std::pair{training, gpus}, std::move(best)).second;
  }

 private:
  std::string cluster_;
  CommonFlags flags_;
  std::deque<std::pair<std::pair<JobTraining, std::uint32_t>, Best>> known_;
};

[[noreturn]] void refuse_job(const ClusterJob& job, const std::string& what, std::string why) {
  refuse("jobs.plan", fmt::format("{} (line {}): {}", job.name, job.at.line, what), {std::move(why)});
}

}  // namespace

std::vector<PlannedCurve> add_planned_speeds(JobWorkload& w, const std::string& cluster, const CommonFlags& flags,
                                             std::uint32_t node_gpus, std::uint32_t gpus, JobPlans plans) {
  std::vector<PlannedCurve> curves;
  BestPlans best(cluster, flags);
  for (ClusterJob& job : w.jobs) {
    if (!job.training) continue;
    auto known = std::find_if(curves.begin(), curves.end(), [&](const PlannedCurve& c) { return same_curve(c, job); });
    if (known == curves.end()) {
      PlannedCurve curve{*job.training, job.gpus, {}};
      const BestPlans::Best& found = best.on(*job.training, job.gpus);
      if (!found.subject)
        refuse_job(job, fmt::format("{} has no plan on {} GPUs", job.training->model, job.gpus), found.why);
      ForecastSubject own = *found.subject;
      own.question.reset();  // so that it is resized by replicas
      for (const std::uint32_t count : tried_counts(job.gpus, node_gpus, gpus)) {
        const std::optional<ForecastSubject> there = count == job.gpus ? own
                                                     : plans == JobPlans::change
                                                         ? best.on(*job.training, count).subject
                                                         : resized_subject(own, count, flags, {});
        if (there) curve.points.push_back({count, there->step.base(), describe(there->run.plan)});
      }
      known = curves.insert(curves.end(), std::move(curve));
    }
    if (!set_curve(job, known->points)) {
      refuse_job(job, "runs too long", fmt::format("{} steps are more than three years.", job.training->steps));
    }
  }
  return curves;
}

}  // namespace orrery
