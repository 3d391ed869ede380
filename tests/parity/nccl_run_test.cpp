#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "core/program/lower/lower.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/run/launch.hpp"
#include "exec/train/data.hpp"
#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/support/nccl_under_test.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/run_outcome.hpp"

using namespace orrery;

// Ranks with a device each: the whole path of a run over NCCL except CUDA and NCCL themselves. Devices are threads of
// the host, and the library is tests/support/nccl_stand_in/, which holds calls to NCCL's rules.
namespace {

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("plans on devices that meet over NCCL give the loss, gradients, updates, peaks and traffic of the reference",
          "[parity][nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  const std::uint64_t plans = std::getenv("ORRERY_LONG_TESTS") != nullptr ? 300 : 16;
  std::set<ExchangeSplit> splits;
  for (std::uint64_t seed = 7000; seed < 7000 + plans; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    test::NumericsOptions options;
    options.ignored = 0.1;
    options.steps = 2;
    options.execute = [&](const Program& program, const DataSource& data, const RunOptions& how) {
      const NcclGroups groups = nccl_groups(program);
      if (!groups.exchanges.empty()) splits.insert(groups.split);
      return test::run_on_devices(nccl.calls, program, run.workload, data, how);
    };
    const test::NumericsResult result = test::check_numerics(run, options);
    CHECK(lines(result.failures) == "");
  }
  CHECK(splits.contains(ExchangeSplit::channel_and_side));
}

// Rank 0's process has the results of all ranks; it leaves its judgement in a file for this one.
TEST_CASE("processes with a device each compute what threads with a device each do, to the bit", "[parity][nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  for (std::uint64_t seed = 7200; seed < 7204; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed, 0.1);
    RunOptions options;
    options.steps = 2;
    const test::RunOutcome threads = test::outcome_of(program, options, [&](const RunOptions& o) {
      return test::run_on_devices(nccl.calls, program, run.workload, *data, o);
    });
    const test::TemporaryFolder folder;
    LaunchOptions how;
    how.ranks = static_cast<std::uint32_t>(program.mesh.size());
    how.records = folder.file("");
    const LaunchOutcome launched = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
      HostDevice device;
      std::vector<std::string> notes;
      const auto train = [&](const RunOptions& o) {
        auto done =
            execute_device_rank(world, device, nccl.calls, "run devices", program, run.workload, *data, o, &recorder);
        std::optional<RunResult> result;
        if (!done) return result;
        notes = done->notes;
        return result = std::move(done->result);
      };
      if (world.rank() != Rank{0}) return train(options).has_value() || nccl.broken_rules() > 0 ? 1 : 0;
      const test::RunOutcome own = test::outcome_of(program, options, [&](const RunOptions& o) { return *train(o); });
      std::string difference = test::difference(threads, own);
      if (notes.size() < 2 || notes[1].find("each with a device; messages by NCCL 2.28.9") == std::string::npos) {
        difference += " notes do not say how ranks met";
      }
      if (nccl.broken_rules() > 0) difference += " rules of NCCL were broken";
      std::ofstream(folder.file("difference")) << difference;
      return difference.empty() ? 0 : 1;
    });
    CAPTURE(test::contents(folder.file("difference")));
    if (launched.failure) FAIL(launched.failure->what);
    CHECK(launched.status == 0);
  }
}
