#include "core/spec/adapters.hpp"

#include <catch2/catch.hpp>

#include "core/spec/adapter_names.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/support/shipped_model.hpp"

namespace orrery {
namespace {

Adapters rank_16(std::uint8_t matrices = Adapters::all_matrices) { return {16, 32.0, matrices}; }
constexpr std::uint8_t q_and_v = Adapters::bit(AdaptedMatrix::q) | Adapters::bit(AdaptedMatrix::v);

// r (in + out) for each matrix, by hand. Llama-3-8B: r x (q 4096 + 4096, k and v 4096 + 1024, o 8192, gate, up and down
// 4096 + 14336) = 16 x 81920 = 1,310,720 a layer, of 32 layers.
TEST_CASE("adapters of published models have as many parameters as r (in + out) for each matrix makes", "[adapters]") {
  struct Row {
    const char* model;
    std::uint64_t all, queries_and_values;
  };
  for (const Row& row : {Row{"llama-2-7b", 39'976'960, 8'388'608}, Row{"llama-3-8b", 41'943'040, 6'815'744},
                         Row{"llama-3-70b", 207'093'760, 32'768'000}}) {
    CAPTURE(row.model);
    const ModelSpec model = test::shipped_model(row.model);
    CHECK(adapter_parameter_count(model, rank_16()) == row.all);
    CHECK(adapter_parameter_count(model, rank_16(q_and_v)) == row.queries_and_values);
  }
}

TEST_CASE("a feed-forward part without a gate has no adapter of one", "[adapters]") {
  const ModelSpec gpt = test::shipped_model("gpt2-1.5b");
  REQUIRE_FALSE(is_gated(gpt.activation));
  CHECK(matrices_of(gpt, rank_16(Adapters::bit(AdaptedMatrix::gate))) == 0);
  CHECK(adapter_parameter_count(gpt, rank_16(Adapters::bit(AdaptedMatrix::gate))) == 0);
}

TEST_CASE("names of matrices are read in a list or with commas, and an unknown one is named", "[adapters]") {
  std::string unknown;
  CHECK(matrices_listed("q, v", unknown) == q_and_v);
  CHECK(matrices_listed("all", unknown) == Adapters::all_matrices);
  CHECK(matrices_named({"v", "q", "q"}, unknown) == q_and_v);
  CHECK(unknown.empty());
  CHECK_FALSE(matrices_listed("", unknown));
  CHECK_FALSE(matrices_listed("q,head", unknown));
  CHECK(unknown == "head");
}

TEST_CASE("a workload with adapters reads back as it was written", "[adapters]") {
  Workload w;
  w.global_batch = 8;
  w.sequence_length = 128;
  for (const std::uint8_t matrices : {Adapters::all_matrices, q_and_v}) {
    w.adapters = Adapters{8, 12.5, matrices};
    Diagnostics d;
    auto read = parse_workload(write_workload(w), "w.toml", d);
    CAPTURE(render(d));
    REQUIRE(read);
    read->origin = {};
    CHECK(read->adapters == w.adapters);
  }
  w.adapters = Adapters{8, 12.5, q_and_v, true, BaseWeights::nf4, true};
  Diagnostics d;
  const auto read = parse_workload(write_workload(w), "w.toml", d);
  CAPTURE(render(d));
  REQUIRE(read);
  CHECK(read->adapters == w.adapters);
}

// 6 / 3 and 6 / sqrt(4), by hand.
TEST_CASE("adapters are scaled by alpha over the rank, or over its root", "[adapters]") {
  CHECK(Adapters{3, 6.0}.scale() == 2.0);
  CHECK(Adapters{4, 6.0, Adapters::all_matrices, true}.scale() == 3.0);
}

TEST_CASE("alpha is twice the rank where the file gives none", "[adapters]") {
  Diagnostics d;
  const auto read =
      parse_workload("schema = 1\n[workload]\nbatch = 8\nsequence = 128\n[workload.adapters]\nrank = 8\n", "w.toml", d);
  CAPTURE(render(d));
  REQUIRE(read);
  CHECK(read->adapters == Adapters{8, 16.0, Adapters::all_matrices});
}

}  // namespace
}  // namespace orrery
