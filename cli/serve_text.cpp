#include "cli/serve_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

std::string kv_text(const ServingPlan& p) { return p.kv_fp8 ? "fp8" : "bf16"; }

std::string weights_text(const ServingPlan& p, const ModelSpec& m) {
  if (!m.mixture || p.experts == p.weights) return std::string(name_of(p.weights));
  return fmt::format("{}, experts {}", name_of(p.weights), name_of(p.experts));
}

std::string load_text(const ServingQuestion& q) {
  const std::string lengths = fmt::format("requests of {:g} + {:g} tokens", q.input, q.output);
  if (q.rate) return fmt::format("{}, {:g} a second", lengths, *q.rate);
  return fmt::format("{}, {:g} under way", lengths, *q.concurrency);
}

StepTimeParts parts_of(const ServingQuestion& q, const ServedPlan& s, Seconds& prompts) {
  const StepPricer pricer(q.model, s.plan, q.cluster, q.calibration);
  const LoadWork w = load_work(pricer, q.model, s.plan, s.memory, q.engine.batch, replica_load(q, s.concurrency));
  prompts = s.times.prompt_share * s.times.tpot;
  return step_time_parts(w.decode, q.engine.costs);
}

/// What a token of the best plan waits for.
std::string parts_text(const ServingQuestion& q, const ServedPlan& s) {
  Seconds prompts;
  const StepTimeParts p = parts_of(q, s, prompts);
  const auto of = [&](StepPart part) { return p.ops[static_cast<std::size_t>(part)]; };
  const bool drafts = q.further.draft > 0.0;
  Table table({drafts ? "<what a step of #1 takes" : "<what a token of #1 waits for", "time"});
  const auto row = [&](const char* what, Seconds t) {
    if (t > Seconds::of(1e-7)) table.row({what, short_text(t)});
  };
  row("dense weights: read, multiplied", of(StepPart::dense));
  row("experts", of(StepPart::expert));
  row("keys and values", of(StepPart::keys));
  row("norms and residuals", of(StepPart::elementwise));
  row("launches and gaps of layers", p.layers);
  row("messages", p.collectives);
  row("the engine: scheduler, sampler", p.host);
  row(drafts ? "prompts of others, for each token" : "prompts of others in its steps", prompts);
  return table.str();
}

Json times_json(const ServingTimes& t) {
  const auto known = [](Seconds time) { return time > Seconds{} ? Json(time.in(second)) : Json(nullptr); };
  return {{"ttft_s", t.ttft.in(second)},    {"tpot_s", known(t.tpot)}, {"decode_step_s", known(t.decode_step)},
          {"prompt_share", t.prompt_share}, {"running", t.running},    {"saturated", t.saturated}};
}

Json plan_json(const ServingPlan& p) {
  return {{"tensor", p.tensor}, {"pipeline", p.pipeline},        {"attention_data", p.attention_data},
          {"expert", p.expert}, {"weights", name_of(p.weights)}, {"experts", name_of(p.experts)},
          {"kv", kv_text(p)}};
}

std::string bounds_text(const ServingQuestion& q) {
  std::string out;
  if (q.ttft) out += fmt::format(" TTFT {}", short_text(*q.ttft));
  if (q.tpot) out += fmt::format("{} TPOT {}", out.empty() ? "" : ",", short_text(*q.tpot));
  return out;
}

std::string verdict_text(const ServingQuestion& q, const ServedPlan& best) {
  const std::string what =
      fmt::format("{} of {} ({}): {} tokens/s, first token after {}", counted(best.replicas, "replica"),
                  text_of(best.plan, q.model), counted(best.devices(), "GPU"), short_count(best.tokens_per_second),
                  short_text(best.times.ttft));
  const std::string then = q.output > 1.0 ? ", then one in " + short_text(best.times.tpot) : "";
  std::string out = fmt::format("The best plan is {}{}.\n", what, then);
  if (!best.keeps_up) {
    out += q.rate ? "No plan keeps up with the rate: requests pile up.\n"
                  : "Requests wait: memory or the engine's limits hold fewer than are under way.\n";
  }
  if (!best.within_bounds) out += fmt::format("No plan keeps within{}.\n", bounds_text(q));
  return out;
}

}  // namespace

std::string serving_text(const ServingQuestion& q, const ServingSearch& s, std::size_t top) {
  std::string out = fmt::format("{}, {} parameters, on {} ({} x {}), served by {}\n{}\n\n", q.model.name,
                                short_count(static_cast<double>(parameter_count(q.model))), q.cluster.name,
                                q.cluster.devices(), q.cluster.device.name, q.engine.title, load_text(q));
  if (s.plans.empty()) {
    out += "No plan can serve it.\n";
  } else {
    out += verdict_text(q, s.plans.front()) + "\n";
    const std::size_t shown = std::min(top, s.plans.size());
    std::vector<std::string> head{"plan"};
    for (std::size_t i = 0; i < shown; ++i) head.push_back(fmt::format("#{}", i + 1));
    Table table(head);
    const auto row = [&](const char* name, auto text) {
      std::vector<std::string> cells{name};
      for (std::size_t i = 0; i < shown; ++i) cells.push_back(text(s.plans[i]));
      table.row(cells);
    };
    const auto number = [](auto n) { return fmt::format("{}", n); };
    row("replicas", [&](const ServedPlan& p) { return number(p.replicas); });
    row("GPUs of a replica", [&](const ServedPlan& p) { return number(p.plan.devices()); });
    row("  tensor", [&](const ServedPlan& p) { return number(p.plan.tensor); });
    row("  pipeline", [&](const ServedPlan& p) { return number(p.plan.pipeline); });
    if (q.model.mixture) {
      row("  attention groups", [&](const ServedPlan& p) { return number(p.plan.attention_data); });
      row("  expert", [&](const ServedPlan& p) { return number(p.plan.expert); });
    }
    row("weights", [&](const ServedPlan& p) { return weights_text(p.plan, q.model); });
    row("keys and values", [&](const ServedPlan& p) { return kv_text(p.plan); });
    row("TTFT", [&](const ServedPlan& p) { return short_text(p.times.ttft); });
    row("TPOT", [&](const ServedPlan& p) { return q.output > 1.0 ? short_text(p.times.tpot) : "-"; });
    row("tokens/s", [&](const ServedPlan& p) { return short_count(p.tokens_per_second); });
    row("tokens/s per GPU", [&](const ServedPlan& p) { return short_count(p.tokens_per_second_per_gpu()); });
    row("cost per million tokens", [&](const ServedPlan& p) {
      return p.cost_per_million ? fmt::format("{:.3g} {}", *p.cost_per_million, q.cluster.price_currency) : "unknown";
    });
    row("requests that fit", [&](const ServedPlan& p) { return number(p.sequences_fit); });
    row("  under way", [&](const ServedPlan& p) { return fmt::format("{:.3g}", p.concurrency); });
    row("KV of a request, each GPU", [&](const ServedPlan& p) { return short_text(p.kv_sequence); });
    row("room for KV, each GPU", [&](const ServedPlan& p) { return short_text(p.memory.kv); });
    row("weights, each GPU", [&](const ServedPlan& p) { return short_text(p.memory.weights); });
    out += table.str();
    if (q.output > 1.0) out += "\n" + parts_text(q, s.plans.front());
  }
  if (!s.front.empty()) {
    Table front({"<front", "under way", "TPOT", "tokens/s/GPU"});
    const std::size_t step = std::max<std::size_t>(1, (s.front.size() + 7) / 8);
    for (std::size_t i = 0; i < s.front.size(); i += step) {
      const ServingPoint& p = s.front[i];
      front.row({text_of(p.plan, q.model), fmt::format("{:g}", p.concurrency), short_text(p.tpot),
                 short_count(p.tokens_per_second_per_gpu)});
    }
    out += "\nThe least TPOT for so many tokens/s per GPU, each replica with so many under way\n" + front.str();
  }
  if (!s.refused.empty()) {
    out += "\nNot possible\n";
    for (std::size_t i = 0; i < s.refused.size() && i < 6; ++i) {
      out += fmt::format("  {}: {}\n", text_of(s.refused[i].plan, q.model), s.refused[i].reason);
    }
  }
  return out + fmt::format("\n{} plans, of which {} fit. How far off such figures are: docs/serve-results.md.\n",
                           s.tried, s.fitting);
}

nlohmann::ordered_json serving_json(const ServingQuestion& q, const ServingSearch& s, std::size_t top) {
  Json out;
  out["model"] = q.model.name;
  out["cluster"] = q.cluster.name;
  out["gpus"] = q.cluster.devices();
  out["engine"] = q.engine.name;
  out["input"] = q.input;
  out["output"] = q.output;
  out["concurrency"] = q.concurrency ? Json(*q.concurrency) : Json(nullptr);
  out["rate_per_s"] = q.rate ? Json(*q.rate) : Json(nullptr);
  out["plans"] = Json::array();
  for (std::size_t i = 0; i < s.plans.size() && i < top; ++i) {
    const ServedPlan& p = s.plans[i];
    Json row = plan_json(p.plan);
    row["replicas"] = p.replicas;
    row["gpus"] = p.devices();
    row["concurrency"] = p.concurrency;
    row["times"] = times_json(p.times);
    row["tokens_per_s"] = p.tokens_per_second;
    row["tokens_per_s_per_gpu"] = p.tokens_per_second_per_gpu();
    row["cost_per_million_tokens"] = p.cost_per_million ? Json(*p.cost_per_million) : Json(nullptr);
    row["currency"] = q.cluster.price_currency;
    row["requests_that_fit"] = p.sequences_fit;
    row["kv_bytes_per_request"] = p.kv_sequence.in(byte);
    row["kv_bytes_free"] = p.memory.kv.in(byte);
    row["weight_bytes"] = p.memory.weights.in(byte);
    row["keeps_up"] = p.keeps_up;
    row["within_bounds"] = p.within_bounds;
    out["plans"].push_back(std::move(row));
  }
  out["front"] = Json::array();
  for (const ServingPoint& p : s.front) {
    Json row = plan_json(p.plan);
    row["concurrency"] = p.concurrency;
    row["tpot_s"] = p.tpot.in(second);
    row["ttft_s"] = p.ttft.in(second);
    row["tokens_per_s_per_gpu"] = p.tokens_per_second_per_gpu;
    out["front"].push_back(std::move(row));
  }
  out["refused"] = Json::array();
  for (const RefusedServingPlan& r : s.refused) {
    Json row = plan_json(r.plan);
    row["reason"] = r.reason;
    out["refused"].push_back(std::move(row));
  }
  out["tried"] = s.tried;
  out["fitting"] = s.fitting;
  return out;
}

std::string pools_text(const ServingQuestion& q, const ServingSearch& s, const std::optional<PooledPlan>& p) {
  if (!p) return "\nNo two pools: two workers do not fit the cluster.\n";
  std::string out = fmt::format("\nPools of their own: {} of {} for prompts, {} of {} decode ({})\n",
                                counted(p->prompt_workers, "worker"), text_of(p->prompts, q.model), p->decode_workers,
                                text_of(p->decode, q.model), counted(p->devices(), "GPU"));
  Table table({"", "TTFT", "TPOT", "tokens/s", "tokens/s/GPU"});
  const auto row = [&](const char* what, const ServingTimes& t, double tokens, std::uint32_t devices) {
    table.row({what, short_text(t.ttft), short_text(t.tpot), short_count(tokens), short_count(tokens / devices)});
  };
  row("two pools", p->times, p->tokens_per_second, p->devices());
  const ServedPlan& best = s.plans.front();
  row("#1", best.times, best.tokens_per_second, best.devices());
  out += table.str() + fmt::format("A prompt's keys, {}, travel in {}. {} of pools were priced.\n", short_text(p->keys),
                                   short_text(p->transfer), counted(p->tried, "split"));
  return p->within_bounds ? out : out + fmt::format("No pools keep within{}.\n", bounds_text(q));
}

nlohmann::ordered_json pools_json(const ServingQuestion& q, const std::optional<PooledPlan>& p) {
  if (!p) return nullptr;
  return {{"prompts", plan_json(p->prompts)},
          {"prompt_workers", p->prompt_workers},
          {"decode", plan_json(p->decode)},
          {"decode_workers", p->decode_workers},
          {"gpus", p->devices()},
          {"times", times_json(p->times)},
          {"tokens_per_s", p->tokens_per_second},
          {"cost_per_million_tokens", p->cost_per_million ? Json(*p->cost_per_million) : Json(nullptr)},
          {"currency", q.cluster.price_currency},
          {"key_bytes", p->keys.in(byte)},
          {"transfer_s", p->transfer.in(second)},
          {"within_bounds", p->within_bounds},
          {"tried", p->tried}};
}

std::vector<Chart> serving_charts(const ServingQuestion& q, const ServingSearch& s, std::size_t top) {
  Chart chart;
  chart.title = fmt::format("{} on {} GPUs of {}, {}, {:g} + {:g} tokens", q.model.name, q.cluster.devices(),
                            q.cluster.name, q.engine.title, q.input, q.output);
  chart.x_label = "time per output token (ms)";
  chart.y_label = "output tokens per second and GPU";
  chart.log_x = true;
  chart.log_y = true;
  Series front{"front", {}, true};
  for (const ServingPoint& p : s.front) front.points.push_back({p.tpot.in(millisecond), p.tokens_per_second_per_gpu});
  chart.series.push_back(front);
  for (std::size_t i = 0; i < s.plans.size() && i < top; ++i) {
    const ServedPlan& p = s.plans[i];
    chart.series.push_back({fmt::format("#{} {}", i + 1, text_of(p.plan, q.model)),
                            {{p.times.tpot.in(millisecond), p.tokens_per_second_per_gpu()}},
                            false});
  }
  return {chart};
}

}  // namespace orrery
