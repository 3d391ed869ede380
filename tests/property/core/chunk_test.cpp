#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/plan/chunk_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

const ParameterTable& table_of(const Program& program, const std::string& module) {
  return *std::find_if(program.parameter_tables.begin(), program.parameter_tables.end(),
                       [&](const ParameterTable& t) { return t.module == module; });
}

/// Bytes of a module's gradients on one rank, whole.
std::uint64_t gradient_bytes(const PlannedRun& run, const Program& program, const std::string& module) {
  return table_of(program, module).count * size_of(gradient_dtype(run.workload));
}

/// Tensors lie one after the other; one that does not fit into the rest of a chunk begins a new one. Every run of
/// tensors that are treated alike is padded to `data` equal parts.
std::uint64_t chunks_of_layer(const Program& program, std::uint64_t chunk, std::uint64_t data) {
  const ParameterTable& t = table_of(program, "layer");
  std::uint64_t chunks = 1, used = 0;
  bool decay = t.segments.front().decay, replicated = t.segments.front().replicated;
  for (const ParameterSlice& s : t.slices) {
    const auto segment = std::find_if(t.segments.begin(), t.segments.end(), [&](const ParameterSegment& x) {
      return x.offset <= s.offset && s.offset < x.offset + x.count;
    });
    if (segment->decay != decay || segment->replicated != replicated) used = (used + data - 1) / data * data;
    decay = segment->decay, replicated = segment->replicated;
    const std::uint64_t count = local_count(s.shard, program.mesh);
    if (used + count > chunk) ++chunks, used = 0;
    used += count;
  }
  return chunks;
}

/// Most bytes at one time of whole copies of layers' weights and gradients, in the order of the step.
std::uint64_t most_of_copies(const Program& program, std::uint32_t rank_class) {
  std::uint64_t live = 0, most = 0;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    const auto bytes = [&](BufferId b) {
      const std::string& name = program[b].name;
      return name == "layer.weights.whole" || name == "layer.gradients.whole" ? bytes_of(program[b]) : 0;
    };
    if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) live += bytes(alloc->what);
    if (const auto* free = std::get_if<Free>(&run.op->action)) live -= bytes(free->what);
    most = std::max(most, live);
  });
  return most;
}

/// Number of copies of layers at one time. In the forward pass they are the layer's weights and, with prefetch, those
/// of the next one. In the backward pass they are the same and the gradients of all layers of a bucket down to this
/// one; this layer's own lie in the memory of its weights where that is reused.
std::uint64_t copies_at_once(const PlannedRun& run, const Program& program, std::uint32_t rank, bool reuse) {
  const std::uint64_t layer = gradient_bytes(run, program, "layer");
  const double least = run.plan.gradient_bucket->base();
  std::uint64_t most = 0;
  const auto stages = static_cast<std::uint32_t>(run.plan.stage_layers->size());
  for (const std::uint32_t s : test::stages_on(run.plan, rank)) {
    const std::uint32_t low = first_layer(run.plan, s), end = first_layer(run.plan, s + 1);
    double bucket = 0.0;
    std::uint64_t open = 0;
    if (s + 1 == stages) bucket += static_cast<double>(gradient_bytes(run, program, "head"));
    if (bucket >= least) bucket = 0.0;
    for (std::uint32_t l = end; l-- > low;) {
      const std::uint64_t next = run.plan.prefetch > 0 && l > low ? 1 : 0;
      most = std::max(most, open + (reuse ? 1 : 2) + next);
      ++open;
      bucket += static_cast<double>(layer);
      if (bucket >= least) bucket = 0.0, open = 0;
    }
  }
  return most;
}

/// Every third seed has BERT, a vision transformer or latent attention.
test::RandomRunLimits in_chunks(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.architectures = seed % 3 == 0;
  limits.chunks = true;
  limits.mixture = false;
  limits.zero_stage = 3;
  return limits;
}

}  // namespace

// Each layer's weights and gradients travel in messages of one size, as many as its tensors need chunks. There are two
// gathers of each and one reduction for every microbatch.
TEST_CASE("chunks of layers are gathered and reduced in messages of one size", "[property][chunk]") {
  std::size_t runs = 0, several = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const PlannedRun run = test::random_run(seed, in_chunks(seed));
    if (run.plan.parameter_chunk == Bytes()) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const std::vector<Violation> found = verify(program);
    INFO(render(found));
    REQUIRE(found.empty());
    Diagnostics none;
    const std::string text = write_program(program);
    if (seed % 10 == 0) CHECK(read_program(text, "memory", none) == program);
    const std::uint64_t chunk =
        static_cast<std::uint64_t>(run.plan.parameter_chunk->base()) / size_of(weight_dtype(run.workload));
    std::uint64_t largest = 0;
    for (const ParameterSlice& s : table_of(program, "layer").slices) {
      largest = std::max(largest, local_count(s.shard, program.mesh));
    }
    CHECK(largest == largest_layer_tensor(run.plan, run.model));
    const std::uint64_t chunks = chunks_of_layer(program, chunk, size(run.plan.mesh, shard_axes_of(run.plan)));
    CHECK(table_of(program, "layer").count == chunks * chunk);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      std::uint64_t gathers = 0, reductions = 0;
      for_each_op(program, program.classes[c].step, [&](const OpRun& r) {
        const auto* collective = std::get_if<Collective>(&r.op->action);
        if (collective == nullptr || program[collective->group].axes != shard_axes_of(run.plan)) return;
        const bool gather = collective->kind == Collective::Kind::all_gather;
        std::uint64_t elements = 0;
        for (std::uint32_t i = 0; i < r.op->views.count; ++i) {
          const View& v = r.block->views[r.op->views.first + i];
          const std::string& name = program[v.buffer].name;
          if (name == "layer.weights.whole" || name == "layer.gradients.whole") elements += v.count;
        }
        if (elements == 0) return;
        CHECK(elements == chunk);
        ++(gather ? gathers : reductions);
      });
      const std::uint64_t layers = test::layers_on(run.plan, c) * program.microbatches / stage_map(run.plan).pipes();
      CHECK(gathers == 2 * layers * chunks);
      CHECK(reductions == layers * chunks);
    }
    ++runs;
    several += chunks > 1 ? 1 : 0;
  }
  CHECK(runs > 80);
  CHECK(several > 40);
}

// Experts of a rank are one tensor; dense layers and mixtures have chunks of one size.
TEST_CASE("layers of experts are packed into chunks, too", "[property][chunk]") {
  std::size_t runs = 0, two_kinds = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    test::RandomRunLimits limits = in_chunks(1);
    limits.mixture = true;
    limits.expert = 1 + static_cast<std::uint32_t>(seed % 2);
    const PlannedRun run = test::random_run(seed, limits);
    if (run.plan.parameter_chunk == Bytes() || !run.model.mixture) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const std::vector<Violation> found = verify(program);
    INFO(render(found));
    REQUIRE(found.empty());
    const std::uint64_t chunk =
        static_cast<std::uint64_t>(run.plan.parameter_chunk->base()) / size_of(weight_dtype(run.workload));
    std::uint64_t largest = 0;
    for (const ParameterTable& table : program.parameter_tables) {
      if (!of_layers(table)) continue;
      CHECK(table.count % chunk == 0);
      for (const ParameterSlice& s : table.slices) largest = std::max(largest, local_count(s.shard, program.mesh));
    }
    CHECK(largest == largest_layer_tensor(run.plan, run.model));
    ++runs;
    two_kinds += mixes_kinds(run.model) ? 1 : 0;
  }
  CHECK(runs > 20);
  CHECK(two_kinds > 5);
}

// A bucket of k layers holds k layers' memory beside the prefetched one. Without reuse it also holds the weights of the
// current layer, so reuse saves one layer's gradients.
TEST_CASE("gradients in the memory of gathered weights take what the closed form says", "[property][chunk]") {
  std::size_t saved = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed, in_chunks(seed));
    if (run.plan.parameter_chunk == Bytes()) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    Program apart = program;  // the same Program, every copy with memory of its own
    for (Buffer& b : apart.buffers) b.reuses.reset();
    run.plan.parameter_chunk = Bytes();
    const Program without = lower(run.model, run.workload, run.plan);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const std::uint64_t layer = gradient_bytes(run, program, "layer"), plain = gradient_bytes(run, without, "layer");
      const std::uint64_t forward = run.plan.prefetch > 0 ? 2 : 1;
      const auto most = [&](const Program& p, bool reuse) {
        std::uint64_t largest = 0;
        for (const std::uint32_t s : test::stages_on(run.plan, c)) {
          largest = std::max<std::uint64_t>(largest, std::min<std::uint64_t>(forward, (*run.plan.stage_layers)[s]));
        }
        return std::max(copies_at_once(run, p, c, reuse), largest);
      };
      CHECK(most_of_copies(program, c) == most(program, true) * layer);
      CHECK(most_of_copies(without, c) == most(without, false) * plain);
      const std::uint64_t peak = totals_of(program, c).peak[index(Tier::device)];
      CHECK(peak <= totals_of(apart, c).peak[index(Tier::device)]);
      saved += peak < totals_of(apart, c).peak[index(Tier::device)] ? 1 : 0;
    }
  }
  CHECK(saved > 60);
}
