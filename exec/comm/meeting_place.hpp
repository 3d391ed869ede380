#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

/// Where processes that others have started find each other.
struct MeetingPlace {
  std::string host, port;  ///< of rank 0; empty with a file
  std::string file;        ///< in which rank 0 writes where it listens
  /// "host:port", or else a file's name.
  [[nodiscard]] static MeetingPlace of(const std::string& text);
  /// The text that it was made of.
  [[nodiscard]] std::string text() const { return file.empty() ? host + ":" + port : file; }
};

/// Rank 0 writes where it listens: all addresses of this host, those of the
/// network first.  The file appears whole or not at all.  Throws Error.
void write_meeting_file(const MeetingPlace&, const std::string& job, std::uint32_t port);

/// Where rank 0 of the job may be, as far as is known now; none, and `why`, where nothing is.
[[nodiscard]] std::vector<sockaddr_in> addresses_at(const MeetingPlace&, const std::string& job, std::string& why);

}  // namespace orrery
