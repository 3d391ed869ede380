#pragma once

#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "exec/comm/job_place.hpp"

namespace orrery {

/// Flags of `run` about the secret that the processes of a job share.
struct TokenFlags {
  std::optional<std::string> file;
  bool none = false;
};
void declare_token(Command&, TokenFlags&);

/// The token from --token-file, or from the variable ORRERY_TOKEN; empty with --no-token, and where nothing gives one.
/// Refuses a short token, and a file that others may read. The token is never on the command line, which every user of
/// a host sees.
[[nodiscard]] std::string token_of(const TokenFlags&, const Environment&);

/// Refuses a place that the network reaches when there is no token.
void require_token(const JobPlace&, const TokenFlags&, const std::string& token);

}  // namespace orrery
