#include "cli/serve_request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "cli/amounts.hpp"
#include "cli/plan_source.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

Seconds bound_of(const std::string& text, const char* flag) {
  Seconds out;
  std::string problem;
  if (!parse_quantity(text, out, problem)) {
    refuse("cli.amount", fmt::format("{}: \"{}\" is no time", flag, escaped(text)),
           {problem, "A time has a unit: 500ms, \"1.5 s\"."});
  }
  return out;
}

std::vector<WeightFormat> formats_of(const std::string& list) {
  std::vector<WeightFormat> out;
  const auto& names = weight_format_names();
  for (const std::string& word : split(list, ',')) {
    const auto at = std::find(names.begin(), names.end(), word);
    if (at == names.end()) {
      refuse("cli.arguments", fmt::format("--weights: \"{}\" is no format", escaped(word)),
             {fmt::format("Formats: {}.", fmt::join(names, ", "))});
    }
    out.push_back(static_cast<WeightFormat>(at - names.begin()));
  }
  if (out.empty()) refuse("cli.arguments", "--weights names no format");
  return out;
}

std::vector<bool> kv_of(const std::string& list) {
  std::vector<bool> out;
  for (const std::string& word : split(list, ',')) {
    if (word != "bf16" && word != "fp8") {
      refuse("cli.arguments", fmt::format("--kv: \"{}\" is no format of keys", escaped(word)), {"Formats: bf16, fp8."});
    }
    out.push_back(word == "fp8");
  }
  if (out.empty()) refuse("cli.arguments", "--kv names no format");
  return out;
}

/// "tp=4 pp=2 dp=2 ep=8".
ServingPlan plan_of(const std::string& words) {
  ServingPlan p;
  std::set<std::string> given;
  for (const std::string& word : split(words, ' ')) {
    const std::size_t equal = word.find('=');
    const std::string key = word.substr(0, equal);
    std::uint32_t* const into = key == "tp"   ? &p.tensor
                                : key == "pp" ? &p.pipeline
                                : key == "dp" ? &p.attention_data
                                : key == "ep" ? &p.expert
                                              : nullptr;
    if (into == nullptr || equal == std::string::npos) {
      refuse("cli.arguments", fmt::format("--plan: \"{}\" is no size", escaped(word)),
             {"Sizes: tp, pp, dp (attention groups), ep, as \"tp=4 ep=4\"."});
    }
    if (!given.insert(key).second) {
      refuse("cli.arguments", fmt::format("--plan names {} twice", key), {"Each size stands once."});
    }
    const double size = number_of(word.substr(equal + 1), "--plan", 1.0, 65536.0);
    if (size != std::floor(size)) {
      refuse("cli.amount", fmt::format("--plan: \"{}\" is no whole number", escaped(word)), {"A size counts devices."});
    }
    *into = static_cast<std::uint32_t>(size);
  }
  return p;
}

}  // namespace

namespace {

/// Counts from what the command line gives; it only names their bounds.
void check_counts(const ServeRequest& r) {
  const auto bounds = [](const char* flag, std::optional<std::uint32_t> given, std::uint32_t least,
                         std::uint32_t most) {
    if (!given || (*given >= least && *given <= most)) return;
    refuse("cli.amount", fmt::format("{} is out of range", flag),
           {fmt::format("It is {}; from {} to {} is allowed.", *given, least, most)});
  };
  bounds("--input", r.input, 1, 10'000'000);
  bounds("--output", r.output, 1, 10'000'000);
  bounds("--step-tokens", r.step_tokens, 16, 1U << 20);
  bounds("--most-sequences", r.most_sequences, 1, 1U << 20);
  bounds("--requests", r.requests, 1, 1'000'000);
  bounds("--draft", r.draft, 1, 64);
}

}  // namespace

ServingQuestion serving_question(const ServeRequest& r) {
  check_counts(r);
  if (r.concurrency && r.rate) refuse("cli.flags", "--concurrency and --rate exclude each other");
  if (r.pools && (r.rate || r.plan)) {
    refuse("cli.flags", "--pools shares out a whole cluster: it goes with --concurrency, and with no --rate or --plan");
  }
  if (r.pools && r.draft) refuse("cli.flags", "pools of their own are priced without drafts", {"Leave out --draft."});
  if (r.fit > 0 && !r.trace) refuse("cli.flags", "--fit goes with --trace", {"It names the first requests of it."});
  if (r.requests && (r.trace || !r.rate)) {
    refuse("cli.flags", "--requests plays Poisson arrivals: it goes with --rate, and not with --trace");
  }
  if (r.seed && !r.requests) {
    refuse("cli.flags", "--seed goes with --requests", {"It draws their arrivals; a trace has its own."});
  }
  if (r.kv_tokens && !r.trace && !r.requests) {
    refuse("cli.flags", "--kv-tokens goes with --trace or --requests",
           {"A steady load has the room that memory leaves."});
  }
  if (r.output == 1 && (r.tpot || r.pools)) {
    refuse("cli.flags", "--tpot and --pools are about tokens after the first, and --output 1 makes none",
           {"--ttft bounds the time to the first token."});
  }
  const Library library = library_of(r.flags);
  Diagnostics d;
  std::optional<ModelSpec> model = named_model(library, r.model, d);
  std::optional<ClusterSpec> cluster = named_cluster(library, with_nic(r.cluster, r.flags), r.flags.gpus, d);
  std::optional<EngineTable> engines = read_engines(engines_path(library), d);
  require_none(d);
  const Engine* engine = engines->find(r.engine);
  if (engine == nullptr) {
    refuse("serve.engine", fmt::format("no engine is called {}", escaped(r.engine)),
           {fmt::format("Engines: {}.", fmt::join(engines->names(), ", "))});
  }
  if (!cluster->other_nodes.empty()) {
    refuse("serve.devices", fmt::format("{} has nodes of several kinds", cluster->name),
           {"A replica is priced on equal devices: name the part of one kind."});
  }
  if (cluster->device.cores_shared > 0) {
    refuse("serve.devices", fmt::format("engines are priced on GPUs, and {} has CPU cores", cluster->name),
           {"--cluster h100:1 is one GPU."});
  }
  if (model->max_positions > 0 && std::uint64_t{r.input} + r.output > model->max_positions) {
    refuse("serve.model", fmt::format("{} has {} positions", model->name, model->max_positions),
           {fmt::format("--input and --output are {} together.", std::uint64_t{r.input} + r.output)});
  }
  set_price(*cluster, r.flags);
  CommonFlags flags = r.flags;
  flags.software = "none";  // costs of training programs say nothing of engines
  ServingQuestion q;
  q.calibration = calibration_of(flags, library, *cluster, Precision::bf16).calibration;
  q.model = std::move(*model);
  q.cluster = std::move(*cluster);
  q.engine = *engine;
  if (r.step_tokens) q.engine.batch.tokens = *r.step_tokens;
  if (r.most_sequences) q.engine.batch.sequences = *r.most_sequences;
  q.input = r.input;
  q.output = r.output;
  if (r.rate) q.rate = number_of(*r.rate, "--rate", 1e-6, 1e9);
  if (!r.rate) q.concurrency = r.concurrency ? number_of(*r.concurrency, "--concurrency", 1.0, 1e9) : 64.0;
  if (r.prefix_hit) q.further.prefix_hit = number_of(*r.prefix_hit, "--prefix-hit", 0.0, 0.999);
  if (r.draft.has_value() != r.acceptance.has_value() || (r.draft_cost && !r.draft)) {
    refuse("cli.flags", "--draft and --acceptance go together, and --draft-cost with them",
           {"--draft 3 --acceptance 0.7 --draft-cost 0.05"});
  }
  if (r.draft) {
    q.further.draft = *r.draft;
    q.further.acceptance = number_of(*r.acceptance, "--acceptance", 0.0, 1.0);
    if (r.draft_cost) q.further.draft_cost = number_of(*r.draft_cost, "--draft-cost", 0.0, 10.0);
  }
  if ((r.trace || r.requests) && (r.prefix_hit || r.draft)) {
    refuse("cli.flags", "requests that are played one by one have neither prefix hits nor drafts",
           {"--prefix-hit and --draft go with a steady load alone."});
  }
  if (r.ttft) q.ttft = bound_of(*r.ttft, "--ttft");
  if (r.tpot) q.tpot = bound_of(*r.tpot, "--tpot");
  q.formats = formats_of(r.weights);
  q.kv_fp8 = kv_of(r.kv);
  if (r.plan) {
    ServingPlan p = plan_of(*r.plan);
    set_formats(p, q.formats.front(), q.model);
    p.kv_fp8 = q.kv_fp8.front();
    check_serving_plan(p, q.model, q.cluster, d);
    if (d.empty()) check_engine(q.engine, p, q.model, d);
    require_none(d);
    q.only = p;
  } else {
    // What no plan could mend.
    check_serving_plan({}, q.model, q.cluster, d);
    require_none(d);
  }
  return q;
}

PlayedTrace played_trace(const ServeRequest& r, const ServingQuestion& q, const ServedPlan& s,
                         const WorkProgress& progress) {
  PlayedTrace out;
  if (s.plan.pipeline > 1) {
    refuse("serve.trace", fmt::format("requests are played on one stage, and the best plan has {}", s.plan.pipeline),
           {"--plan \"tp=2\" names a plan without a pipeline."});
  }
  if (r.trace) {
    Diagnostics d;
    std::optional<std::vector<ServedRequest>> trace = read_trace(*r.trace, d);
    require_none(d);
    out.name = escaped(*r.trace);
    out.trace = std::move(*trace);
  } else {
    const double rate = *q.rate / s.replicas;
    const std::uint64_t seed = r.seed.value_or(1);
    out.name = fmt::format("Poisson arrivals at {:.3g} a second for a replica, seed {}", rate, seed);
    out.trace = poisson_requests(*r.requests, rate, r.input, r.output, seed);
  }
  BatchingLimits& l = out.limits;
  l.step_tokens = q.engine.batch.tokens;
  l.sequences = q.engine.batch.sequences;
  l.reserves = q.engine.batch.reserves;
  l.groups = s.plan.attention_data;
  const std::uint64_t mixtures = q.model.mixture ? mixture_count(q.model) : 0;
  l.entry = first_step(static_cast<double>(q.model.layers + mixtures), q.engine.costs);
  // Windows keep fewer keys the longer a request is; the longest of the trace counts.
  double longest = 1.0;
  for (const ServedRequest& t : out.trace) longest = std::max(longest, static_cast<double>(t.input) + t.output);
  const Bytes each = kv_bytes(q.model, s.plan, longest);
  const double tokens = r.kv_tokens ? static_cast<double>(*r.kv_tokens) : s.memory.kv / each * longest;
  l.blocks = static_cast<std::uint64_t>(std::floor(tokens / l.block_tokens));
  for (std::size_t i = 0; i < out.trace.size(); ++i) {
    if (holds(l, out.trace[i])) continue;
    refuse("serve.trace",
           fmt::format("request {} has {} + {} tokens, more than there is room for", i + 1, out.trace[i].input,
                       out.trace[i].output),
           {fmt::format("A device has room for {} blocks of {} tokens.", l.blocks, l.block_tokens),
            "More GPUs for a replica, or --kv fp8, make room."});
  }
  const StepPricer pricer(q.model, s.plan, q.cluster, q.calibration);
  const auto play = [&](double pace) {
    StepTimes steps(pricer, q.engine.costs, pace);
    return simulate_batching(
        out.trace, l, [&](const StepShape& shape) { return steps(shape); }, progress);
  };
  if (r.fit > 0) {
    const std::size_t n = r.fit;
    if (n >= out.trace.size()) {
      refuse("serve.trace", fmt::format("--fit {} leaves none of {} requests to predict", n, out.trace.size()),
             {fmt::format("At most {} can be fitted to.", out.trace.size() - 1)});
    }
    double measured = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!out.trace[i].last_token) {
        refuse("serve.trace", fmt::format("request {} has no measured times", i + 1),
               {"--fit needs first_token_ts and last_token_ts of the first requests."});
      }
      measured += (*out.trace[i].last_token - out.trace[i].arrival).in(second);
    }
    // Latency grows with the pace, so halving closes in on the one that gives the measured mean.
    const auto latency = [&](double pace) {
      const BatchingResult result = play(pace);
      double sum = 0.0;
      for (std::size_t i = 0; i < n; ++i) sum += (result.requests[i].last_token - out.trace[i].arrival).in(second);
      return sum;
    };
    double low = 0.2, high = 5.0;
    for (const double bound : {low, high}) {
      const double sum = latency(bound);
      if (bound < 1.0 ? sum <= measured : sum >= measured) continue;
      refuse("serve.trace",
             fmt::format("no pace from {} to {} gives the measured latency of the first {} requests", low, high, n),
             {fmt::format("Their mean was {}; at a pace of {} it is {}.",
                          short_text(Seconds::of(measured / static_cast<double>(n))), bound,
                          short_text(Seconds::of(sum / static_cast<double>(n)))),
              "Was the trace measured on this model, this device and this plan?"});
    }
    for (int k = 0; k < 30; ++k) {
      out.pace = std::sqrt(low * high);
      (latency(out.pace) < measured ? low : high) = out.pace;
    }
    out.fitted = n;
  }
  out.result = play(out.pace);
  return out;
}

}  // namespace orrery
