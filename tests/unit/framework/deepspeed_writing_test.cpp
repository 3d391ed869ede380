#include "tests/unit/framework/round_trip.hpp"

using namespace orrery;

namespace {

void check_all(const char* name, const char* model, const char* file, bool gives_batch, const std::vector<Axis>& order,
               std::size_t least, const std::vector<std::string>& unsaid) {
  const Framework& f = *framework_named(name);
  std::size_t within = 0;
  each_plan(model, order, [&](const PlannedRun& run) {
    if (!is_within(f, run)) return;
    ++within;
    INFO(write_plan(run));
    const Launched l = written_and_read(f, run, file, gives_batch);
    std::vector<std::string> found = differences(run, l.run->run);
    std::erase_if(found, [&](const std::string& key) {
      return std::any_of(unsaid.begin(), unsaid.end(), [&](const std::string& u) { return key.starts_with(u); });
    });
    INFO(write_plan(run));
    INFO(f.writings.front().write(run, const_cast<Launched&>(l).diagnostics).value_or(""));
    CHECK(found.empty());
    for (const std::string& key : found) WARN(key);
  });
  CHECK(within >= least);
}

}  // namespace

// What has no effect in a plan (buckets and overlap of a rank that shares nothing, say) need not come back.
TEST_CASE("DeepSpeed reads what it writes, for every plan within its abilities", "[framework][deepspeed]") {
  check_all("deepspeed", "llama-3-8b", "ds.json", false, {Axis::replica, Axis::data, Axis::context, Axis::tensor}, 100,
            {"plan.overlap_gradients"});
}

TEST_CASE("Accelerate reads what it writes, for every plan within its abilities", "[framework][accelerate]") {
  check_all("accelerate", "llama-3-8b", "a.yaml", true, {Axis::replica, Axis::data, Axis::context, Axis::tensor}, 20,
            {"plan.gradient_bucket", "plan.prefetch", "plan.overlap_gradients", "optimizer"});
}

TEST_CASE("Colossal-AI reads what it writes, for every plan within its abilities", "[framework][colossal-ai]") {
  const std::vector<std::string> unsaid{"plan.overlap_gradients", "plan.gradient_bucket"};
  check_all("colossal-ai", "llama-3-8b", "c.py", true, {Axis::pipeline, Axis::data, Axis::context, Axis::tensor}, 50,
            unsaid);
  check_all("colossal-ai", "mixtral-8x7b", "c.py", true, {Axis::pipeline, Axis::data, Axis::expert, Axis::tensor}, 50,
            unsaid);
}
