#pragma once

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/comm/rendezvous.hpp"

namespace orrery::test {

/// A port that no process uses now.
inline std::string free_port() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  socklen_t size = sizeof at;
  getsockname(s, reinterpret_cast<sockaddr*>(&at), &size);
  close(s);
  return std::to_string(ntohs(at.sin_port));
}

struct Outcome {
  Met met;
  std::string error;
};

/// Lets all ranks meet, each with its own view of the job.
inline std::vector<Outcome> all_meet(std::uint32_t processes, const std::string& place,
                                     const std::function<void(std::uint32_t, RendezvousOptions&)>& change = {}) {
  std::vector<Outcome> outcomes(processes);
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      RendezvousOptions options;
      options.rank = p;
      options.ranks = processes;
      options.place = MeetingPlace::of(place);
      options.job = "job 1";
      options.program = "orrery 1";
      options.limit = Seconds::of(20);
      options.host = 1;
      if (change) change(p, options);
      try {
        outcomes[p].met = meet(options);
      } catch (const Error& e) {
        outcomes[p].error = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return outcomes;
}

}  // namespace orrery::test
