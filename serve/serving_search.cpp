#include "serve/serving_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "core/base/pareto_front.hpp"

namespace orrery {
namespace {

class ServingPlans {
 public:
  ServingPlans(const ServingQuestion& q, const std::function<bool()>& go_on) : q_(q), go_on_(go_on) {}

  ServingSearch run() {
    if (q_.only) {
      look_at(*q_.only);
    } else {
      for (const WeightFormat format : q_.formats) {
        for (const bool kv : q_.kv_fp8) shapes(format, kv);
      }
    }
    std::stable_sort(out_.plans.begin(), out_.plans.end(), [&](const ServedPlan& a, const ServedPlan& b) {
      if (a.within_bounds != b.within_bounds) return a.within_bounds;
      if (a.keeps_up != b.keeps_up) return a.keeps_up;
      if (!a.keeps_up) return a.tokens_per_second > b.tokens_per_second;
      if (q_.rate && a.devices() != b.devices()) return a.devices() < b.devices();
      if (q_.rate && a.times.tpot != b.times.tpot) return a.times.tpot < b.times.tpot;
      if (q_.rate) return a.times.ttft < b.times.ttft;
      return a.tokens_per_second > b.tokens_per_second;
    });
    keep_front();
    return std::move(out_);
  }

 private:
  void shapes(WeightFormat format, bool kv) {
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(q_.cluster.devices(), 128));
    for (std::uint32_t tp = 1; tp <= most; tp *= 2) {
      for (std::uint32_t pp = 1; pp <= 8 && tp * pp <= most; pp *= 2) {
        for (std::uint32_t dp = 1; tp * pp * dp <= most; dp *= 2) {
          for (std::uint32_t ep = 1; ep <= tp * dp; ep *= 2) {
            ServingPlan p;
            p.tensor = tp;
            p.pipeline = pp;
            p.attention_data = dp;
            p.expert = ep;
            set_formats(p, format, q_.model);
            p.kv_fp8 = kv;
            // Whole replicas do what attention groups of a dense model would do.
            if (!q_.model.mixture && (dp > 1 || ep > 1)) break;
            // Experts are whole, or in slices over all devices of a stage.
            if (ep > 1 && ep < tp * dp) continue;
            if (go_on_ && !go_on_()) return;
            look_at(p);
          }
        }
      }
    }
  }

  void refuse(const ServingPlan& p, const std::string& reason) {
    if (reasons_.insert(reason).second) out_.refused.push_back({p, reason});
  }

  void look_at(const ServingPlan& p) {
    ++out_.tried;
    Diagnostics d;
    check_serving_plan(p, q_.model, q_.cluster, d);
    if (d.empty()) check_engine(q_.engine, p, q_.model, d);
    if (!d.empty()) {
      refuse(p, d.list().front().message);
      return;
    }
    const ServingMemory memory = serving_memory(q_.model, p, q_.cluster.device, q_.engine.memory);
    const double whole = q_.input + q_.output;
    const std::uint64_t fit = sequences_that_fit(q_.model, p, memory, whole);
    if (fit < p.attention_data) {
      refuse(p,
             memory.fits() ? "no device has room for the keys of one request" : "its weights leave no room for keys");
      return;
    }
    ++out_.fitting;
    const StepPricer pricer(q_.model, p, q_.cluster, q_.calibration);
    ServedPlan s;
    s.plan = p;
    s.memory = memory;
    s.sequences_fit = fit;
    s.kv_sequence = kv_bytes(q_.model, p, whole);
    const auto most = static_cast<std::uint32_t>(q_.cluster.devices() / p.devices());
    if (q_.rate) {
      with_rate(s, pricer, most);
    } else {
      // A replica without a request would serve nothing.
      s.replicas = std::max(1U, std::min(most, static_cast<std::uint32_t>(std::floor(*q_.concurrency))));
      s.concurrency = *q_.concurrency / s.replicas;
      price(s, pricer);
    }
    out_.plans.push_back(s);
    if (q_.output <= 1.0) return;  // no TPOT to stand on the front with
    for (double c = 1.0; c <= static_cast<double>(fit) && c <= 4096.0; c *= 2.0) {
      const ServingTimes t = served_times(q_, pricer, p, memory, c);
      points_.push_back({p, c, t.tpot, t.ttft, t.tokens_per_second / p.devices()});
    }
  }

  void price(ServedPlan& s, const StepPricer& pricer) {
    s.times = served_times(q_, pricer, s.plan, s.memory, s.concurrency);
    s.tokens_per_second = s.replicas * s.times.tokens_per_second;
    s.keeps_up = !s.times.saturated;
    s.within_bounds = (!q_.ttft || s.times.ttft <= *q_.ttft) && (!q_.tpot || s.times.tpot <= *q_.tpot);
    if (q_.cluster.price_per_gpu_hour) {
      s.cost_per_million = *q_.cluster.price_per_gpu_hour * s.devices() / 3600.0 / s.tokens_per_second * 1e6;
    }
  }

  /// The concurrency at which a replica ends as many requests a second.
  std::optional<double> concurrency_of(const ServedPlan& s, const StepPricer& pricer, double rate) {
    const auto ends = [&](double c) {
      return served_times(q_, pricer, s.plan, s.memory, c).tokens_per_second / q_.output;
    };
    double high = static_cast<double>(s.sequences_fit);
    if (ends(high) < rate) return std::nullopt;
    // One request at a time is done before the next comes: Little's law gives the share of the time that one is there.
    const ServingTimes alone = served_times(q_, pricer, s.plan, s.memory, 1.0);
    if (alone.tokens_per_second / q_.output >= rate) {
      return rate * (alone.ttft + (q_.output - 1.0) * alone.tpot).in(second);
    }
    double low = 1.0;
    for (int i = 0; i < 40; ++i) {
      const double middle = std::sqrt(low * high);
      (ends(middle) < rate ? low : high) = middle;
    }
    return high;
  }

  void with_rate(ServedPlan& s, const StepPricer& pricer, std::uint32_t most) {
    const auto keeps_up = [&](std::uint32_t replicas) {
      s.replicas = replicas;
      const std::optional<double> c = concurrency_of(s, pricer, *q_.rate / replicas);
      s.concurrency = c.value_or(static_cast<double>(s.sequences_fit));
      price(s, pricer);
      s.keeps_up = c.has_value();
      // What is asked for is what is made, and no more.
      if (c) {
        s.tokens_per_second = *q_.rate * q_.output;
        if (q_.cluster.price_per_gpu_hour) {
          s.cost_per_million = *q_.cluster.price_per_gpu_hour * s.devices() / 3600.0 / s.tokens_per_second * 1e6;
        }
      }
      return s.keeps_up && s.within_bounds;
    };
    std::uint32_t low = 1, high = most;
    if (!keeps_up(high)) return;
    while (low < high) {
      const std::uint32_t middle = (low + high) / 2;
      if (keeps_up(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    keeps_up(high);
  }

  void keep_front() {
    std::vector<std::vector<double>> figures;
    for (const ServingPoint& p : points_) figures.push_back({p.tpot.in(second), -p.tokens_per_second_per_gpu});
    for (const std::size_t i : pareto_front(figures)) out_.front.push_back(points_[i]);
    std::stable_sort(out_.front.begin(), out_.front.end(),
                     [](const ServingPoint& a, const ServingPoint& b) { return a.tpot < b.tpot; });
  }

  const ServingQuestion& q_;
  const std::function<bool()>& go_on_;
  ServingSearch out_;
  std::vector<ServingPoint> points_;
  std::set<std::string> reasons_;
};

}  // namespace

ServingLoad replica_load(const ServingQuestion& q, double concurrency) {
  ServingLoad out = q.further;
  out.input = q.input;
  out.output = q.output;
  out.concurrency = concurrency;
  return out;
}

ServingTimes served_times(const ServingQuestion& q, const StepPricer& pricer, const ServingPlan& p,
                          const ServingMemory& memory, double concurrency) {
  const LoadWork work = load_work(pricer, q.model, p, memory, q.engine.batch, replica_load(q, concurrency));
  return serving_times(work, q.engine.costs);
}

ServingSearch search_serving(const ServingQuestion& q, const std::function<bool()>& go_on) {
  return ServingPlans(q, go_on).run();
}

}  // namespace orrery
