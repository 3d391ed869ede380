// `orrery run --adapt`: a plan that follows the machine.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parity/event_log.hpp"
#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::Ran;

namespace {

/// Four tensor ranks in double precision, whose step sends some 400 kB: over slow links nothing else counts.
class SlowPlan {
 public:
  explicit SlowPlan(const std::string& learning_rate = "0.01") {
    test::write(
        folder_.file("model.toml"),
        "schema = 1\n[model]\nname = \"small\"\nlayers = 2\nhidden = 16\nheads = 4\nffn = 32\nvocabulary = 32\n"
        "max_positions = 32\nnorm = \"layer_norm\"\nactivation = \"gelu\"\npositions = \"learned\"\nbias = true\n"
        "tied_embeddings = true\n");
    test::write(
        plan(),
        "schema = 1\nname = \"small\"\nmodel = \"model.toml\"\ncluster = \"local-cpu\"\ngpus = 4\n[workload]\n"
        "batch = 8\nsequence = 32\nprecision = \"fp64\"\n[workload.optimizer]\nkind = \"adam\"\nlearning_rate = " +
            learning_rate + "\n[mesh]\norder = [\"tensor\"]\ntensor = 4\n[plan]\nmicrobatch_size = 8\n");
  }
  [[nodiscard]] std::string plan() const { return folder_.file("plan.toml"); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] json run(const std::string& flags) const {
    const Ran ran = test::run(ORRERY_PROGRAM, "run " + plan() + " --warmup 0 --json " + flags);
    CAPTURE(ran.err, flags);
    REQUIRE(ran.status == 0);
    return json::parse(ran.out);
  }

 private:
  test::TemporaryFolder folder_;
};

std::vector<json> events(const std::string& log, const std::string& kind) {
  std::vector<json> found;
  std::istringstream lines(test::contents(log));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["event"] == kind) found.push_back(event);
  }
  return found;
}

const std::string slow_forty = "--steps 40 --adapt 0.15 --slow-links '300 kB/s' --backend ";

std::vector<json> changes_of(const json& report) {
  std::vector<json> changes;
  for (const json& told : report["adaptation"]) {
    if (told["changed"]) changes.push_back(told);
  }
  return changes;
}

/// The steps of these decisions; with a word, of those that the log tells so.
std::vector<std::uint64_t> steps_of(const std::vector<json>& all, const char* decision = nullptr) {
  std::vector<std::uint64_t> steps;
  for (const json& told : all) {
    if (decision == nullptr || told["decision"] == decision) steps.push_back(told["step"]);
  }
  return steps;
}

}  // namespace

// Links of 300 kB/s make the messages of a step take two seconds, and those of the next plan a few tenths. A machine
// that is busy may make the plan change again, so what follows holds for any number of changes.
TEST_CASE("over slow links the plan changes, and the run trains the same", "[adapt]") {
  const std::string backend = GENERATE(as<std::string>(), "threads", "processes");
  CAPTURE(backend);
  const SlowPlan s;
  const json got = s.run(slow_forty + backend + " --log " + s.file("log") + " --checkpoint " + s.file("saved"));
  CAPTURE(got["adaptation"].dump(2));
  const std::vector<json> changes = changes_of(got);
  REQUIRE(!changes.empty());
  for (const json& change : changes) {
    CHECK(change["other_plan"] != change["plan"]);
    CHECK(change["gain_s"].get<double>() > change["cost_s"].get<double>());
  }

  // The log has each decision, and each change.
  for (const char* word : {"changes", "changed"}) {
    CAPTURE(word);
    CHECK(steps_of(events(s.file("log"), "adaptation"), word) == steps_of(changes));
  }
  // Steps are numbered through, and the run begins and ends once.
  const std::vector<json> steps = events(s.file("log"), "step");
  REQUIRE(steps.size() == 40);
  for (std::size_t i = 0; i < steps.size(); ++i) CHECK(steps[i]["step"] == i + 1);
  CHECK(events(s.file("log"), "init").size() == 1);
  CHECK(events(s.file("log"), "shutdown").size() == 1);

  // It trains what an undisturbed run trains: sums in another order, in double (1e-9 is a million roundings).
  const json whole = s.run("--steps 40");
  REQUIRE(got["losses"].size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    CHECK(got["losses"][i].get<double>() == Approx(whole["losses"][i].get<double>()).epsilon(1e-9));
  }
}

// Computing and latency take some ten milliseconds where nothing else runs, so that the gain is that of the bytes.
TEST_CASE("over slow links the plan changes once, and the step gets as much shorter as predicted", "[.][adapt-long]") {
  const std::string backend = GENERATE(as<std::string>(), "threads", "processes");
  CAPTURE(backend);
  const SlowPlan s;
  const json got = s.run(slow_forty + backend + " --log " + s.file("log"));
  CAPTURE(got["adaptation"].dump(2));
  const std::vector<json> changes = changes_of(got);
  REQUIRE(changes.size() == 1);
  const json& change = changes.front();
  CHECK(change["bytes_factor"].get<double>() > 10.0);
  std::vector<double> after;
  for (const json& e : events(s.file("log"), "step")) {
    if (e["step"] > change["step"].get<int>() + 1) after.push_back(e["duration_s"]);
  }
  REQUIRE(!after.empty());
  std::nth_element(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(after.size() / 2), after.end());
  const double then = after[after.size() / 2], before = change["measured_s"];
  const double gained = before - then, predicted = before - change["other_predicted_s"].get<double>();
  std::cout << backend << ": a step took " << before << " s and then " << then << " s; gained " << gained
            << " s a step, predicted " << predicted << " s; change " << change["took_s"] << " s\n";
  CHECK(std::abs(gained / predicted - 1.0) <= 0.2);
}

// No weight moves with a rate of learning of 0, so all must be equal after a change of plan.
TEST_CASE("a change of plan keeps every weight to the bit", "[adapt]") {
  const SlowPlan s("0.0");
  const json got = s.run("--steps 40 --adapt 0.15 --slow-links '300 kB/s' --ranks 4 --checkpoint " + s.file("saved"));
  CAPTURE(got["adaptation"].dump(2));
  REQUIRE(!changes_of(got).empty());
  const json whole = s.run("--steps 40 --checkpoint " + s.file("whole"));
  // Both go on under the first plan, which puts the states into the same parts.
  static_cast<void>(s.run("--steps 1 --resume --checkpoint " + s.file("saved")));
  static_cast<void>(s.run("--steps 1 --resume --checkpoint " + s.file("whole")));
  const auto found = test::parts_of(s.file("saved"), "weights"), wanted = test::parts_of(s.file("whole"), "weights");
  REQUIRE(!wanted.empty());
  CHECK(found == wanted);
}

// No plan of this model is a hundred times as fast as another, slow as steps may be.
TEST_CASE("a run whose plan stays has the bits of one that does not look", "[adapt]") {
  const std::string backend = GENERATE(as<std::string>(), "threads", "processes");
  const SlowPlan s;
  const json got = s.run("--steps 12 --adapt 0.99 --backend " + backend + " --checkpoint " + s.file("saved"));
  for (const json& told : got["adaptation"]) CHECK(told["changed"] == false);
  const json whole = s.run("--steps 12 --backend " + backend + " --checkpoint " + s.file("whole"));
  CHECK(got["losses"] == whole["losses"]);
  CHECK(test::newest_state(s.file("saved")) == test::newest_state(s.file("whole")));
  CHECK(!test::newest_state(s.file("saved")).empty());
}

TEST_CASE("a rank that fails after a change of plan is named, with the step of the change", "[adapt]") {
  const SlowPlan s;
  test::EventLog log(s.file("log"));
  test::SignalledRun run({ORRERY_PROGRAM, "run", s.plan(), "--warmup", "0", "--steps", "100000", "--ranks", "4",
                          "--adapt", "0.15", "--slow-links", "300 kB/s", "--log", log.path()});
  REQUIRE(log.eventually([&] { return !steps_of(log.of("adaptation"), "changed").empty(); }));
  REQUIRE(log.a_step_ends());
  const std::vector<pid_t> ranks = run.children();
  REQUIRE(ranks.size() == 4);
  kill(ranks[3], SIGKILL);
  REQUIRE(log.wait(run) == 3);
  const std::string err = run.err(),
                    says = "error: rank 3 was killed by signal 9 (Killed)\n  The plan had changed after step ";
  CAPTURE(err);
  const std::size_t at = err.find(says);
  REQUIRE(at != std::string::npos);
  const std::vector<std::uint64_t> changes = steps_of(log.of("adaptation"), "changes");
  CHECK(std::count(changes.begin(), changes.end(), std::stoull(err.substr(at + says.size()))) == 1);
}
