#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/serve_request.hpp"
#include "cli/serve_text.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "planner/study/chart_svg.hpp"

namespace orrery {
namespace {

class ServeVerb final : public Verb {
 public:
  const char* name() const override { return "serve"; }
  const char* summary() const override { return "plan inference: latency, throughput, memory and cost of serving"; }

  void declare(Command& c) override {
    c.positional("MODEL", r_.model, "a shipped model, a .toml file or a Hugging Face config.json");
    c.required("--cluster", r_.cluster, "a shipped cluster, a .toml file, or in a word: h200:8");
    c.option("--gpus", r_.flags.gpus, "number of GPUs, in place of the cluster's");
    c.choice("--engine", r_.engine, {"vllm", "tensorrt-llm", "sglang"}, "the engine that serves");
    c.option("--input", r_.input, "tokens of a prompt", {1, 10'000'000});
    c.option("--output", r_.output, "tokens that are made of it", {1, 10'000'000});
    c.option("--concurrency", r_.concurrency, "requests under way on the whole cluster; default: 64");
    c.option("--rate", r_.rate, "requests a second, in place of --concurrency: as few GPUs as keep up");
    c.option("--ttft", r_.ttft, "bound of the time to the first token: 500ms");
    c.option("--tpot", r_.tpot, "bound of the time of each further token: 30ms");
    c.option("--weights", r_.weights, "formats of weights to try: bf16, fp8, int4, mxfp4, nvfp4");
    c.option("--kv", r_.kv, "formats of keys and values to try: bf16, fp8");
    c.option("--plan", r_.plan, "this plan alone, with the first formats: \"tp=4 pp=1 dp=2 ep=8\"");
    c.flag("--pools", r_.pools, "find the best two pools, too: workers for prompts, and others that decode");
    c.option("--top", top_, "number of plans shown", {1, 100});
    c.option("--svg", svg_, "draw TPOT against tokens per second and GPU into this file");
    c.option("--prefix-hit", r_.prefix_hit, "share of a prompt whose keys other requests have left: 0.5");
    c.option("--draft", r_.draft, "tokens that a draft model proposes for each step", {1, 64});
    c.option("--acceptance", r_.acceptance, "chance that a proposed token is taken: 0.7");
    c.option("--draft-cost", r_.draft_cost, "time of one proposal over a step's: 0.05; default: 0");
    c.group("Requests one by one");
    c.option("--trace", r_.trace, "play this file of requests on one replica of the best plan (docs/serve.md)");
    c.option("--fit", r_.fit, "fit the device's pace to so many of the trace's first requests, which have times");
    c.option("--requests", r_.requests, "with --rate: play so many requests that arrive at random", {1, 1'000'000});
    c.option("--seed", r_.seed, "of their arrivals; default: 1");
    c.option("--kv-tokens", r_.kv_tokens, "room for keys and values of a group, in tokens; default: as memory has");
    c.option("--step-tokens", r_.step_tokens, "most tokens of a step (max_num_batched_tokens)", {16, 1'048'576});
    c.option("--most-sequences", r_.most_sequences, "most running sequences of a group (max_num_seqs)", {1, 1'048'576});
    c.group("");
    c.option("--nic", r_.flags.nic, "network port of a cluster in one word: \"400 Gbit/s\"");
    c.option("--calibration", r_.flags.calibration, "constants of the device, in place of the shipped ones");
    c.option("--price", r_.flags.price, "price of a GPU-hour: 2.50, or \"2.20 EUR\"");
    // --output is a number of tokens here.
    c.flag("--json", r_.flags.json, "print JSON for other programs");
    c.option("-o,--output-file", r_.flags.output, "write the answer here, as JSON");
    c.option("--data", r_.flags.data, "folder of models, clusters and calibrations");
    c.examples(
        "  orrery serve llama-3.1-70b --cluster h200:8 --input 1024 --output 1024 --concurrency 64\n"
        "  orrery serve deepseek-v3 --cluster dgx-b200 --engine sglang --rate 10 --tpot 30ms\n"
        "  orrery serve qwen3-32b --cluster dgx-h100 --concurrency 128 --svg front.svg --price 2.50\n"
        "  orrery serve llama-3.1-70b --cluster h200:8x2 --input 8192 --concurrency 256 --pools\n"
        "  orrery serve llama-3.1-8b --cluster rtx-4090:1 --weights bf16 --kv bf16 --trace requests.jsonl\n"
        "    --kv-tokens 41408 --step-tokens 2048 --most-sequences 256 --fit 100\n"
        "  orrery serve llama-3.1-8b --cluster l40s:1 --rate 4 --requests 300 --json\n"
        "Status 1: no plan fits, keeps up with the rate, or keeps within the bounds.");
  }

  int run() override {
    if (top_ == 0) refuse("cli.amount", "--top must be at least 1");
    require_output(r_.flags);
    require_svg(svg_);
    if (svg_ && r_.output == 1) {
      refuse("cli.flags", "--svg draws TPOT, and --output 1 has none", {"Leave one of the two out."});
    }
    catch_interrupt();
    const ServingQuestion q = serving_question(r_);
    if (r_.trace) keep_apart(*r_.trace, {r_.flags.output, svg_});
    std::optional<Ticker> ticker(std::in_place, "serve");
    const ServingSearch found = search_serving(q, [] { return !interrupted(); });
    std::optional<PooledPlan> pools;
    if (r_.pools) pools = search_pools(q, found, [] { return !interrupted(); });
    if (interrupted()) return interrupted_status();
    std::optional<PlayedTrace> played;
    if ((r_.trace || r_.requests) && !found.plans.empty()) {
      try {
        played = played_trace(r_, q, found.plans.front(), [&](std::uint64_t done, std::uint64_t total) {
          if (interrupted()) throw Interrupted{};
          ticker->show("requests", done, total);
        });
      } catch (const Interrupted&) {
        ticker.reset();
        return interrupted_status();
      }
    }
    ticker.reset();
    nlohmann::ordered_json json = serving_json(q, found, top_);
    std::string text = serving_text(q, found, top_);
    if (r_.pools && !found.plans.empty()) {
      json["pools"] = pools_json(q, pools);
      text += pools_text(q, found, pools);
    }
    if (played) {
      json["played"] = played_json(*played);
      text += played_text(*played);
    }
    if (svg_) write_file(*svg_, charts_svg("serve", "Latency against throughput", serving_charts(q, found, top_)));
    answer(r_.flags, json, wrapped(text, output_columns()));
    const bool fine =
        !found.plans.empty() && found.plans.front().within_bounds && (!q.rate || found.plans.front().keeps_up);
    return fine ? status_fine : status_no;
  }

 private:
  struct Interrupted {};
  ServeRequest r_;
  std::uint32_t top_ = 3;
  std::optional<std::string> svg_;
};

}  // namespace

std::unique_ptr<Verb> serve_verb() { return std::make_unique<ServeVerb>(); }

}  // namespace orrery
