#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// `orrery jobs --execute` with very small jobs: every job does all its steps, whatever stops it, and its weights are
// those of a run that nothing stops. No time is judged: machines that run tests are busy.

using namespace orrery::test;
using nlohmann::json;

namespace {

/// A folder with a model, a plan of it for each of 1, 2 and 4 data-parallel ranks, and a workload of six jobs.
struct Mix {
  TemporaryFolder folder;
  std::string workload = folder.file("jobs.toml");
  Mix() {
    write(folder.file("model.toml"),
          "schema = 1\n[model]\nname = \"small\"\nlayers = 2\nhidden = 16\nheads = 4\nffn = 32\nvocabulary = 30\n"
          "max_positions = 8\nnorm = \"layer_norm\"\nactivation = \"gelu\"\npositions = \"learned\"\nbias = true\n"
          "tied_embeddings = true\n");
    for (const int ranks : {1, 2, 4}) {
      const std::string n = std::to_string(ranks);
      write(folder.file("d" + n + ".toml"),
            "schema = 1\nname = \"small\"\nmodel = \"model.toml\"\ncluster = \"local-cpu\"\ngpus = " + n +
                "\n[workload]\nbatch = 8\nsequence = 8\nprecision = \"fp64\"\n[workload.optimizer]\nkind = \"adam\"\n"
                "learning_rate = 0.01\n[mesh]\norder = [\"data\"]\ndata = " +
                n + "\n[plan]\nmicrobatch_size = 1\n");
    }
    std::string jobs = "schema = 1\n" + job("wide", "0 s", 4, "\"d4.toml\", \"d2.toml\"", 240);
    for (int i = 1; i <= 5; ++i) {
      jobs +=
          job("small-" + std::to_string(i), std::to_string(300 * i) + " ms", 2, "\"d2.toml\", \"d1.toml\"", 20 + 5 * i);
    }
    write(workload, jobs);
  }
  static std::string job(const std::string& name, const std::string& submit, int gpus, const std::string& plans,
                         int steps) {
    return "[[job]]\nname = \"" + name + "\"\nsubmit = \"" + submit + "\"\ngpus = " + std::to_string(gpus) +
           "\nplans = [" + plans + "]\nsteps = " + std::to_string(steps) + "\n";
  }
  /// The loss of the step behind `steps`, which says whether the weights are the same.
  [[nodiscard]] double next_loss(const std::string& saved, const std::string& plan) const {
    const Ran ran =
        run(ORRERY_PROGRAM, "run " + folder.file(plan) + " --warmup 0 --steps 1 --json --resume --checkpoint " + saved);
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    return json::parse(ran.out)["losses"][0];
  }
};

}  // namespace

TEST_CASE("six jobs run here under two policies, none loses a step, and their weights are those of undisturbed runs",
          "[unit][cli]") {
  const Mix m;
  const std::string kept = m.folder.file("kept");
  const Ran ran =
      run(ORRERY_PROGRAM,
          "jobs " + m.workload + " --nodes 1 --gpus-per-node 4 --policy srtf,marginal --json --execute " + kept);
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  const json told = json::parse(ran.out);
  REQUIRE(told["policies"].size() == 2);
  for (const json& policy : told["policies"]) {
    const std::string name = policy["policy"];
    CAPTURE(name);
    REQUIRE(policy["executed"]["jobs"].size() == 6);
    for (std::size_t j = 0; j < 6; ++j) {
      const json& job = policy["executed"]["jobs"][j];
      CHECK(job["stops"].is_number_unsigned());
      CHECK(job["time_s"].get<double>() > 0.0);
      const std::string steps = std::to_string(job["steps"].get<int>()), plan = j == 0 ? "d4.toml" : "d2.toml";
      const std::string alone = m.folder.file("alone-" + name + std::to_string(j));
      REQUIRE(run(ORRERY_PROGRAM,
                  "run " + m.folder.file(plan) + " --warmup 0 --json --steps " + steps + " --checkpoint " + alone)
                  .status == 0);
      const std::string here = kept + "/" + name + "/job-" + std::to_string(j + 1);
      // Other numbers of ranks add in another order.
      CHECK(m.next_loss(here, plan) == Approx(m.next_loss(alone, plan)).epsilon(1e-6));
    }
    // Under srtf the wide job makes room for those that come while it runs. How many these are depends on how fast this
    // machine is, so it is not judged.
  }
}

TEST_CASE("jobs.execute: a folder with a run of any of the policies is refused before anything is measured",
          "[error]") {
  const Mix m;
  const std::string kept = m.folder.file("kept");
  std::filesystem::create_directories(kept + "/marginal");
  const Ran ran = run(ORRERY_PROGRAM,
                      "jobs " + m.workload + " --nodes 1 --gpus-per-node 4 --policy srtf,marginal --execute " + kept);
  CHECK(ran.status == 2);
  CHECK(ran.err == "error: " + kept +
                       "/marginal is there already [jobs.execute]\n"
                       "  --execute needs a folder in which no run of this policy is kept.\n");
  CHECK_FALSE(std::filesystem::exists(kept + "/measured-0"));
}

TEST_CASE("jobs.execute, jobs.plan: what cannot be run here", "[error]") {
  const Mix m;
  const std::string on = " --nodes 1 --gpus-per-node 4 ";
  const auto refused = [](const std::string& arguments) {
    const Ran ran = run(ORRERY_PROGRAM, arguments);
    CHECK(ran.status == 2);
    return ran.err;
  };
  CHECK(refused("jobs " + m.workload + on) ==
        "error: jobs with plans have no times before they run here [jobs.execute]\n"
        "  --execute FOLDER measures and runs them.\n");
  CHECK(refused("jobs " ORRERY_SOURCE_DIR "/examples/jobs.toml --nodes 2 --gpus-per-node 4 --execute " +
                m.folder.file("x")) ==
        "error: tokenizer (line 5): --execute needs plans and steps of every job [jobs.plan]\n");
  write(m.workload, "schema = 1\n" + Mix::job("odd", "0 s", 3, "\"d2.toml\"", 5));
  CHECK(refused("jobs " + m.workload + on + "--execute " + m.folder.file("x")) ==
        "error: odd (line 3): no plan is for its 3 GPUs [jobs.plan]\n");
  CHECK(refused("jobs " + m.workload + on + "--restart \"5 s\" --policy srtf --execute " + m.folder.file("x")) ==
        "error: --execute goes without --restart, --reliability and --scattered [cli.flags]\n"
        "  Times are measured on this machine.\n");
}
