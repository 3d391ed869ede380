#pragma once

#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "exec/comm/job_place.hpp"

namespace orrery {

/// What `run` is told about the secret that the processes of a job share.
struct TokenFlags {
  std::optional<std::string> file;
  bool none = false;
};
void declare_token(Command&, TokenFlags&);

/// From --token-file, else from the variable ORRERY_TOKEN; empty with --no-token, and where nothing says one.  Refuses
/// one that is short, and a file that others may read.  Never on the command line, which every user of a host sees.
[[nodiscard]] std::string token_of(const TokenFlags&, const Environment&);

/// Refuses a place where the network leads, and no token.
void require_token(const JobPlace&, const TokenFlags&, const std::string& token);

}  // namespace orrery
