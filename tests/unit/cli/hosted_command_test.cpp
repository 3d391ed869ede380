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

TEST_CASE("a hosted command that is stopped ends, and the next one is not") {
  HostedCommand search;
  std::future<HostedAnswer> coming = std::async(std::launch::async, [&] { return search.run(long_search); });
  // It tells where it is while it searches.
  while (!search.progress() && coming.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) continue;
  // Another command waits for its turn, and is stopped before it comes.
  HostedCommand waiting;
  waiting.stop();
  CHECK(waiting.run({"show", "cluster"}).failure == "interrupted");
  search.stop();
  const HostedAnswer stopped = coming.get();
  CHECK(stopped.status == status_no);
  CHECK(nlohmann::json::parse(stopped.output)["complete"] == false);
  CHECK(HostedCommand().run({"show", "cluster"}).status == status_fine);
}

}  // namespace
}  // namespace orrery
