#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::SignalledRun;
using test::SupervisedPlan;

namespace {

/// Reads the text format of Prometheus as its documentation gives it (Exposition formats, version 0.0.4): HELP and TYPE
/// once for each name, before its samples; every line ends with a newline.
std::map<std::string, double> prometheus(const std::string& text) {
  static const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .+"), sample("([a-zA-Z_:][a-zA-Z0-9_:]*) (\\S+)"),
      type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)");
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types, helps;
  REQUIRE(!text.empty());
  CHECK(text.back() == '\n');
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::smatch m;
    CAPTURE(line);
    if (std::regex_match(line, m, help)) {
      CHECK(helps.emplace(m[1], "").second);
    } else if (std::regex_match(line, m, type)) {
      CHECK(types.emplace(m[1], m[2]).second);
    } else {
      REQUIRE(std::regex_match(line, m, sample));
      CHECK(types.contains(m[1]));
      CHECK(helps.contains(m[1]));
      // Names of counters end so.
      CHECK((types[m[1]] == "counter") == (m[1].str().find("_total") != std::string::npos));
      std::size_t read = 0;
      CHECK(samples.emplace(m[1], std::stod(m[2], &read)).second);
      CHECK(read == m[2].str().size());
    }
  }
  return samples;
}

/// What a port of 127.0.0.1 answers; empty where nobody does.
std::string asked(int port, const std::string& request) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 &&
      send(s, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char part[4096];
    for (ssize_t n = 0; (n = recv(s, part, sizeof part, 0)) > 0;) answer.append(part, static_cast<std::size_t>(n));
  }
  close(s);
  return answer;
}

/// A port that nobody has at this moment.
int free_port() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  close(s);
  return ntohs(at.sin_port);
}

std::vector<std::vector<std::string>> rows(const std::string& csv) {
  std::vector<std::vector<std::string>> all;
  std::istringstream in(csv);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream cut(line + ",");
    for (std::string cell; std::getline(cut, cell, ',');) cells.push_back(cell);
    all.push_back(cells);
  }
  return all;
}

}  // namespace

TEST_CASE("CSV and Prometheus's text have the figures of the report", "[processes][metrics]") {
  const SupervisedPlan s;
  const std::string ranks = GENERATE(as<std::string>(), "", " --ranks 8");
  const std::string run = "run " + s.plan() + ranks + " --warmup 0 --json --csv " + s.file("steps.csv") +
                          " --metrics " + s.file("run.prom") + " --checkpoint " + s.file("saved");
  const test::Ran first = test::run(ORRERY_PROGRAM, run + " --steps 3");
  CAPTURE(first.err);
  REQUIRE(first.status == 0);
  const json report = json::parse(first.out);
  const auto table = rows(test::contents(s.file("steps.csv")));
  REQUIRE(table.size() == 4);
  CHECK(table[0] == std::vector<std::string>{"step", "elapsed_s", "loss", "step_s", "tokens_per_s", "peak_memory_bytes",
                                             "sent_bytes", "restarts"});
  for (std::size_t i = 1; i < table.size(); ++i) {
    REQUIRE(table[i].size() == table[0].size());
    CHECK(std::stoul(table[i][0]) == i);
    CHECK(std::stod(table[i][2]) == report["losses"][i - 1].get<double>());
    // 8 sequences of 8 tokens.
    CHECK(std::stod(table[i][4]) * std::stod(table[i][3]) == Approx(64.0));
    CHECK(std::stoull(table[i][5]) == report["peak_memory_bytes"].get<std::uint64_t>());
    CHECK(std::stoull(table[i][6]) == report["sent_bytes"].get<std::uint64_t>());
    CHECK(table[i][7] == "0");
  }
  const auto samples = prometheus(test::contents(s.file("run.prom")));
  CHECK(samples.at("orrery_step") == 3.0);
  CHECK(samples.at("orrery_loss") == report["losses"][2].get<double>());
  CHECK(samples.at("orrery_step_seconds") == std::stod(table[3][3]));
  CHECK(samples.at("orrery_restarts_total") == 0.0);

  // A run that goes on adds to the table.
  REQUIRE(test::run(ORRERY_PROGRAM, run + " --steps 1 --resume").status == 0);
  const auto longer = rows(test::contents(s.file("steps.csv")));
  REQUIRE(longer.size() == 5);
  CHECK(longer[4][0] == "4");
  CHECK(prometheus(test::contents(s.file("run.prom"))).at("orrery_step") == 4.0);
}

TEST_CASE("a port of the loopback answers while the run goes on", "[processes][metrics]") {
  const SupervisedPlan s;
  const int port = free_port();
  SignalledRun run({ORRERY_PROGRAM, "run", s.plan(), "--steps", "1000000", "--metrics", std::to_string(port)});
  const std::string get = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  std::string answer;
  REQUIRE(SignalledRun::eventually([&] {
    answer = asked(port, get);
    return answer.find("orrery_loss ") != std::string::npos;
  }));
  CHECK(answer.find("HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n") == 0);
  const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
  CHECK(answer.find("Content-Length: " + std::to_string(body.size()) + "\r\n") != std::string::npos);
  CHECK(prometheus(body).at("orrery_step") >= 1.0);
  CHECK(asked(port, "GET / HTTP/1.1\r\n\r\n").find("HTTP/1.0 404 ") == 0);
  CHECK(asked(port, "POST /metrics HTTP/1.1\r\n\r\n").find("HTTP/1.0 405 ") == 0);

  // Another run cannot have the port.
  const test::Ran second =
      test::run(ORRERY_PROGRAM, "run " + s.plan() + " --steps 1 --metrics " + std::to_string(port));
  CHECK(second.status == 3);
  CHECK(second.err.find("error: --metrics: cannot listen at 127.0.0.1:" + std::to_string(port) + ": ") == 0);
  kill(run.process(), SIGTERM);
  CHECK(run.wait() == 143);
}
