#include "serve/serving_load.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

double tokens_of_step(double draft, double acceptance) {
  if (acceptance >= 1.0) return draft + 1.0;
  return (1.0 - std::pow(acceptance, draft + 1.0)) / (1.0 - acceptance);
}

LoadWork load_work(const StepPricer& pricer, const ModelSpec& m, const ServingPlan& p, const ServingMemory& memory,
                   const BatchRule& rule, const ServingLoad& load) {
  LoadWork out;
  out.load = load;
  out.groups = p.attention_data;
  // Without reservation a sequence holds half of its output in the mean.
  const double held = load.input + (rule.reserves ? load.output : 0.5 * load.output);
  const auto room = static_cast<double>(sequences_that_fit(m, p, memory, held));
  out.fit = std::clamp(room, out.groups, out.groups * rule.sequences);
  out.running = std::min(std::max(load.concurrency, 1.0), out.fit);
  // A group with a sequence less waits for the others.
  const double group = std::max(1.0, out.running / out.groups);
  // A pipeline has a microbatch of the sequences in each stage.
  const double batch = std::max(1.0, group / p.pipeline);
  const double keys = load.input + 0.5 * load.output;
  // Requests of one token never decode.
  const double beside = load.output > 1.0 ? batch : 0.0;
  const double budget = std::max(1.0, rule.tokens - beside);
  const double fresh = std::max(1.0, load.input * (1.0 - load.prefix_hit));
  out.chunks = std::max(1.0, std::ceil(fresh / budget));
  const double chunk = fresh / out.chunks;
  const double each = 1.0 + load.draft;
  const auto decode = [&](double sequences, double tokens) {
    return pricer.work({sequences, keys, 0.0, 0.0, 0.0, 1.0, tokens});
  };
  out.decode = decode(batch, each);
  out.half = decode(std::max(0.5, 0.5 * batch), each);
  out.plain = load.draft > 0.0 ? decode(batch, 1.0) : out.decode;
  const double before = load.input - fresh + 0.5 * (fresh - chunk);
  out.mixed = pricer.work({beside, keys, chunk, before, 1.0 / out.chunks, 1.0, each});
  return out;
}

Seconds first_step(double layers, const EngineCosts& c) { return Seconds::of(c[EngineCost::prompt_layer] * layers); }

namespace {

Seconds first_step(const LoadWork& w, const EngineCosts& c) {
  return first_step((w.mixed.layers + w.mixed.mixtures) * w.mixed.stages, c);
}

/// Requests whose one token their prompt's last step makes.
ServingTimes times_of_prompts(const LoadWork& w, const EngineCosts& c) {
  ServingTimes out;
  const Seconds prompt = w.chunks * step_time(w.mixed, c);
  const Seconds alone = first_step(w, c) + c[EngineCost::prompt] * prompt;
  const Seconds whole = std::max(alone, w.running / (w.groups * w.mixed.stages) * prompt);
  out.running = w.running;
  out.prompt_share = 1.0;
  out.tokens_per_second = w.running / whole.in(second);
  out.saturated = w.load.concurrency > w.running;
  out.ttft = out.saturated ? (w.load.concurrency / w.running) * whole : whole;
  return out;
}

}  // namespace

ServingTimes pool_times(const PoolWork& w, const EngineCosts& c) {
  ServingTimes out;
  const double n = std::max(1.0, w.decode.load.output);
  const double all = w.decode.running * w.decode_workers;
  const Seconds full = step_time(w.decode.decode, c);
  const Seconds half = step_time(w.decode.half, c);
  const Seconds prompt = w.prompts.chunks * step_time(w.prompts.mixed, c);
  const double most = w.prompt_workers * w.prompts.groups / prompt.in(second);
  Seconds t = full;
  Seconds wait;
  double rate = most;
  for (int round = 0; round < 40; ++round) {
    wait = first_step(w.prompts, c) + c[EngineCost::prompt] * prompt + w.transfer + t;
    rate = std::min(most, all / (wait + (n - 1.0) * t).in(second));
    const double decoding = std::min(1.0, rate * ((n - 1.0) * t).in(second) / all);
    // The line goes on below half of the sequences, where no step is free.
    const Seconds next = std::max(0.5 * half, half + (2.0 * decoding - 1.0) * (full - half));
    t = 0.5 * (t + next);
  }
  out.decode_step = t;
  out.tpot = t;
  out.running = rate * ((n - 1.0) * t).in(second) / w.decode_workers;
  out.tokens_per_second = rate * n;
  out.ttft = std::max(wait, Seconds::of(all / rate) - (n - 1.0) * t);
  out.saturated = out.ttft > 1.5 * wait;
  return out;
}

ServingTimes serving_times(const LoadWork& w, const EngineCosts& c) {
  if (w.load.output <= 1.0) return times_of_prompts(w, c);
  ServingTimes out;
  const Seconds full = step_time(w.decode, c);
  const Seconds half = step_time(w.half, c);
  const double made = tokens_of_step(w.load.draft, w.load.acceptance);
  const Seconds drafts = w.load.draft * w.load.draft_cost * step_time(w.plain, c);
  const Seconds prompt = w.chunks * std::max(Seconds{}, step_time(w.mixed, c) - full);
  const double n = std::max(1.0, w.load.output);
  // A request's own prompt is done before its first token. Prompts of others follow each other through the stages.
  const double others = std::max(0.0, w.running - 1.0) / (w.groups * w.mixed.stages);
  const double batch = std::max(1.0, w.running / (w.groups * w.mixed.stages));
  const Seconds first = first_step(w, c);
  Seconds tpot = (full + drafts) / made;
  Seconds wait, whole, t = full;
  for (int round = 0; round < 40; ++round) {
    const Seconds token = (t + drafts) / made;
    const double busy = std::min(1.0 - token / std::max(token, tpot), 0.95);
    wait = first + 0.5 * t + c[EngineCost::prompt] * (1.0 + busy / (2.0 * (1.0 - busy))) * (prompt + w.chunks * t) +
           c[EngineCost::burst] * others * prompt;
    whole = wait + (n - 1.0) * tpot;
    const double decoding = (n - 1.0) * tpot / whole;
    const double beside = (1.0 + (batch - 1.0) * decoding) / batch;
    t = half + std::max(0.0, 2.0 * beside - 1.0) * (full - half);
    const Seconds next = (t + drafts) / made + others * (tpot / whole) * prompt;
    tpot = 0.5 * (tpot + next);
  }
  out.decode_step = t;
  out.running = w.running;
  out.tpot = tpot;
  out.prompt_share = std::max(0.0, 1.0 - (t + drafts) / made / tpot);
  out.tokens_per_second = w.running * n / whole.in(second);
  out.saturated = w.load.concurrency > w.running;
  // Those that wait leave at the rate at which requests end.
  out.ttft = wait + (out.saturated ? (w.load.concurrency - w.running) * (whole / w.running) : Seconds{});
  return out;
}

}  // namespace orrery
