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
  /// Reads "host:port", or else the name of a file.
  [[nodiscard]] static MeetingPlace of(const std::string& text);
  /// The text that it was made of.
  [[nodiscard]] std::string text() const { return file.empty() ? host + ":" + port : file; }
};

/// The only address at which rank 0 listens. It is that of the host, or with a file that of the interface by which this
/// host reaches others, with any port. A host that knows its own name as 127.0.1.1, where no other host reaches it,
/// also gets the address of that interface. Empty, with the reason in `why`, where there is none.
[[nodiscard]] std::optional<sockaddr_in> address_of(const MeetingPlace&, std::string& why);

/// Whether strangers on the network could come there without a token. They cannot with a file, which carries a token,
/// or on the loopback interface.
[[nodiscard]] bool needs_token(const MeetingPlace&);

/// Rank 0 writes the address at which it listens, and the token, which may be empty. Only this user may read the file,
/// and it appears whole or not at all. Throws Error.
void write_meeting_file(const MeetingPlace&, const std::string& job, const sockaddr_in& at, const std::string& token);

/// Where to find rank 0 of the job, as far as is known now.
struct FoundPlace {
  sockaddr_in at{};
  std::string token;  ///< that stands in the file
};
/// Empty, with the reason in `why`, where nothing is known. With `trusts_file` a file's token is relied on, so nobody
/// but this user may have been able to write or read the file.
[[nodiscard]] std::optional<FoundPlace> find_place(const MeetingPlace&, const std::string& job, bool trusts_file,
                                                   std::string& why);

}  // namespace orrery
