#include "sim/des/jobs.hpp"

#include <algorithm>
#include <memory>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"
#include "core/record/history_hash.hpp"
#include "core/record/summarize.hpp"
#include "sim/des/machine.hpp"
#include "sim/des/rank_totals.hpp"
#include "sim/net/cluster_fabric.hpp"

namespace orrery {

namespace {

Seconds seconds(Picoseconds ps) { return Seconds::of(static_cast<double>(ps) * 1e-12); }

/// A job in play.
struct Playing {
  const FabricJob* job = nullptr;
  Prices prices;
  RankClasses classes;
  std::unique_ptr<FabricTraffic> traffic;
  std::unique_ptr<SharedNetwork> network;
  std::unique_ptr<Machine> machine;
  Trace totals;  ///< of each simulated rank what no event says
  Picoseconds begin = 0;
  Picoseconds last_begin = -1;  ///< of the last step that it ended
  std::uint32_t counted = 0;
  Picoseconds in_counted = 0;  ///< that these took together
  std::vector<Bytes> sent;     ///< bytes of a step over each link, or over a link of each class
  JobResult result;
};

Perturbation perturbation_of(const FabricJob& job) { return {job.noise, job.stragglers, job.slow}; }

void require_disjoint(const std::vector<FabricJob>& jobs, const Fabric& fabric) {
  std::vector<bool> taken(fabric.gpus(), false);
  for (const FabricJob& job : jobs) {
    const ClusterSpec& cluster = job.costs->cluster();
    ORRERY_ASSERT(job.gpus.size() == job.program->mesh.size(), job.gpus.size());
    ORRERY_ASSERT(fabric.spec().gpus() >= cluster.devices(), fabric.gpus(), cluster.devices());
    ORRERY_ASSERT(same_boxes(fabric.spec(), cluster), fabric.spec().node.gpus, cluster.devices_per_node);
    ORRERY_ASSERT(!job.costs->core_sharing(), cluster.devices());
    for (const std::uint32_t g : job.gpus) {
      ORRERY_ASSERT(g < cluster.devices() && !taken[g], g);
      taken[g] = true;
    }
  }
}

class Jobs {
 public:
  Jobs(const std::vector<FabricJob>& jobs, const JobsOptions& options) : options_(options) {
    ORRERY_ASSERT(!jobs.empty() && jobs.size() < 256 && options.steps > 0, jobs.size(), options.steps);
    require_disjoint(jobs, *options.fabric.fabric);
    std::vector<FoldingJob> folded;
    playing_.resize(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      Playing& p = playing_[j];
      p.job = &jobs[j];
      price(p.prices, *p.job->program, *p.job->costs);
      p.traffic =
          std::make_unique<FabricTraffic>(options.fabric, *p.job->program, *p.job->costs, std::span(p.job->gpus));
      const auto ranks = static_cast<std::uint32_t>(p.job->program->mesh.size());
      folded.push_back(
          {p.job->program, &p.prices, p.traffic.get(), rank_labels(perturbation_of(*p.job), p.prices, ranks)});
    }
    const bool noisy =
        std::any_of(jobs.begin(), jobs.end(), [](const FabricJob& job) { return job.noise.has_value(); });
    if (!options.expand && !noisy) folding_.emplace(std::move(folded));
    const Folding* const folding = folding_ ? &*folding_ : nullptr;
    flows_ = std::make_unique<FlowNetwork>(link_flows(*playing_.front().traffic, folding));
    for (std::uint32_t j = 0; j < playing_.size(); ++j) {
      Playing& p = playing_[j];
      p.classes = folding != nullptr ? folding->ranks(j) : single_ranks(*p.job->program);
      p.network = std::make_unique<SharedNetwork>(*flows_, *p.traffic, folding, j);
      p.machine = std::make_unique<Machine>(*p.job->program, p.prices, p.classes, perturbation_of(*p.job),
                                            std::vector<std::uint32_t>{}, p.network.get());
      for (const Rank r : p.classes.representative) p.totals.ranks.push_back({r, {}, 0, 0});
      add_totals(p.totals, *p.job->program);
      p.result.rank_classes = p.classes.count();
    }
  }

  JobsSimulation run() {
    look_up();
    for (Playing& p : playing_) p.machine->begin(0);
    // A job whose ops all take no time is done before anything happens.
    for (Playing& p : playing_) end_steps(p);
    std::uint64_t looks = 0;
    std::vector<std::uint32_t> ended;
    while (fewest_steps() < options_.steps) {
      Playing* first = nullptr;
      Picoseconds own = INT64_MAX;
      for (Playing& p : playing_) {
        if (p.machine->next_own() >= own) continue;
        own = p.machine->next_own();
        first = &p;
      }
      const Picoseconds arrival = flows_->idle() ? INT64_MAX : flows_->next_event();
      if (own == INT64_MAX && arrival == INT64_MAX) deadlock();
      now_ = std::min(own, arrival);
      constexpr std::uint64_t between_looks = 1U << 14U;
      if (++looks % between_looks == 0) look_up();
      if (own <= arrival) {
        first->machine->advance_own();
        end_steps(*first);
        continue;
      }
      ended.clear();
      flows_->advance(ended);
      for (const std::uint32_t flow : ended) {
        Playing& p = playing_[SharedNetwork::job_of(flow)];
        p.network->count_end(SharedNetwork::number_of(flow));
        p.machine->arrive(arrival, SharedNetwork::number_of(flow));
      }
      for (Playing& p : playing_) end_steps(p);
    }
    look_up();
    return result();
  }

 private:
  [[nodiscard]] std::uint32_t fewest_steps() const {
    std::uint32_t steps = UINT32_MAX;
    for (const Playing& p : playing_) steps = std::min(steps, p.result.steps);
    return steps;
  }

  /// Called where the job's step has ended: keeps what is known of it, and begins the next.
  void end_steps(Playing& p) {
    if (!p.machine->done()) return;
    // Steps that take no time would never end.
    if (p.machine->ops() == 0) {
      p.result.steps = options_.steps;
      return;
    }
    Trace trace = p.machine->take_trace();
    trace.concurrent_lanes = p.prices.concurrent_lanes;
    for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
      trace.ranks[i].peak_bytes = p.totals.ranks[i].peak_bytes;
      trace.ranks[i].sent_bytes = p.totals.ranks[i].sent_bytes;
    }
    hash_ = mix(hash_ ^ static_cast<std::uint64_t>(p.begin));
    hash_ = mix(hash_ ^ history_hash(trace, p.classes.of_rank));
    account_for(
        p, summarize(*p.job->run, *p.job->program, trace, p.prices.concurrent_lanes,
                     folding_ ? std::span<const std::uint32_t>(p.classes.ranks) : std::span<const std::uint32_t>()));
    if (p.result.steps == 0) p.sent = p.network->carried();
    ++p.result.steps;
    p.last_begin = p.begin;
    if (options_.timeline) {
      keep_classes(trace, *p.job->program);
      p.result.timeline.push_back({p.begin, std::move(trace)});
      forget();
    }
    p.begin = now_;
    p.machine->begin(now_, p.result.steps);
  }

  void account_for(Playing& p, Report report) const {
    JobResult& r = p.result;
    if (r.steps > 0 || options_.steps == 1) {
      r.shortest = p.counted == 0 ? report.step_time : std::min(r.shortest, report.step_time);
      r.longest = std::max(r.longest, report.step_time);
      p.in_counted += now_ - p.begin;
      r.compute += report.compute;
      r.exposed_communication += report.exposed_communication;
      r.bubble += report.bubble_fraction * report.step_time;
      ++p.counted;
    }
    r.last = std::move(report);
  }

  /// Leaves one rank of each class of the Program in the trace.
  static void keep_classes(Trace& trace, const Program& program) {
    const auto is_other = [&](const RankTrace& r) {
      return r.rank != representative(program, class_of(program, r.rank));
    };
    trace.ranks.erase(std::remove_if(trace.ranks.begin(), trace.ranks.end(), is_other), trace.ranks.end());
  }

  /// Drops steps that ended before some job began its last whole one.
  void forget() {
    Picoseconds from = INT64_MAX;
    for (const Playing& p : playing_) from = std::min(from, p.last_begin);
    for (Playing& p : playing_) {
      auto& steps = p.result.timeline;
      std::size_t old = 0;  // a step ends where the next begins
      while (old + 1 < steps.size() && steps[old + 1].begin <= from) ++old;
      steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(old));
    }
  }

  void look_up() const {
    const std::uint64_t done = std::min(fewest_steps(), options_.steps);
    if (options_.progress.report) options_.progress.report(done, options_.steps);
    if (options_.progress.cancelled != nullptr && options_.progress.cancelled->load(std::memory_order_relaxed)) {
      throw SimulationCancelled(done, options_.steps, now_);
    }
  }

  [[noreturn]] void deadlock() const {
    for (const Playing& p : playing_) {
      if (!p.machine->done()) throw Error(p.job->run->plan.name + ": " + p.machine->describe_deadlock());
    }
    ORRERY_ASSERT(false, now_);
    std::abort();
  }

  JobsSimulation result() {
    JobsSimulation out;
    out.time = seconds(now_);
    out.history_hash = hash_;
    if (folding_) {
      out.link_classes = folding_->link_classes();
      out.flow_classes = folding_->flow_classes();
    }
    for (Playing& p : playing_) {
      out.events += p.machine->events();
      if (p.counted > 0) {
        const double steps = p.counted;
        // Whole picoseconds first, so that equal steps have a mean that equals them.
        p.result.step_time = Seconds::of(static_cast<double>(p.in_counted) / steps * 1e-12);
        for (Seconds* mean : {&p.result.compute, &p.result.exposed_communication, &p.result.bubble}) {
          *mean = Seconds::of(mean->base() / steps);
        }
      }
    }
    const auto add = [&](LinkId link, std::size_t place) {
      SharedLoad load{link, playing_.front().traffic->capacity(link), {}};
      for (const Playing& p : playing_) load.by_job.push_back(p.sent.empty() ? Bytes{} : p.sent[place]);
      const bool used = std::any_of(load.by_job.begin(), load.by_job.end(), [](Bytes b) { return b.base() > 0.0; });
      if (used) out.links.push_back(std::move(load));
    };
    if (!folding_) {
      for (std::uint32_t l = 0; l < options_.fabric.fabric->links(); ++l) add(LinkId{l}, l);
    } else {
      for (std::size_t i = 0; i < folding_->links().size(); ++i) {
        add(folding_->links()[i], folding_->class_of_link()[i]);
      }
    }
    for (Playing& p : playing_) out.jobs.push_back(std::move(p.result));
    return out;
  }

  const JobsOptions& options_;
  std::vector<Playing> playing_;
  std::optional<Folding> folding_;
  std::unique_ptr<FlowNetwork> flows_;
  Picoseconds now_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace

double utilization(const SharedLoad& load, const std::vector<JobResult>& jobs, std::size_t j) {
  if (load.by_job[j].base() == 0.0) return 0.0;
  return load.by_job[j] / load.bandwidth / jobs[j].step_time;
}

double utilization(const SharedLoad& load, const std::vector<JobResult>& jobs) {
  double sum = 0.0;
  for (std::size_t j = 0; j < jobs.size(); ++j) sum += utilization(load, jobs, j);
  return sum;
}

JobsSimulation simulate_jobs(const std::vector<FabricJob>& jobs, const JobsOptions& options) {
  return Jobs(jobs, options).run();
}

}  // namespace orrery
