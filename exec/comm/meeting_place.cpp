#include "exec/comm/meeting_place.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/diagnostics.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {
namespace {

/// The file's first line; the job's name is the second, and then an address and a port on each.
constexpr const char* first_line = "orrery meeting 1";

}  // namespace

MeetingPlace MeetingPlace::of(const std::string& text) {
  MeetingPlace place;
  const std::size_t colon = text.rfind(':');
  const bool port = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                    text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (port) {
    place.host = text.substr(0, colon);
    place.port = text.substr(colon + 1);
  } else {
    place.file = text;
  }
  return place;
}

void write_meeting_file(const MeetingPlace& place, const std::string& job, std::uint32_t port) {
  std::ostringstream text;
  text << first_line << "\n" << job << "\n";
  ifaddrs* list = nullptr;
  std::string own;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
      sockaddr_in at{};
      std::memcpy(&at, i->ifa_addr, sizeof at);
      const std::string line = fmt::format("{} {}\n", inet_ntoa(at.sin_addr), port);
      if (tcp::is_loopback(at)) {
        own += line;
      } else {
        text << line;
      }
    }
    freeifaddrs(list);
  }
  text << own;
  const std::string fresh_name = place.file + ".new";
  std::ofstream out(fresh_name);
  out << text.str() << std::flush;
  if (!out || std::rename(fresh_name.c_str(), place.file.c_str()) != 0) {
    throw Error(fmt::format("rank 0 cannot write {}: {}", place.file, std::strerror(errno)));
  }
}

std::vector<sockaddr_in> addresses_at(const MeetingPlace& place, const std::string& job, std::string& why) {
  std::vector<sockaddr_in> all;
  if (place.file.empty()) {
    if (const auto at = tcp::address_of(place.host, place.port)) all.push_back(*at);
    if (all.empty()) why = "no such host";
    return all;
  }
  std::ifstream in(place.file);
  std::string kind, of_job, address, port;
  if (!(std::getline(in, kind) && std::getline(in, of_job))) {
    why = "the file is not there";
    return all;
  }
  if (kind != first_line || of_job != job) {
    why = "the file is of another job";
    return all;
  }
  while (in >> address >> port) {
    if (const auto at = tcp::address_of(address, port)) all.push_back(*at);
  }
  return all;
}

}  // namespace orrery
