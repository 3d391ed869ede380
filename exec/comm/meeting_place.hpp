#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

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

/// The address at which rank 0 listens, and no other: that of the host, or with a file that of the interface by which
/// this host reaches others, with any port.  A host that knows its own name as 127.0.1.1, where no other reaches it, is
/// taken at that interface, too.  Nothing, and `why`, where there is none.
[[nodiscard]] std::optional<sockaddr_in> address_of(const MeetingPlace&, std::string& why);

/// Whether strangers on the network could come there who have no token: neither with a file, which carries one, nor on
/// the loopback interface.
[[nodiscard]] bool needs_token(const MeetingPlace&);

/// Rank 0 writes where it listens, and the token, which may be empty.  Only this user may read the file, and it appears
/// whole or not at all.  Throws Error.
void write_meeting_file(const MeetingPlace&, const std::string& job, const sockaddr_in& at, const std::string& token);

/// Where rank 0 of the job is to be found, as far as is known now.
struct FoundPlace {
  sockaddr_in at{};
  std::string token;  ///< that stands in the file
};
/// Nothing, and `why`, where nothing is.  With `trusts_file` a file's token is to be relied on, so that others than
/// this user may have neither written nor read it.
[[nodiscard]] std::optional<FoundPlace> find_place(const MeetingPlace&, const std::string& job, bool trusts_file,
                                                   std::string& why);

}  // namespace orrery
