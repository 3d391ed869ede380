// Sampled plans in one MPI job: each runs on as many of the job's first processes as it has ranks. Rank 0 compares
// every one with the single-device reference and, to the bit, with ranks that are threads.
//
//   mpirun -n 16 mpi_plans MODULE FIRST_SEED COUNT [library]
//
// With `library` collectives are MPI's own, which add in another order. Plans are then compared with the reference
// alone, as on threads.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/comm/mpi_communicator.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/issue.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/train/data.hpp"
#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/run_outcome.hpp"

using namespace orrery;

namespace {

/// Only rank 0 learns the result of a run.
class NotFirst {};

bool by_library = false;

RunResult run_on_mpi(MpiSession& session, const Program& program, const Workload& workload, const DataSource& data,
                     const RunOptions& options) {
  WaitOptions waits;
  waits.watchdog = Seconds::of(1800);  // others wait while rank 0 computes its references, on a busy machine too
  waits.ends = ends_of(program, options.concurrent_lanes);
  MpiWorld world(session, std::move(waits), static_cast<std::uint32_t>(program.mesh.size()));
  if (by_library) world.use_library_collectives(ranks_of_groups(program, session.rank()));
  auto result = execute_rank(world, program, workload, data, options, "run mpi");
  if (!result) throw NotFirst{};
  return *std::move(result);
}

/// The fault of a plan; empty on processes that do not see it.
std::string fault_of(MpiSession& session, const PlannedRun& run, std::uint64_t seed) {
  try {
    test::NumericsOptions oracle;
    oracle.steps = seed % 4 == 0 ? 3 : 1;
    oracle.concurrent_lanes = seed % 8 == 0 && session.threads() && !by_library;
    oracle.traffic = !by_library;
    oracle.execute = [&](const Program& p, const DataSource& data, const RunOptions& options) {
      return run_on_mpi(session, p, run.workload, data, options);
    };
    const test::NumericsResult numerics = test::check_numerics(run, oracle);
    if (!numerics.failures.empty()) return numerics.failures.front();
  } catch (const NotFirst&) {
    // The process takes part in the next run too.
  }
  if (by_library) return "";
  try {
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = data_of(run.model, run.workload);
    RunOptions options;
    options.steps = 2;
    options.poison = true;
    const test::RunOutcome mpi = test::outcome_of(
        program, options, [&](const RunOptions& o) { return run_on_mpi(session, program, run.workload, *data, o); });
    const test::RunOutcome threads = test::outcome_of(program, options, [&](const RunOptions& o) {
      return execute(program, run.model, run.workload, run.plan, *data, o);
    });
    return test::difference(mpi, threads);
  } catch (const NotFirst&) {
    return "";
  }
}

/// All plans: the exit status.
int run_plans(MpiSession& session, std::uint64_t begin, std::uint64_t wanted) {
  const bool first = session.rank() == Rank{0};
  std::map<std::uint64_t, int> by_ranks;
  int plans = 0, wrong = 0;
  for (std::uint64_t seed = begin; static_cast<std::uint64_t>(plans) < wanted; ++seed) {
    test::RandomRunLimits limits;
    // The plan's size is drawn first: drawn from all plans, most would have nearly all ranks.
    limits.max_ranks = 2 + static_cast<std::uint32_t>(seed % (session.ranks() - 1));
    const PlannedRun run = test::random_run(seed, limits);
    const std::uint64_t ranks = run.plan.mesh.size();
    if (ranks < 2 || ranks > session.ranks()) continue;
    ++plans;
    if (index(session.rank()) >= ranks) continue;
    ++by_ranks[ranks];
    const std::string fault = fault_of(session, run, seed);
    if (fault.empty()) continue;
    ++wrong;
    std::fprintf(stderr, "seed %llu: %s\n  %s\n", static_cast<unsigned long long>(seed), fault.c_str(),
                 test::describe(run).c_str());
  }
  if (first) {
    std::printf("%d plans over %s%s, %d wrong; by ranks:", plans, session.library().c_str(),
                by_library ? " and its collectives" : "", wrong);
    for (const auto& [ranks, n] : by_ranks) std::printf(" %llu: %d", static_cast<unsigned long long>(ranks), n);
    std::printf("\n");
  }
  if (wrong > 0) session.abort(1);
  return 0;
}

}  // namespace

int main(int count, char** values) {
  by_library = count == 5 && std::string(values[4]) == "library";
  if (count != (by_library ? 5 : 4)) return 2;
  try {
    MpiSession session(values[1]);
    try {
      return run_plans(session, std::strtoull(values[2], nullptr, 10), std::strtoull(values[3], nullptr, 10));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    } catch (const Aborted&) {
      std::fprintf(stderr, "the run was ended\n");
    }
    std::_Exit(
        1);  // without MPI's end, in which messages could still come to what is gone; the launcher ends the others
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}
