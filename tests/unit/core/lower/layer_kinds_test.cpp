#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/shard.hpp"
#include "core/program/verify.hpp"
#include "tests/support/layer_kinds.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// A plan of a model with this kind of layers.
PlannedRun run_with(const LayerKindCase& kind, std::uint64_t seed) {
  RandomRunLimits limits;
  limits.mixture = kind.mixture;
  if (kind.mixture) limits.expert = 2;
  if (!kind.grid) limits.tensor = TensorAlgorithm::one_d;
  PlannedRun run = random_run(seed, limits);
  if (!kind.mixture) run.model.mixture.reset();
  kind.apply(run.model);
  return run;
}

/// Elements of all parameters, each once, without the padding of the vocabulary.
std::uint64_t elements(const Program& p, const ModelSpec& m) {
  std::uint64_t all = 0;
  for (const ParameterTable& table : p.parameter_tables) {
    std::uint64_t layers = of_layers(table) ? m.layers : 1;
    if (of_layers(table) && mixes_kinds(m)) {
      layers = table.module == "layer" ? mixture_count(m) : m.layers - mixture_count(m);
    }
    for (const ParameterSlice& slice : table.slices) {
      bool counts = true;
      for (const ParameterSegment& s : table.segments) {
        if (s.offset <= slice.offset && slice.offset < s.offset + s.count) counts = s.counted;
      }
      std::uint64_t n = counts ? layers : 0;
      for (std::uint32_t d = 0; d < slice.shard.rank; ++d) n *= slice.shard.dims[d].valid;
      all += n;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("parameter tables of every kind of layer have as many elements as the model is counted to have", "[lower]") {
  for (const auto kinds : {single_kinds(), family_kinds()}) {
    for (const LayerKindCase& kind : kinds) {
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const PlannedRun run = run_with(kind, seed);
        CAPTURE(kind.name, describe(run));
        const Program program = lower(run.model, run.workload, run.plan);
        CHECK(elements(program, run.model) == parameter_count(run.model));
        const std::vector<Violation> broken = verify(program);
        CAPTURE(broken.empty() ? std::string() : broken.front().message);
        CHECK(broken.empty());
        Diagnostics none;
        const auto read = read_program(write_program(program), "x.program", none);
        REQUIRE(read.has_value());
        CHECK(*read == program);
      }
    }
  }
}
