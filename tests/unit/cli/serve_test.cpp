#include <catch2/catch.hpp>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/program_run.hpp"

// `orrery serve` as a person runs it.

using namespace orrery::test;
using nlohmann::json;

namespace {

json answer(const std::string& arguments, int status = 0) {
  const Ran ran = run(ORRERY_PROGRAM, arguments + " --json");
  INFO(ran.err);
  REQUIRE(ran.status == status);
  return json::parse(ran.out);
}

}  // namespace

TEST_CASE("serve has help, whose --output is a number of tokens", "[unit][cli][serve]") {
  const Ran ran = run(ORRERY_PROGRAM, "serve --help");
  CHECK(ran.status == 0);
  for (const char* text : {"Examples:\n  orrery serve", "--json", "-o,--output-file", "tokens that are made of it"}) {
    CAPTURE(text);
    CHECK(ran.out.find(text) != std::string::npos);
  }
}

TEST_CASE("serve answers with plans, a front and what is refused", "[unit][cli][serve]") {
  const json j = answer("serve llama-3.1-70b --cluster h200:8 --concurrency 64 --price 3.6");
  REQUIRE(j["plans"].size() == 3);
  const json& best = j["plans"][0];
  CHECK(best["tokens_per_s"] >= j["plans"][1]["tokens_per_s"]);
  CHECK(best["replicas"].get<double>() * best["concurrency"].get<double>() == Approx(64.0));
  // 3.6 an hour is 0.001 a second.
  CHECK(best["cost_per_million_tokens"].get<double>() ==
        Approx(0.001 * best["gpus"].get<double>() * 1e6 / best["tokens_per_s"].get<double>()));
  CHECK(j["front"].size() > 3);
  CHECK(j["tried"] > j["fitting"]);
}

TEST_CASE("a screen of serve has 80 columns, and the same bytes each time", "[unit][cli][serve]") {
  const std::string command = "serve deepseek-v3 --cluster h200:8x2 --engine sglang --concurrency 256";
  const Ran ran = run(ORRERY_PROGRAM, command);
  REQUIRE(ran.status == 0);
  std::istringstream in(ran.out);
  for (std::string line; std::getline(in, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
  CHECK(run(ORRERY_PROGRAM, command).out == ran.out);
}

TEST_CASE("two pools stand beside replicas", "[unit][cli][serve]") {
  const json j = answer("serve llama-3.1-8b --cluster h100:8 --input 8192 --concurrency 128 --pools");
  const json& p = j["pools"];
  CHECK(p["gpus"] <= 8);
  CHECK(p["prompt_workers"].get<int>() >= 1);
  CHECK(p["tried"] > 10);
  const Ran ran = run(ORRERY_PROGRAM, "serve llama-3.1-8b --cluster h100:8 --rate 3 --pools");
  CHECK(ran.status == 2);
  CHECK(ran.err.find("--pools shares out a whole cluster") != std::string::npos);
}

TEST_CASE("bounds and rates that nothing meets are status 1", "[unit][cli][serve]") {
  answer("serve llama-3.1-8b --cluster h100:1 --rate 1000000", 1);
  answer("serve llama-3.1-8b --cluster h100:1 --tpot 1us", 1);
  answer("serve llama-3.1-405b --cluster h100:1", 1);
  const json j = answer("serve llama-3.1-8b --cluster h100:8 --rate 2 --ttft 1s --tpot 30ms");
  CHECK(j["plans"][0]["gpus"] == 1);
}

TEST_CASE("drafts that are taken make tokens faster, and hits make prompts shorter", "[unit][cli][serve]") {
  const std::string plain = "serve llama-3.1-8b --cluster h100:1 --input 8192 --concurrency 2 --plan tp=1 ";
  const auto times = [&](const std::string& more) { return answer(plain + more)["plans"][0]["times"]; };
  const json a = times(""), b = times("--draft 3 --acceptance 0.8 --draft-cost 0.05"), c = times("--prefix-hit 0.75");
  // (1 - 0.8^4) / (1 - 0.8) = 2.95 tokens a step that takes 1.15 times as long, and a little more to verify.
  CHECK(a["tpot_s"].get<double>() / b["tpot_s"].get<double>() == Approx(2.95 / 1.15).epsilon(0.15));
  CHECK(c["ttft_s"] < a["ttft_s"]);
  CHECK(c["tpot_s"] < a["tpot_s"]);
}

TEST_CASE("a trace is played, and its device's pace is fitted", "[unit][cli][serve]") {
  const TemporaryFolder folder;
  const std::string common =
      "serve llama-3.1-8b --cluster rtx-4090:1 --weights fp8 --kv bf16 --trace " + folder.file("t.jsonl") + " ";
  {
    std::ofstream out(folder.file("t.jsonl"));
    for (int i = 0; i < 30; ++i) out << "{\"arrival\": " << i << ", \"input\": 200, \"output\": 50}\n";
  }
  const json first = answer(common)["played"];
  CHECK(first["requests"] == 30);
  CHECK(first["measured"].is_null());
  // The same with the played times, twice as long, as if they were measured on a device of half the speed.
  {
    std::ofstream out(folder.file("t.jsonl"));
    for (const json& r : first["each"]) {
      const double at = r["arrival_s"];
      json line = {{"arrival", at}, {"input", r["input"]}, {"output", r["output"]}, {"queued_ts", 0.0}};
      line["first_token_ts"] = 2.0 * (r["first_token_s"].get<double>() - at);
      line["last_token_ts"] = 2.0 * (r["last_token_s"].get<double>() - at);
      out << line.dump() << "\n";
    }
  }
  const json fitted = answer(common + "--fit 10")["played"];
  CHECK(fitted["counted_from"] == 10);
  // Slower steps hold more requests at once, so a pace a little below 2 gives twice the latency.
  CHECK(fitted["pace"].get<double>() == Approx(2.0).epsilon(0.1));
  CHECK(fitted["predicted"]["latency_s"]["mean"].get<double>() ==
        Approx(fitted["measured"]["latency_s"]["mean"].get<double>()).epsilon(0.1));
  CHECK(fitted["without_measured_times"] == 0);
  const Ran all = run(ORRERY_PROGRAM, common + "--fit 30");
  CHECK(all.status == 2);
  CHECK(all.err.find("--fit 30 leaves none of 30 requests") != std::string::npos);
  // One more, without times, is counted; the figures beside measured ones stay those of the others.
  {
    std::ofstream out(folder.file("t.jsonl"), std::ios::app);
    out << "{\"arrival\": 90, \"input\": 200, \"output\": 50}\n";
  }
  const json more = answer(common + "--fit 10")["played"];
  CHECK(more["without_measured_times"] == 1);
  CHECK(more["measured"] == fitted["measured"]);
  CHECK(more["predicted"] == fitted["predicted"]);
  // Latencies a hundred times as long as predicted are no device's.
  {
    std::ofstream out(folder.file("t.jsonl"));
    for (const json& r : first["each"]) {
      const double took = r["last_token_s"].get<double>() - r["arrival_s"].get<double>();
      out << json{{"arrival", r["arrival_s"]},
                  {"input", 200},
                  {"output", 50},
                  {"queued_ts", 0.0},
                  {"first_token_ts", 50.0 * took},
                  {"last_token_ts", 100.0 * took}}
                 .dump()
          << "\n";
    }
  }
  const Ran slow = run(ORRERY_PROGRAM, common + "--fit 10");
  CHECK(slow.status == 2);
  CHECK(slow.err.find("no pace from 0.2 to 5 gives") != std::string::npos);
}

TEST_CASE("what serve cannot do is refused with the reason and the nearest choice", "[unit][cli][serve]") {
  const auto refused = [](const std::string& arguments) {
    const Ran ran = run(ORRERY_PROGRAM, "serve " + arguments);
    CHECK(ran.status == 2);
    return ran.err;
  };
  CHECK(refused("bert-base --cluster h100:1").find("[serve.model]") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --input 200000").find("has 131072 positions") != std::string::npos);
  for (const char* flag : {"--input 0", "--output 0", "--step-tokens 1", "--most-sequences 0", "--top 0",
                           "--rate 2 --requests 0", "--draft 65 --acceptance 0.5"}) {
    CAPTURE(flag);
    CHECK(refused(std::string("llama-3.1-8b --cluster h100:1 ") + flag).find("[cli.amount]") != std::string::npos);
  }
  CHECK(refused("tiny-llama --cluster local-cpu").find("has CPU cores") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:8 --plan tp=3").find("32 / 3 leaves 2.") != std::string::npos);
  CHECK(refused("qwen3-30b-a3b --cluster h100:8 --engine tensorrt-llm --plan \"tp=2 dp=2\"")
            .find("tp 1 with as many attention groups") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --concurrency 4 --rate 2").find("exclude each other") !=
        std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --tpot 30").find("A time has a unit") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --weights fp7").find("is no format") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --fit 3").find("--fit goes with --trace") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --draft 3").find("go together") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:8 --plan tp=1.9").find("is no whole number") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:8 --plan \"tp=1 tp=2\"").find("names tp twice") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --seed 7").find("--seed goes with --requests") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --kv-tokens 99").find("--kv-tokens goes with") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --output 1 --tpot 30ms").find("makes none") != std::string::npos);
  CHECK(refused("llama-3.1-8b --cluster h100:1 --output 1 --svg a.svg").find("has none") != std::string::npos);
}

TEST_CASE("requests of one token have no TPOT, and are bounded by their prompts", "[unit][cli][serve]") {
  const json j = answer("serve llama-3.1-8b --cluster h100:1 --input 1000 --output 1 --concurrency 64 --plan tp=1");
  const json& times = j["plans"][0]["times"];
  CHECK(times["tpot_s"].is_null());
  CHECK(j["front"].empty());
  // 8.03 G parameters, less the embedding, twice 1,000 tokens, at most 989 TFLOP/s: 66 prompts a second.
  CHECK(j["plans"][0]["tokens_per_s"] < 66.0);
  CHECK(j["plans"][0]["tokens_per_s"] > 33.0);
  CHECK(run(ORRERY_PROGRAM, "serve llama-3.1-8b --cluster h100:1 --output 1").out.find("then one in") ==
        std::string::npos);
}

TEST_CASE("below one request the concurrency is the rate times the latency", "[unit][cli][serve]") {
  const json plan = answer("serve llama-3.1-8b --cluster h100:1 --rate 0.05 --plan tp=1")["plans"][0];
  const double latency = plan["times"]["ttft_s"].get<double>() + 1023.0 * plan["times"]["tpot_s"].get<double>();
  CHECK(plan["concurrency"].get<double>() == Approx(0.05 * latency));
}
