#include <simgrid/s4u.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

#include "tests/support/net/traffic.hpp"

namespace orrery::test {
namespace {

namespace sg = simgrid::s4u;

sg::LinkInRoute link_of(sg::NetZone* zone, const std::string& name, double bandwidth, double latency) {
  return sg::LinkInRoute(zone->create_link(name, bandwidth)->set_latency(latency)->seal());
}

std::vector<sg::Host*> build(const Tree& tree) {
  std::vector<sg::Host*> hosts;
  sg::NetZone* core = sg::create_star_zone("core");
  for (std::uint32_t leaf = 0; leaf * tree.per_leaf < tree.hosts; ++leaf) {
    const std::string leaf_number = std::to_string(leaf);
    sg::NetZone* zone = sg::create_star_zone("leaf" + leaf_number);
    zone->set_parent(core);
    auto* router = zone->create_router("router" + leaf_number);
    for (std::uint32_t i = 0; i < tree.per_leaf; ++i) {
      const std::string number = std::to_string(hosts.size());
      hosts.push_back(zone->create_host("host" + number, 1e9));
      auto* point = hosts.back()->get_netpoint();
      zone->add_route(point, nullptr, nullptr, nullptr,
                      {link_of(zone, "up" + number, tree.host_bandwidth, tree.latency / 2)}, false);
      zone->add_route(nullptr, point, nullptr, nullptr,
                      {link_of(zone, "down" + number, tree.host_bandwidth, tree.latency / 2)}, false);
    }
    zone->seal();
    core->add_route(zone->get_netpoint(), nullptr, router, nullptr,
                    {link_of(core, "trunk_up" + leaf_number, tree.trunk_bandwidth, 0.0)}, false);
    core->add_route(nullptr, zone->get_netpoint(), nullptr, router,
                    {link_of(core, "trunk_down" + leaf_number, tree.trunk_bandwidth, 0.0)}, false);
  }
  core->seal();
  return hosts;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

Times simulate(const Tree& tree, const Traffic& traffic, SimgridUpdate update, double& seconds) {
  std::array<std::string, 11> arguments = {
      "simgrid",
      "--cfg=network/model:CM02",
      "--cfg=network/crosstraffic:0",
      "--cfg=network/TCP-gamma:0",
      "--cfg=network/bandwidth-factor:1",
      "--cfg=network/latency-factor:1",
      "--cfg=contexts/stack-size:64",
      update == SimgridUpdate::full ? "--cfg=network/optim:Full" : "--cfg=network/optim:Lazy",
      "--cfg=surf/precision:1e-12",
      "--cfg=maxmin/precision:1e-9",
      "--log=root.threshold:error"};
  std::array<char*, 12> argv{};
  for (std::size_t i = 0; i < arguments.size(); ++i) argv[i] = arguments[i].data();
  int argc = static_cast<int>(arguments.size());
  sg::Engine engine(&argc, argv.data());
  const std::vector<sg::Host*> hosts = build(tree);
  std::vector<sg::Mailbox*> mailboxes;
  for (std::size_t p = 0; p < traffic.size(); ++p) mailboxes.push_back(sg::Mailbox::by_name(std::to_string(p)));
  Times times(traffic.size());
  int token = 0;
  for (std::size_t p = 0; p < traffic.size(); ++p) {
    if (traffic[p].at_once) {
      times[p].resize(traffic[p].sends.size());
      for (std::size_t k = 0; k < traffic[p].sends.size(); ++k) {
        sg::Actor::create("message", hosts[traffic[p].host], [&, p, k] {
          const Process::Send& s = traffic[p].sends[k];
          sg::Comm::sendto(hosts[traffic[p].host], hosts[traffic[s.to].host], static_cast<std::uint64_t>(s.bytes));
          times[p][k] = sg::Engine::get_clock();
        });
      }
      continue;
    }
    sg::Actor::create("process", hosts[traffic[p].host], [&, p] {
      for (const Process::Send& s : traffic[p].sends) {
        const auto bytes = static_cast<std::uint64_t>(s.bytes);
        if (traffic[p].lockstep) {
          const sg::CommPtr comm = mailboxes[s.to]->put_async(&token, bytes);
          mailboxes[p]->get<int>();
          comm->wait();
        } else {
          sg::Comm::sendto(hosts[traffic[p].host], hosts[traffic[s.to].host], bytes);
        }
        times[p].push_back(sg::Engine::get_clock());
      }
    });
  }
  const double before = cpu_seconds();
  engine.run();
  seconds = cpu_seconds() - before;
  return times;
}

void write_all(int file, const void* data, std::size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = write(file, at, bytes);
    if (n <= 0) _exit(3);
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void read_all(int file, void* data, std::size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t n = read(file, at, bytes);
    if (n <= 0) throw std::runtime_error("SimGrid's process ended early");
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

}  // namespace

/// SimGrid allows only one engine per process.
std::optional<Times> run_simgrid(const Tree& tree, const Traffic& traffic, SimgridUpdate update, double* seconds) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    double took = 0.0;
    const Times times = simulate(tree, traffic, update, took);
    write_all(pipe_ends[1], &took, sizeof took);
    for (const auto& row : times) write_all(pipe_ends[1], row.data(), row.size() * sizeof(double));
    _exit(0);
  }
  close(pipe_ends[1]);
  double took = 0.0;
  read_all(pipe_ends[0], &took, sizeof took);
  Times times(traffic.size());
  for (std::size_t p = 0; p < traffic.size(); ++p) {
    times[p].resize(traffic[p].sends.size());
    read_all(pipe_ends[0], times[p].data(), times[p].size() * sizeof(double));
  }
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (seconds != nullptr) *seconds = took;
  return times;
}

}  // namespace orrery::test
