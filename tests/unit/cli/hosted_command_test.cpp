#include <catch2/catch.hpp>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "cli/hosted_command.hpp"
#include "cli/status.hpp"

namespace orrery {
namespace {

const std::vector<std::string> long_search{"plan",    "--model", "gpt3-175b", "--cluster", "dgx-a100", "--gpus", "128",
                                           "--batch", "256",     "--seq",     "2048",      "--all",    "--json"};

TEST_CASE("a hosted command gives its output and its status") {
  HostedCommand command;
  const HostedAnswer answer = command.run({"estimate", "demo-2x2x2", "--json"});
  CHECK(answer.status == status_fine);
  CHECK(answer.messages.empty());
  CHECK(nlohmann::json::parse(answer.output)["plan"] == "demo-2x2x2");
  CHECK(HostedCommand::here() == nullptr);
}

TEST_CASE("mistakes of a hosted command are returned as diagnostics, and failures as a text") {
  const HostedAnswer wrong = HostedCommand().run({"estimate", "no-such-plan", "--json"});
  CHECK(wrong.status == status_input);
  REQUIRE(wrong.diagnostics.size() == 1);
  CHECK(wrong.diagnostics.list()[0].code == "library.unknown-plan");
  CHECK(HostedCommand().run({"estimat"}).diagnostics.list()[0].code == "cli.verb");
  const HostedAnswer failed = HostedCommand().run({"show", "cluster", "dgx-h100", "-o", "/no/such/folder/file"});
  CHECK(failed.status == status_world);
  CHECK(failed.failure.find("/no/such/folder") != std::string::npos);
}

TEST_CASE("cli.hosted: what starts processes is refused inside another program", "[error]") {
  const auto refused = [](const std::vector<std::string>& arguments) {
    const HostedAnswer answer = HostedCommand().run(arguments);
    CHECK(answer.status == status_input);
    REQUIRE(answer.diagnostics.size() == 1);
    const Diagnostic& d = answer.diagnostics.list()[0];
    CHECK(d.code == "cli.hosted");
    return d.message;
  };
  CHECK(refused({"run", "cpu-one-rank"}) == "run starts processes, which it cannot do inside another program");
  CHECK(refused({"jobs", "jobs.toml", "--nodes", "1", "--gpus-per-node", "4", "--execute", "kept"}) ==
        "jobs --execute starts processes, which it cannot do inside another program");
  CHECK(HostedCommand().run({"run", "--help"}).status == status_fine);
}

TEST_CASE("a hosted command that is stopped ends, and the next one is not") {
  HostedCommand search;
  // Stopped before it begins, it does nothing, whether it has to wait for its turn or not.
  HostedCommand waiting;
  waiting.stop();
  CHECK(waiting.run({"show", "cluster"}).failure == "interrupted");
  // One that searches tells where it is, and is stopped at the first such word: long before its end, on any machine.
  std::future<HostedAnswer> coming = std::async(std::launch::async, [&] { return search.run(long_search); });
  while (!search.progress() && coming.wait_for(std::chrono::microseconds(100)) != std::future_status::ready) continue;
  search.stop();
  const HostedAnswer stopped = coming.get();
  CHECK(stopped.status == status_no);
  CHECK(nlohmann::json::parse(stopped.output)["complete"] == false);
  CHECK(HostedCommand().run({"show", "cluster"}).status == status_fine);
}

}  // namespace
}  // namespace orrery
