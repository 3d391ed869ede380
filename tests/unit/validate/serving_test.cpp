#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/shipped_model.hpp"
#include "validate/serving_validation.hpp"

using namespace orrery;

namespace {

const std::string header =
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
    "moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,prefill_batch_size,"
    "prefill_num_workers,prefill_tp_size,prefill_pp_size,prefill_attention_dp_size,prefill_moe_tp_size,"
    "prefill_moe_ep_size,decode_batch_size,decode_num_workers,decode_tp_size,decode_pp_size,decode_attention_dp_size,"
    "decode_moe_tp_size,decode_moe_ep_size,silicon_ttft_ms,silicon_tpot_ms\n";

/// An aggregated row. `sizes`: batch, tp, pp, attention dp, moe tp, moe ep.
std::string row(const std::string& id, const std::string& engine, const std::string& model, const std::string& gpu,
                const std::string& format, const std::string& lengths, const std::string& sizes, double ttft_ms,
                double tpot_ms, const std::string& source = "here") {
  return fmt::format("{},{},{},1,{},{},{},agg,{},{},{},{},,,,,,,,,,,,,,,{:.17g},{:.17g}\n", id, source, engine, model,
                     gpu, format, lengths, format, format, sizes, ttft_ms, tpot_ms);
}

EngineTable engines() {
  Diagnostics d;
  return read_engines(engines_path(test::shipped_library()), d).value();
}

std::vector<MeasuredServing> table(const std::string& rows) {
  Diagnostics d;
  auto out = parse_serving(header + rows, "t.csv", d);
  INFO(render(d));
  REQUIRE(out);
  return *out;
}

ServingCases cases(const std::string& rows) { return serving_cases(table(rows), engines(), test::shipped_library()); }

}  // namespace

TEST_CASE("a row of serving becomes a plan of a replica and its load", "[validate][serve]") {
  const ServingCases c =
      cases(row("a", "trtllm", "meta-llama/Llama-3.1-70B", "h200_sxm", "fp8", "1024,512", "32,4,1,1,4,1", 200, 15));
  REQUIRE(c.cases.size() == 1);
  const ServingCase& a = c.cases.front();
  CHECK(a.engine == "tensorrt-llm");
  CHECK(a.model == "llama-3.1-70b");
  CHECK(a.plan.tensor == 4);
  CHECK(a.plan.expert == 1);
  CHECK(a.plan.kv_fp8);
  CHECK(a.work.load.concurrency == 32.0);
  CHECK(a.shape == "1024/512");
}

// The same run, as the table has it: with the sizes of its 8 devices, and with a size of 8 multiplied twice.
TEST_CASE("a size that was multiplied twice is the size once", "[validate][serve]") {
  const auto read = [](const char* engine, const char* model, const char* sizes, const char* source) {
    ServingCases c = cases(row("a", engine, model, "b200_sxm", "fp8", "1024,1024", sizes, 1, 1, source));
    REQUIRE(c.cases.size() == 1);
    return c.cases.front();
  };
  const char* const v3 = "deepseek-ai/DeepSeek-V3";
  const char* const m2 = "MiniMaxAI/MiniMax-M2.5";
  const char* const dump = "db-dump/2026-04-27; config_id=1";
  const ServingCase plain = read("trtllm", v3, "32,1,1,8,1,8", dump);
  const ServingCase twice = read("trtllm", v3, "4,1,1,64,8,8", dump);
  CHECK(plain.plan == twice.plan);
  CHECK(plain.work.load.concurrency == 256.0);
  CHECK(twice.work.load.concurrency == 256.0);
  const ServingCase tensor = read("sglang", v3, "4,64,1,1,8,8", "source_file=2026-04-06.csv");
  CHECK(tensor.plan.tensor == 8);
  CHECK(tensor.plan.expert == 8);
  const ServingCase thrice = read("vllm", m2, "16,4,1,4,1,16", dump);
  CHECK(thrice.plan.devices() == 4);
  CHECK(thrice.plan.attention_data == 4);
  CHECK(thrice.work.load.concurrency == 64.0);
  // Engines have 2 x 2, and other sources say what they mean.
  CHECK(read("vllm", m2, "16,2,1,2,1,4", dump).plan.devices() == 4);
  CHECK(read("vllm", m2, "16,4,1,4,1,16", "source_file=here.csv").plan.devices() == 16);
}

TEST_CASE("a row with two concurrencies is refused", "[validate][serve]") {
  const auto of = [](const char* source, const char* sizes) {
    return cases(row("a", "trtllm", "deepseek-ai/DeepSeek-V3", "b200_sxm", "fp8", "1024,1024", sizes, 1, 1, source));
  };
  CHECK(of("source_file=here.csv; silicon_concurrency=256", "32,1,1,8,1,8").cases.size() == 1);
  const ServingCases two = of("source_file=here.csv; silicon_concurrency=224; wip=False", "56,4,1,1,1,4");
  CHECK(two.cases.empty());
  REQUIRE(two.skipped.size() == 1);
  CHECK(two.skipped.front().reason == "two concurrencies are published");
}

TEST_CASE("rows that cannot be predicted say why", "[validate][serve]") {
  const ServingCases c =
      cases(row("model", "vllm", "nobody/Nothing-9B", "h100_sxm", "fp8", "1,2", "1,1,1,1,1,1", 1, 1) +
            row("gpu", "vllm", "Qwen/Qwen3-32B", "tpu", "fp8", "1,2", "1,1,1,1,1,1", 1, 1) +
            row("tensor", "vllm", "deepseek-ai/DeepSeek-R1", "gb200", "fp8", "1,2", "1,36,1,1,36,1", 1, 1) +
            row("memory", "vllm", "deepseek-ai/DeepSeek-R1", "h100_sxm", "fp8", "1,2", "1,1,1,1,1,1", 1, 1));
  CHECK(c.cases.empty());
  REQUIRE(c.skipped.size() == 4);
  CHECK(c.skipped[0].reason == "no shipped model is called nobody/Nothing-9B");
  CHECK(c.skipped[1].reason == "no shipped device is called tpu");
  CHECK(c.skipped[2].reason == "the tensor size does not divide the heads");
  CHECK(c.skipped[3].reason == "its weights leave no room for keys, by datasheet");
}

// A table that costs made, other than those that the fit begins with: it finds what gives the same times. Which cost is
// behind a time need not be told apart, so times are compared, and points that the fit has not seen.
TEST_CASE("costs that made a table are found again", "[validate][serve]") {
  std::string rows;
  int id = 0;
  for (const char* engine : {"vllm", "trtllm", "sglang"}) {
    for (const char* model : {"meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B"}) {
      for (const char* tensor : {"1", "2", "8"}) {
        for (const char* batch : {"2", "16", "64"}) {
          for (const char* lengths : {"1024,512", "4096,256"}) {
            rows += row(fmt::format("r{}", id++), engine, model, "h200_sxm", "fp8", lengths,
                        fmt::format("{},{},1,1,1,1", batch, tensor), 1, 1);
          }
        }
      }
    }
  }
  ServingCases c = cases(rows);
  REQUIRE(c.cases.size() == 108);
  EngineTable made = engines();
  const auto move = [](EngineFigure& f, double by) {
    if (f.spread > 0.0) f.value *= by;
  };
  for (EngineFigure& f : made.shared) move(f, 1.1);
  for (Engine& e : made.engines) {
    for (EngineFigure& f : e.own) move(f, 1.3);
  }
  made.set_costs();
  std::vector<const ServingCase*> seen;
  for (ServingCase& one : c.cases) {
    const ServingTimes t = predicted(one, made.find(one.engine)->costs);
    one.tpot_s = t.tpot.in(second);
    one.ttft_s = t.ttft.in(second);
    if (one.shape == "1024/512") seen.push_back(&one);
  }
  const EngineTable fitted = fit_engines(engines(), seen);
  double before = 0.0, after = 0.0;
  for (const ServingCase& one : c.cases) {
    const auto off = [&](const EngineTable& t) {
      return std::abs(predicted(one, t.find(one.engine)->costs).tpot.in(second) / *one.tpot_s - 1.0) / 108.0;
    };
    before += off(engines());
    after += off(fitted);
  }
  CHECK(before > 0.1);
  // Priors hold against the data, whose errors are taken as a tenth; half of the points are unseen.
  CHECK(after < 0.05);
}

TEST_CASE("held-out rounds predict each point without its group", "[validate][serve]") {
  std::string rows;
  for (int i = 0; i < 12; ++i) {
    rows += row(fmt::format("r{}", i), "vllm", i % 2 == 0 ? "meta-llama/Llama-3.1-8B" : "Qwen/Qwen3-32B", "h100_sxm",
                "fp8", i % 3 == 0 ? "1024,128" : "2048,512", fmt::format("{},4,1,1,1,1", 4 + i), 100, 10 + i);
  }
  const auto v = validate_serving(table(rows), engines(), test::shipped_library());
  REQUIRE(v);
  REQUIRE(v->rounds.size() == 4);
  for (const ServingRound& r : v->rounds) CHECK(r.groups.front().tpot.n == 12);
  // Less is known of a point whose group is left out.
  CHECK(v->rounds[1].groups.front().tpot.mape_pct < v->rounds[0].groups.front().tpot.mape_pct);
  CHECK(v->rounds[1].groups.front().tpot.mape_pct <= v->rounds[3].groups.front().tpot.mape_pct);
  CHECK_FALSE(validate_serving(table(rows), engines(), test::shipped_library(), [](double) { return false; }));
}

// Nothing is fitted to pools of their own, but their model is among what costs have seen.
TEST_CASE("pools of their own are held out with their model, from the priors on", "[validate][serve]") {
  std::string rows =
      "pools,here,vllm,1,Qwen/Qwen3-32B,h100_sxm,fp8,disagg,1024,128,fp8,fp8,,,,,,,"
      "1,1,4,1,1,1,1,16,1,4,1,1,1,1,100,20\n";
  for (int i = 0; i < 8; ++i) {
    rows += row(fmt::format("r{}", i), "vllm", i % 2 == 0 ? "meta-llama/Llama-3.1-8B" : "Qwen/Qwen3-32B", "h100_sxm",
                "fp8", "1024,128", fmt::format("{},4,1,1,1,1", 4 + i), 100, 10 + i);
  }
  EngineTable moved = engines();
  for (Engine& e : moved.engines) {
    for (EngineFigure& f : e.own) f.value *= f.spread > 0.0 ? 1.5 : 1.0;
  }
  moved.set_costs();
  const auto v = validate_serving(table(rows), moved, test::shipped_library());
  REQUIRE(v);
  std::vector<const ServingCase*> others;
  for (const ServingCase& c : v->cases) {
    if (c.model == "llama-3.1-8b") others.push_back(&c);
  }
  REQUIRE(others.size() == 4);
  REQUIRE(v->cases.front().pool == "disaggregated");
  const EngineTable unseen = fit_engines(engines(), others);
  CHECK(v->rounds[3].times[0].tpot == predicted(v->cases[0], unseen.find("vllm")->costs).tpot);
  CHECK_FALSE(v->rounds[3].times[0].tpot == v->rounds[1].times[0].tpot);
}
