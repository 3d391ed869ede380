#include "serve/engine.hpp"

#include "tests/unit/serve/served.hpp"

using namespace orrery;

TEST_CASE("shipped engines have every cost, and say where their defaults are from", "[serve]") {
  Diagnostics d;
  const auto table = read_engines(engines_path(shipped_library()), d);
  INFO(render(d));
  REQUIRE(table);
  CHECK(table->names() == std::vector<std::string>{"vllm", "tensorrt-llm", "sglang"});
  for (const Engine& e : table->engines) {
    CAPTURE(e.name);
    CHECK_FALSE(e.source.empty());
    CHECK(e.own.size() + table->shared.size() == engine_cost_count);
    for (const EngineFigure& f : e.own) CHECK(e.costs[f.cost] == f.value);
  }
}

TEST_CASE("a cost that stands nowhere or twice is refused", "[serve]") {
  Diagnostics d;
  CHECK_FALSE(
      parse_engines("schema = 1\n[costs]\nweights = { value = 1.0 }\n[[engines]]\nname = \"e\"\ntitle = \"E\"\n"
                    "source = \"s\"\nstep_tokens = 2048\nmost_sequences = 8\nreserves = true\n"
                    "memory_share = 0.9\nmemory_of_the_rest = false\nheld = \"1 GiB\"\nkv_fp8 = true\n"
                    "formats = [\"bf16\"]\n[engines.costs]\nweights = { value = 1.0 }\n",
                    "e.toml", d));
  const std::string text = render(d);
  CHECK(text.find("the cost weights of e stands twice") != std::string::npos);
  CHECK(text.find("the cost layer of e stands nowhere") != std::string::npos);
}

TEST_CASE("engines refuse what they do not do, with the nearest choice", "[serve]") {
  const Served s = served("gpt-oss-20b", "h100:8", "sglang");
  Engine e = s.engine;
  e.formats = {WeightFormat::bf16};
  e.kv_fp8 = false;
  e.refuses = {{"pipeline", "its stages are not made", "Tensor ranks do."}};
  ServingPlan p;
  p.pipeline = 2;
  p.kv_fp8 = true;
  set_formats(p, WeightFormat::mxfp4, s.model);
  CHECK(p.weights == WeightFormat::bf16);  // four bits are for experts alone
  Diagnostics d;
  check_engine(e, p, s.model, d);
  const std::string text = render(d);
  CHECK(d.size() == 3);
  CHECK(text.find("does not serve mxfp4 weights") != std::string::npos);
  CHECK(text.find("keeps no keys in fp8") != std::string::npos);
  CHECK(text.find("has no pipeline: its stages are not made") != std::string::npos);
  CHECK(text.find("Tensor ranks do.") != std::string::npos);
}

TEST_CASE("plans that no engine could serve are refused with the numbers", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:8");
  const auto message = [&](const ServingPlan& p, const ModelSpec& m) {
    Diagnostics d;
    check_serving_plan(p, m, s.cluster, d);
    return render(d);
  };
  ServingPlan p;
  p.tensor = 3;
  CHECK(message(p, s.model).find("32 / 3 leaves 2.") != std::string::npos);
  p = {};
  p.expert = 2;
  CHECK(message(p, s.model).find("[serve.expert]") != std::string::npos);
  p = {};
  p.tensor = 8;
  p.pipeline = 2;
  CHECK(message(p, s.model).find("a replica takes 16 devices") != std::string::npos);
  p = {};
  p.tensor = 1;
  p.pipeline = 64;
  CHECK(message(p, s.model).find("[serve.pipeline]") != std::string::npos);
  Diagnostics d;
  const ModelSpec bert = shipped_library().model("bert-base", {}, d).value();
  CHECK(message({}, bert).find("generates no tokens") != std::string::npos);
  CHECK(message({}, s.model).empty());
}
