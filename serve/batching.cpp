#include "serve/batching.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

namespace orrery {
namespace {

struct Sequence {
  std::size_t request = 0;
  std::uint32_t tokens = 0;    ///< known: prompt and what was made
  std::uint32_t computed = 0;  ///< whose keys are there
  std::uint32_t made = 0;
  std::uint64_t blocks = 0;
  std::uint32_t now = 0;  ///< tokens that the step computes
};

class BatchedGroup {
 public:
  BatchedGroup(const std::vector<ServedRequest>& trace, const BatchingLimits& limits, BatchingResult& out)
      : trace_(trace), limits_(limits), out_(out) {}

  void add(std::size_t request) {
    Sequence s;
    s.request = request;
    s.tokens = trace_[request].input;
    waiting_.push_back(s);
  }
  [[nodiscard]] std::size_t load() const { return running_.size() + waiting_.size(); }

  /// Chooses what the next step computes.
  StepShape schedule() {
    std::uint32_t budget = limits_.step_tokens;
    bool lost = false;
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
      const std::uint32_t now = std::min(budget, running_[i].tokens - running_[i].computed);
      while (i < running_.size() && !take(running_[i], running_[i].computed + now)) {
        lost = true;
        preempt();
      }
      if (i >= running_.size()) break;
      running_[i].now = now;
      budget -= now;
    }
    while (!lost && !waiting_.empty() && budget > 0 && running_.size() < limits_.sequences) {
      Sequence s = waiting_.front();
      // Blocks of the whole prompt are left, or it would lose them again soon.
      const std::uint32_t whole = limits_.reserves ? trace_[s.request].input + trace_[s.request].output : s.tokens;
      if (blocks_of(whole) > limits_.blocks - used_) break;
      s.now = std::min(budget, s.tokens);
      if (!take(s, limits_.reserves ? whole : s.now)) break;
      budget -= s.now;
      waiting_.pop_front();
      running_.push_back(s);
    }
    return shape();
  }

  /// Ends the step at `at`; returns how many requests ended.
  std::size_t finish(Seconds at) {
    std::size_t ended = 0;
    for (Sequence& s : running_) {
      s.computed += s.now;
      const bool token = s.now > 0 && s.computed == s.tokens;
      s.now = 0;
      if (!token) continue;
      RequestTimes& times = out_.requests[s.request];
      if (s.made == 0) times.first_token = at;
      ++s.made;
      ++s.tokens;
      times.last_token = at;
      if (s.made == trace_[s.request].output) {
        used_ -= s.blocks;
        s.blocks = 0;
        ++ended;
      }
    }
    if (ended > 0) {
      std::erase_if(running_, [&](const Sequence& s) { return s.made == trace_[s.request].output; });
    }
    return ended;
  }

 private:
  [[nodiscard]] std::uint64_t blocks_of(std::uint32_t tokens) const {
    return (std::uint64_t{tokens} + limits_.block_tokens - 1) / limits_.block_tokens;
  }

  bool take(Sequence& s, std::uint32_t tokens) {
    const std::uint64_t need = blocks_of(tokens);
    if (need <= s.blocks) return true;
    if (need - s.blocks > limits_.blocks - used_) return false;
    used_ += need - s.blocks;
    s.blocks = need;
    out_.most_blocks = std::max(out_.most_blocks, used_);
    return true;
  }

  void preempt() {
    Sequence s = running_.back();
    running_.pop_back();
    used_ -= s.blocks;
    s.blocks = 0;
    s.computed = 0;
    s.now = 0;
    ++out_.preemptions;
    ++out_.requests[s.request].preemptions;
    waiting_.push_front(s);
  }

  [[nodiscard]] StepShape shape() const {
    StepShape out;
    out.prompts = 0.0;
    double keys = 0.0;
    for (const Sequence& s : running_) {
      if (s.now == 0) continue;
      if (s.now == 1 && s.computed + 1 == s.tokens) {
        out.sequences += 1.0;
        keys += s.tokens;
      } else {
        out.chunk += s.now;
        out.before += static_cast<double>(s.now) * s.computed;
        out.prompts += 1.0;
        if (s.computed + s.now == s.tokens) out.finished += 1.0;
      }
    }
    if (out.sequences > 0.0) out.keys = keys / out.sequences;
    if (out.chunk > 0.0) out.before /= out.chunk;
    return out;
  }

  const std::vector<ServedRequest>& trace_;
  const BatchingLimits& limits_;
  BatchingResult& out_;
  std::vector<Sequence> running_;  ///< in order of admission
  std::deque<Sequence> waiting_;
  std::uint64_t used_ = 0;
};

/// The busiest group sets the time of a step.
StepShape busiest(const StepShape& a, const StepShape& b) {
  StepShape out = a.chunk >= b.chunk ? a : b;
  const StepShape& keys = a.sequences * a.keys >= b.sequences * b.keys ? a : b;
  out.sequences = std::max(a.sequences, b.sequences);
  out.keys = out.sequences > 0.0 ? keys.sequences * keys.keys / out.sequences : 0.0;
  return out;
}

}  // namespace

bool holds(const BatchingLimits& l, const ServedRequest& r) {
  const std::uint64_t tokens = std::uint64_t{r.input} + r.output;
  return (tokens + l.block_tokens - 1) / l.block_tokens <= l.blocks;
}

BatchingResult simulate_batching(const std::vector<ServedRequest>& trace, const BatchingLimits& limits,
                                 const std::function<Seconds(const StepShape&)>& step, const WorkProgress& progress) {
  BatchingResult out;
  out.requests.resize(trace.size());
  std::vector<BatchedGroup> groups;
  for (std::uint32_t g = 0; g < limits.groups; ++g) groups.emplace_back(trace, limits, out);
  Seconds now;
  std::size_t arrived = 0;
  std::size_t ended = 0;
  while (ended < trace.size()) {
    for (; arrived < trace.size() && trace[arrived].arrival + limits.entry <= now; ++arrived) {
      ORRERY_ASSERT(holds(limits, trace[arrived]), trace[arrived].input, trace[arrived].output);
      const auto least =
          std::min_element(groups.begin(), groups.end(),
                           [](const BatchedGroup& a, const BatchedGroup& b) { return a.load() < b.load(); });
      least->add(arrived);
    }
    StepShape shape;
    for (BatchedGroup& g : groups) shape = busiest(shape, g.schedule());
    if (shape.sequences == 0.0 && shape.chunk == 0.0) {
      ORRERY_ASSERT(arrived < trace.size(), ended);
      now = trace[arrived].arrival + limits.entry;
      continue;
    }
    now += step(shape);
    ++out.steps;
    for (BatchedGroup& g : groups) ended += g.finish(now);
    if (progress && out.steps % 1024 == 0) progress(ended, trace.size());
  }
  out.end = now;
  return out;
}

StepTimes::StepTimes(StepPricer pricer, EngineCosts costs, double pace)
    : pricer_(std::move(pricer)), costs_(costs), pace_(pace) {}

Seconds StepTimes::time(const StepShape& s) const { return pace_ * step_time(pricer_.work(s), costs_); }

double StepTimes::decode(std::uint32_t sequences, std::uint32_t keys_64) {
  if (known_.size() <= sequences) known_.resize(sequences + 1);
  std::vector<double>& of = known_[sequences];
  if (of.size() <= keys_64) of.resize(keys_64 + 1, -1.0);
  if (of[keys_64] < 0.0) {
    of[keys_64] = time({static_cast<double>(sequences), 64.0 * keys_64}).in(second);
  }
  return of[keys_64];
}

Seconds StepTimes::operator()(const StepShape& s) {
  if (s.chunk > 0.0) return time(s);
  const auto sequences = static_cast<std::uint32_t>(s.sequences);
  const double at = s.keys / 64.0;
  const auto below = static_cast<std::uint32_t>(std::floor(at));
  const double a = decode(sequences, below);
  const double b = decode(sequences, below + 1);
  return Seconds::of(a + (at - below) * (b - a));
}

}  // namespace orrery
