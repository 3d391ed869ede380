#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// Fabrics on the command line: shown, checked, and shared by a simulated step.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string plan = "llama-3-70b-8-dgx-h100", fabric = "dgx-h100-superpod";

}  // namespace

TEST_CASE("every shipped fabric is listed, shown and checked", "[unit][cli]") {
  const Ran names = run(ORRERY_PROGRAM, "show fabric --json");
  REQUIRE(names.status == 0);
  const json list = json::parse(names.out);
  CHECK(list.size() >= 4);
  for (const auto& name : list) {
    CAPTURE(name);
    const auto text = name.get<std::string>();
    const Ran shown = run(ORRERY_PROGRAM, "show fabric " + text + " --json");
    REQUIRE(shown.status == 0);
    std::uint64_t links = 0;
    const json described = json::parse(shown.out);
    for (const auto& l : described["links"]) links += l["count"].get<std::uint64_t>();
    CHECK(links > 0);
    CHECK(run(ORRERY_PROGRAM, "show fabric " + text).out.find("routes from GPU 0") != std::string::npos);
    const Ran checked =
        run(ORRERY_PROGRAM, "check " + std::string(ORRERY_SOURCE_DIR) + "/models/fabric/" + text + ".toml");
    CHECK(checked.out.find(": a fabric: ") != std::string::npos);
  }
}

TEST_CASE("a step over a fabric says which links are busiest, and what sharing them costs", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric " + fabric + " --json");
  REQUIRE(ran.status == 0);
  const json report = json::parse(ran.out);
  CHECK(report["links_used"].get<std::uint64_t>() > 64);
  REQUIRE(!report["links"].empty());
  double before = 1.0;
  for (const auto& l : report["links"]) {
    CHECK(l["utilization"].get<double>() <= before + 1e-9);
    before = l["utilization"].get<double>();
  }
  // The waits of compute for each group's communication add up to the report's.
  REQUIRE(report["exposed_operations"].size() > 2);
  double exposed = 0.0;
  for (const auto& e : report["exposed_operations"]) exposed += e["time_s"].get<double>();
  CHECK(exposed == Approx(report["exposed_communication_s"].get<double>()).epsilon(1e-9));
  // The fabric has full bandwidth, and rails: nothing is shared that the prices do not know.
  CHECK(report["step_time_s"].get<double>() >= report["unshared_step_time_s"].get<double>());
  const Ran text = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric " + fabric);
  CHECK(text.out.find("busiest links") != std::string::npos);
  CHECK(text.out.find("with every link to itself; sharing them costs") != std::string::npos);
}

// Four stages on four pairs of nodes fold; --expand gives the same step from all 64 ranks.
TEST_CASE("a step is folded over ranks that behave alike, and says into how many classes", "[unit][cli]") {
  const std::string simulate = "simulate " + plan + " --fabric " + fabric;
  const json folded = json::parse(run(ORRERY_PROGRAM, simulate + " --json").out);
  const json expanded = json::parse(run(ORRERY_PROGRAM, simulate + " --expand --json").out);
  CHECK(folded["rank_classes"].get<std::uint32_t>() < 64);
  CHECK(folded["link_classes"].get<std::uint32_t>() < folded["links_used"].get<std::uint32_t>());
  CHECK(folded["flow_classes"].get<std::uint32_t>() > 0);
  CHECK(expanded["rank_classes"] == 64);
  CHECK(!expanded.contains("link_classes"));
  CHECK(folded["step_time_s"].get<double>() == Approx(expanded["step_time_s"].get<double>()).epsilon(1e-9));
  CHECK(folded["links_used"] == expanded["links_used"]);
  const Ran text = run(ORRERY_PROGRAM, simulate);
  CHECK(text.out.find("64 ranks in " + std::to_string(folded["rank_classes"].get<std::uint32_t>()) +
                      " classes of ranks that behave alike; ") != std::string::npos);
}

// Stages and replicas meet on the way out of their nodes; tensor groups stay inside, alone on NVLink.
TEST_CASE("a step over a fabric says which communications sharing delays", "[unit][cli]") {
  const std::string simulate = "simulate llama-3-405b-16384-h100 --fabric llama-3-24k --routes rail-local";
  const json report = json::parse(run(ORRERY_PROGRAM, simulate + " --json").out);
  REQUIRE(!report["delayed_operations"].empty());
  double before = 1e9;
  for (const auto& d : report["delayed_operations"]) {
    const double delay = d["time_s"].get<double>() - d["unshared_time_s"].get<double>();
    CHECK(delay > 0.0);
    CHECK(delay <= before);
    before = delay;
    CHECK(d["name"].get<std::string>().find("tensor") == std::string::npos);
  }
  CHECK(report["rank_classes"].get<std::uint32_t>() <= 64);
}

TEST_CASE("stragglers slow a step down, and part ranks", "[unit][cli]") {
  const json even = json::parse(run(ORRERY_PROGRAM, "simulate " + plan + " --json").out);
  const std::string slow = "simulate " + plan + " --stragglers 1 --slowdown 1.4";
  const json uneven = json::parse(run(ORRERY_PROGRAM, slow + " --json").out);
  CHECK(uneven["step_time_s"].get<double>() > even["step_time_s"].get<double>());
  CHECK(uneven["step_time_s"].get<double>() < 1.4 * even["step_time_s"].get<double>());
  CHECK(uneven["rank_classes"].get<std::uint32_t>() > even["rank_classes"].get<std::uint32_t>());
  CHECK(run(ORRERY_PROGRAM, slow).out.find("1 of 64 ranks compute 1.4 times as long") != std::string::npos);
}

// The slow GPU's stage waits for nobody longer than its own compute grows: the others wait for it.
TEST_CASE("slow GPUs are named, and part ranks", "[unit][cli]") {
  const auto step = [](const std::string& more) {
    return json::parse(run(ORRERY_PROGRAM, "simulate " + plan + " --json " + more).out);
  };
  const json even = step(""), one = step("--slow-gpus 5=1.4"), all = step("--slow-gpus 0-63=1.4");
  CHECK(one["step_time_s"].get<double>() > even["step_time_s"].get<double>());
  CHECK(one["step_time_s"].get<double>() < all["step_time_s"].get<double>());
  CHECK(one["rank_classes"].get<std::uint32_t>() > even["rank_classes"].get<std::uint32_t>());
  CHECK(all["rank_classes"] == even["rank_classes"]);
  CHECK(all["compute_s"].get<double>() == Approx(1.4 * even["compute_s"].get<double>()).epsilon(1e-9));
  // Factors of one GPU multiply.
  CHECK(step("--slow-gpus 0-63=2 --slow-gpus 0-63=1.5")["history_hash"] == step("--slow-gpus 0-63=3")["history_hash"]);
  const Ran wrong = run(ORRERY_PROGRAM, "simulate " + plan + " --slow-gpus 5");
  CHECK(wrong.status == 2);
  CHECK(wrong.err ==
        "error: --slow-gpus: \"5\" needs a factor from 1 to 1000 [cli.slowdown]\n"
        "  \"3,8-15=1.3\": GPUs 3 and 8 to 15 take 1.3 times as long.\n");
  CHECK(run(ORRERY_PROGRAM, "simulate " + plan + " --slow-gpus 5,64=1.4").err ==
        "error: --slow-gpus names 2 GPUs, but ranks lie on 1 of them [cli.slowdown]\n"
        "  GPUs count from 0, node by node.\n");
}

TEST_CASE("a fabric that is not the cluster's is refused", "[unit][cli]") {
  const Ran small = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric dgx-1v");
  CHECK(small.status == 2);
  CHECK(
      small.err ==
      "error: DGX-1V joins 8 GPUs, but the plan's cluster has 64 [cli.fabric]\n  8 nodes of 8 GPUs would be enough.\n");
  const Ran other = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric dragonfly-72");
  CHECK(other.status == 2);
  CHECK(other.err.find("[cli.fabric]") != std::string::npos);
  const Ran trays = run(ORRERY_PROGRAM, "simulate " + plan + " --cluster gb200-nvl72 --fabric " + fabric);
  CHECK(trays.status == 2);
  CHECK(trays.err ==
        "error: nodes of DGX H100 SuperPOD, 1024 GPUs have 8 GPUs, but nodes of the plan's cluster have 4 or 64 "
        "[cli.fabric]\n"
        "  Both must describe the same nodes: prices come from the cluster, shares of links from the fabric.\n");
  const Ran unknown = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric dgx");
  CHECK(unknown.status == 2);
  CHECK(unknown.err ==
        "error: no fabric is named \"dgx\" [library.unknown-fabric]\n"
        "  Nearest names: dgx-1v, dgx-h100-superpod.\n");
  const Ran routes = run(ORRERY_PROGRAM, "simulate " + plan + " --fabric " + fabric + " --routes shortest");
  CHECK(routes.status == 2);
  CHECK(routes.err ==
        "error: the routes \"shortest\" are not known [cli.fabric]\n  Known: by-destination, hashed, rail-local.\n");
  const Ran alone = run(ORRERY_PROGRAM, "simulate " + plan + " --routes hashed");
  CHECK(alone.status == 2);
  CHECK(alone.err == "error: --routes goes with --fabric only [cli.fabric]\n");
}

// Sixteen trays of four are sixteen nodes of the cluster and one box of the fabric: nothing leaves its NVLinks.
TEST_CASE("racks that NVLink joins are nodes of a fabric", "[unit][cli]") {
  const json step =
      json::parse(run(ORRERY_PROGRAM, "simulate " + plan + " --cluster gb200-nvl72 --fabric gb200-nvl72 --json").out);
  // There a GPU's tensor traffic meets its own messages between stages, for less than a hundredth of the step.
  CHECK(step["step_time_s"].get<double>() >= step["unshared_step_time_s"].get<double>());
  CHECK(step["step_time_s"].get<double>() < 1.01 * step["unshared_step_time_s"].get<double>());
  REQUIRE(!step["links"].empty());
  for (const auto& l : step["links"]) CHECK(l["name"].get<std::string>().find("nvswitch") != std::string::npos);
}
