#include "exec/comm/meeting_place.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "core/base/diagnostics.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {
namespace {

/// The file's first line. The job's name, an address and a port, and the token follow.
constexpr const char* first_line = "orrery meeting 2";

/// The address of the interface by which this host reaches others: that of the default route, or the first that is not
/// the loopback.
sockaddr_in interface_address() {
  sockaddr_in found{};
  found.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.1", &found.sin_addr);  // of no host (RFC 5737)
  if (const auto own = tcp::own_address_towards(found)) return *own;
  found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in at{};
    std::memcpy(&at, i->ifa_addr, sizeof at);
    if (tcp::is_loopback(at)) continue;
    found.sin_addr = at.sin_addr;
    break;
  }
  freeifaddrs(list);
  return found;
}

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

std::optional<sockaddr_in> address_of(const MeetingPlace& place, std::string& why) {
  if (!place.file.empty()) return interface_address();
  auto at = tcp::address_of(place.host, place.port);
  if (!at) {
    why = "no such host";
  } else if (at->sin_addr.s_addr == htonl(INADDR_ANY)) {
    why = "ranks cannot meet at the address 0.0.0.0";
    at.reset();
  } else if (tcp::is_loopback(*at) && place.host != "localhost" && !place.host.starts_with("127.")) {
    at->sin_addr = interface_address().sin_addr;
  }
  return at;
}

bool needs_token(const MeetingPlace& place) {
  std::string why;
  const auto at = place.file.empty() ? address_of(place, why) : std::nullopt;
  return at && !tcp::is_loopback(*at);
}

void write_meeting_file(const MeetingPlace& place, const std::string& job, const sockaddr_in& at,
                        const std::string& token) {
  const std::string text =
      fmt::format("{}\n{}\n{} {}\n{}\n", first_line, job, inet_ntoa(at.sin_addr), ntohs(at.sin_port), token);
  std::string fresh_name = place.file + ".XXXXXX";
  const int out = mkstemp(fresh_name.data());  // for this user alone
  bool good = out >= 0 && write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int failure = errno;
  if (out >= 0) close(out);
  if (good && std::rename(fresh_name.c_str(), place.file.c_str()) != 0) {
    good = false;
    failure = errno;
  }
  if (good) return;
  if (out >= 0) std::remove(fresh_name.c_str());
  throw Error(fmt::format("rank 0 cannot write {}: {}", place.file, std::strerror(failure)));
}

std::optional<FoundPlace> find_place(const MeetingPlace& place, const std::string& job, bool trusts_file,
                                     std::string& why) {
  if (place.file.empty()) {
    const auto at = address_of(place, why);
    return at ? std::optional(FoundPlace{*at, ""}) : std::nullopt;
  }
  const auto no = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  const Socket file(open(place.file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat is {};
  if (file.number() < 0 || fstat(file.number(), &is) != 0) return no("the file is not there");
  if (!S_ISREG(is.st_mode)) return no("it is not a file");
  std::string text(4096, '\0');  // which is more than it is ever long
  const ssize_t got = read(file.number(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::istringstream in(text);
  std::string kind, of_job, address, port;
  FoundPlace found;
  if (!(std::getline(in, kind) && std::getline(in, of_job))) return no("the file is not there");
  if (kind != first_line || of_job != job) return no("the file belongs to another job");
  if (trusts_file && (is.st_uid != geteuid() || (is.st_mode & 077) != 0)) {
    return no("other users have access to the file, so they may know its token");
  }
  in >> address >> port >> found.token;
  const auto at = tcp::address_of(address, port);
  if (!at) return no("the file names no address");
  found.at = *at;
  return found;
}

}  // namespace orrery
