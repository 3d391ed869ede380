#include "cli/planned_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>

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

StepPoint point_of(const ForecastSubject& s, std::uint32_t gpus) {
  return {gpus, s.step.base(), describe(s.run.plan)};
}

}  // namespace

std::vector<PlannedCurve> add_planned_speeds(JobWorkload& w, const std::string& cluster, const CommonFlags& flags,
                                             std::uint32_t node_gpus, std::uint32_t gpus, JobPlans plans) {
  std::vector<PlannedCurve> curves;
  for (ClusterJob& job : w.jobs) {
    if (!job.training) continue;
    auto known = std::find_if(curves.begin(), curves.end(), [&](const PlannedCurve& c) { return same_curve(c, job); });
    if (known == curves.end()) {
      PlannedCurve curve{*job.training, job.gpus, {}};
      SearchQuestion question = question_of(*job.training, cluster, flags);
      question.flags.gpus = job.gpus;
      std::optional<ForecastSubject> own;
      try {
        own = searched_subject(question, {});
      } catch (const InputError& e) {
        Diagnostics d;
        d.error(
            "jobs.plan",
            fmt::format("{} (line {}): no plan of {} on {} GPUs", job.name, job.at.line, job.training->model, job.gpus),
            {fmt::format("{} [{}]", e.diagnostics.list().front().message, e.diagnostics.list().front().code)});
        throw InputError(d);
      }
      if (plans == JobPlans::keep) own->question.reset();
      for (const std::uint32_t count : tried_counts(job.gpus, node_gpus, gpus)) {
        const std::optional<ForecastSubject> there =
            count == job.gpus ? own : resized_subject(*own, count, question.flags, {});
        if (there) curve.points.push_back(point_of(*there, count));
      }
      known = curves.insert(curves.end(), std::move(curve));
    }
    if (!set_curve(job, known->points)) {
      Diagnostics d;
      d.error("jobs.plan", fmt::format("{} (line {}) runs too long", job.name, job.at.line),
              {fmt::format("{} steps of {:.3g} s are more than three years.", job.training->steps,
                           known->points.front().step_s)});
      throw InputError(d);
    }
  }
  return curves;
}

}  // namespace orrery
