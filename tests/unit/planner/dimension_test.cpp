#include "core/plan/dimension.hpp"

#include <catch2/catch.hpp>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "planner/follow.hpp"
#include "planner/move.hpp"
#include "planner/resolve.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

Calibration calibration() {
  Calibration c;
  c.launch = 2.0 * microsecond;
  return c;
}

PlannedRun run_of(std::vector<MeshAxis> axes) {
  PlannedRun r;
  r.model = test::tiny_gpt({.layers = 4, .hidden = 64, .heads = 8, .vocabulary = 512, .positions = 64});
  r.workload.global_batch = 16;
  r.workload.sequence_length = 64;
  r.cluster = test::small_cluster(2, 4, 8.0 * gibibyte);
  r.plan.mesh.axes = std::move(axes);
  r.plan.microbatch_size = 2;
  return r;
}

bool is_valid(const PlannedRun& run) {
  Diagnostics d;
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  return d.empty();
}

/// The Program and its prices.
std::string outcome(PlannedRun run) {
  run.plan = resolve(run.plan, run.model, run.workload, *run.cluster, calibration()).plan;
  const Program program = lower(run.model, run.workload, run.plan);
  const Report report = estimate(
      run, program,
      CostModel(*run.cluster, calibration(), run.plan.mesh, run.plan.placement, run.plan.collective_algorithm));
  return write_program(program) + std::to_string(report.step_time.base()) + " " +
         std::to_string(report.peak_memory_bytes);
}

// This is the worked example of docs/extending.md: a microbatch in doublings. It needs no member of Plan, so no
// lowering either.
std::uint64_t doublings_of(const PlannedRun& run) {
  std::uint64_t n = 0;
  while ((std::uint64_t{2} << n) <= run.plan.microbatch_size) ++n;
  return n;
}
bool put_doublings(PlannedRun& run, std::uint64_t value, std::string&) {
  run.plan.microbatch_size = std::uint32_t{1} << value;
  return true;
}
const Dimension doublings_row{.key = "plan.microbatch_doublings",
                              .label = "Doublings",
                              .help = "How often a microbatch of one sequence is doubled.",
                              .most = 4,
                              .get = doublings_of,
                              .put = put_doublings};

}  // namespace

TEST_CASE("turning what does not apply changes neither the Program nor its price", "[unit][planner]") {
  const auto axes =
      GENERATE(std::vector<MeshAxis>{{Axis::pipeline, 2}, {Axis::tensor, 4}},
               std::vector<MeshAxis>{{Axis::pipeline, 2}, {Axis::replica, 2}, {Axis::tensor, 2}},
               std::vector<MeshAxis>{{Axis::pipeline, 4}, {Axis::tensor, 2}}, std::vector<MeshAxis>{{Axis::tensor, 8}});
  const PlannedRun from = run_of(axes);
  REQUIRE(is_valid(from));
  const std::string before = outcome(from);
  int tried = 0;
  for (const Dimension& d : dimensions()) {
    if (applies(d, from)) continue;
    for (const std::uint64_t value : values(d, from)) {
      PlannedRun run = from;
      std::string reason;
      CAPTURE(d.key, value);
      if (value == d.get(from) || !put(run, d, value, reason) || !is_valid(run)) continue;
      CHECK(outcome(run) == before);
      ++tried;
    }
  }
  CHECK(tried > 0);  // check() refuses the rest
}

TEST_CASE("a plan's neighbours are the valid runs that each value of each row leads to", "[unit][planner]") {
  const PlannedRun from = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  Turner turner(from);
  std::string reason;
  std::size_t found = 0, refused = 0;
  for (const Dimension& d : dimensions()) {
    if (!is_turned(d) || !applies(d, from)) continue;
    for (const std::uint64_t value : values(d, from)) {
      CAPTURE(d.key, value, reason);
      const PlannedRun* run = turner.turned(d, value, reason);
      refused += run == nullptr ? 1U : 0U;
      if (run == nullptr) continue;
      ++found;
      CHECK(is_valid(*run));
      CHECK(d.get(*run) == value);
      // A turn leaves no trace in the next.
      const auto alone = moved(from, d, value, reason);
      REQUIRE(alone);
      CHECK(alone->run.plan == run->plan);
      CHECK(alone->run.workload == run->workload);
      CHECK(*alone->run.cluster == *run->cluster);
    }
  }
  CHECK(found > 100);
  CHECK(refused > 0);
}

TEST_CASE("a row that is added to the table is written, read, and among the moves of a plan", "[unit][planner]") {
  std::vector<Dimension> table(dimensions().begin(), dimensions().end());
  table.push_back(doublings_row);
  const PlannedRun from = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  const Dimension* row = dimension_named("plan.microbatch_doublings", table);
  REQUIRE(row != nullptr);
  CHECK(dimension_named("plan.microbatch_doublings") == nullptr);

  // 16 sequences over data 2 leave 8 to a rank, so microbatches have 1, 2, 4 and 8.
  CHECK(legal_values(from, *row, table).values == std::vector<std::uint64_t>{0, 1, 2, 3});
  std::string reason;
  const auto move = moved(from, *row, 3, reason, table);
  REQUIRE(move);
  CHECK(move->run.plan.microbatch_size == 8);
  CHECK_FALSE(moved(from, *row, 5, reason, table));
  CHECK(reason == "plan.microbatch_doublings is 5; it must be from 0 to 4.");

  TomlWriter out;
  write_dimensions(out, "plan", move->run, table);
  CHECK(out.str().find("microbatch_doublings = 3\n") != std::string::npos);
  Diagnostics found;
  auto root = parse_toml("microbatch_doublings = 2\n", "plan.toml", found);
  REQUIRE(root);
  PlannedRun again = from;
  read_dimensions(*root, "plan", "", again, table);
  root->finish();
  CHECK(render(found) == "");
  CHECK(again.plan.microbatch_size == 4);
}
