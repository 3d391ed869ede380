#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "tests/golden/golden_cases.hpp"

using namespace orrery;

namespace {

std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::optional<Program> hand_program(const std::string& name) {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/tests/golden/hand/" + name + ".program";
  Diagnostics diagnostics;
  auto program = read_program(text_of(file), file, diagnostics);
  INFO(render(diagnostics));
  CHECK(program.has_value());
  return program;
}

}  // namespace

TEST_CASE("hand-written Programs read, keep every rule and read back equal", "[golden][hand]") {
  for (const std::string name : {"zero3-prefetch", "zb-h1", "summa", "experts", "host-offload", "tied-clipping"}) {
    CAPTURE(name);
    const auto program = hand_program(name);
    REQUIRE(program.has_value());
    const auto found = verify(*program);
    INFO(render(found));
    CHECK(found.empty());
    Diagnostics diagnostics;
    CHECK(read_program(write_program(*program), name, diagnostics) == program);
  }
}

TEST_CASE("the example of the format's document reads and keeps every rule", "[golden]") {
  const std::string page = text_of(std::string(ORRERY_SOURCE_DIR) + "/docs/program-format.md");
  const auto begin = page.find("```\n") + 4;
  Diagnostics diagnostics;
  const auto program = read_program(page.substr(begin, page.find("```", begin) - begin), "example", diagnostics);
  INFO(render(diagnostics));
  REQUIRE(program.has_value());
  const auto found = verify(*program);
  INFO(render(found));
  CHECK(found.empty());
}

// There are three layers of 64 weights in f32 on two replicas. Layers 0 and 1 have a gather in each direction and layer
// 2 one, because its weights stay: 5 gathers of 256 B, 3 reductions of 256 B. Memory: at most 2 layers' gathered
// weights.
TEST_CASE("ZeRO-3 with prefetch holds two layers' weights and moves 1.5 times data parallel's bytes",
          "[golden][hand]") {
  const auto program = hand_program("zero3-prefetch");
  REQUIRE(program.has_value());
  const ClassTotals t = totals_of(*program, 0);
  std::uint64_t gathered = 0, scattered = 0;
  for (const CollectiveTotal& c : t.collectives) {
    if (c.kind == Collective::Kind::all_gather) gathered = c.payload;
    if (c.kind == Collective::Kind::reduce_scatter) scattered = c.payload;
  }
  CHECK(gathered == 5 * 256);
  CHECK(scattered == 3 * 256);
  // Each rank keeps half of the weights and gradients: 3 * 32 * 4 bytes, and the frozen table's 256.
  CHECK(t.state[index(Role::weight)] == 3 * 128 + 256);
  CHECK(t.state[index(Role::gradient)] == 3 * 128);
}

// Per microbatch: F of both stages, I of stage 1 (stage 0 has no input gradient), W of both. Stage 0 has 2 * 2*4*8*8 =
// 1024, stage 1 3 * 512.
TEST_CASE("ZB-H1 does the same work as 1F1B, weight gradients apart", "[golden][hand]") {
  const auto program = hand_program("zb-h1");
  REQUIRE(program.has_value());
  CHECK(total_flops(*program).counted == 3 * (1024 + 1536));
  CHECK(totals_of(*program, 1).flops[index(Pass::weight_gradient)].counted == 3 * 512);
  CHECK(totals_of(*program, 1).flops[index(Pass::input_gradient)].counted == 3 * 512);
}

// 8 x 8 x 12 product: 2 * 8 * 8 * 12 FLOPs over 4 ranks; each rank takes part in
// 6 broadcasts of a panel of 8 elements of A and as many of B.
TEST_CASE("SUMMA multiplies every panel once on every rank", "[golden][hand]") {
  const auto program = hand_program("summa");
  REQUIRE(program.has_value());
  CHECK(total_flops(*program).counted == 1536);
  for (std::uint32_t c = 0; c < 4; ++c) {
    const ClassTotals t = totals_of(*program, c);
    REQUIRE(t.collectives.size() == 2);
    for (const CollectiveTotal& b : t.collectives) {
      CHECK(b.count == 6);
      CHECK(b.payload == 6 * 32);
    }
  }
}

// Rank 0 sends tokens 1 and 3 and gets one result per token of its own back;
// expert 0 works on 3 rows, expert 1 on 5: 2 * rows * 16, twice (forward and
// weight gradient).
TEST_CASE("experts work on the rows that the recorded routing gives them", "[golden][hand]") {
  const auto program = hand_program("experts");
  REQUIRE(program.has_value());
  CHECK(total_flops(*program).counted == 2 * 2 * (3 + 5) * 16);
  // Rank 0: 2 rows out, 1 result back, 2 gradient rows out, of 4 elements.
  CHECK(totals_of(*program, 0).message_bytes == 5 * 16);
  CHECK(totals_of(*program, 1).message_bytes == (1 + 2 + 1) * 16);
}

// Masters and two moments of 3 layers of 64 elements in f32: 2304 bytes in host memory, and two layers' inputs of 64
// bytes. The device holds at most two layers' states.
TEST_CASE("offloaded states and activations stand in host memory", "[golden][hand]") {
  const auto program = hand_program("host-offload");
  REQUIRE(program.has_value());
  const ClassTotals t = totals_of(*program, 0);
  CHECK(t.state[index(Role::master)] == 768);
  CHECK(t.state[index(Role::moment)] == 1536);
  CHECK(t.peak[index(Tier::host)] == 768 + 1536 + 2 * 64);
  CHECK(t.at_peak[index(Role::workspace)] <= 2 * 768);
}

TEST_CASE("the tied table counts once", "[golden][hand]") {
  const auto program = hand_program("tied-clipping");
  REQUIRE(program.has_value());
  CHECK(parameter_elements(*program) == 16 * 8 + 8 * 8);

  // Half of the layer's weight is in the norm.
  Program half = *program;
  for (Block& block : half.blocks) {
    for (Kernel& k : block.kernels) {
      if (k.kind == KernelKind::sum_squares && block.name == "layer.norm") k.parameter = 0.5;
    }
  }
  const auto found = verify(half);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "program.norm");
  CHECK(found[0].message ==
        "elements of weight count 0.5 times in norm (rank 1, class 1, block clip, op 1, layer 0, microbatch 0)");
}

// Only `update_golden` (a target of this build) makes the files anew, alone in a commit.
TEST_CASE("lowered Programs are as the golden files have them", "[golden]") {
  for (const test::GoldenCase& c : test::golden_cases()) {
    CAPTURE(c.name);
    Diagnostics diagnostics;
    check(c.run.plan, c.run.model, c.run.workload, nullptr, diagnostics);
    INFO(render(diagnostics));
    REQUIRE(diagnostics.empty());
    const Program program = lower(c.run.model, c.run.workload, c.run.plan);
    const std::string now = write_program(program);
    const std::string then = text_of(test::golden_path(c));
    if (now != then) {
      const auto at = std::mismatch(now.begin(), now.end(), then.begin(), then.end()).first - now.begin();
      const auto from = now.rfind('\n', static_cast<std::size_t>(at));
      FAIL("differs from " << test::golden_path(c) << " at byte " << at << ":\n"
                           << now.substr(from == std::string::npos ? 0 : from + 1, 300));
    }
    CHECK(verify(program).empty());
  }
}
