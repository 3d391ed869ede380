#include "cli/job_token.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "cli/common.hpp"
#include "core/base/source_excerpt.hpp"
#include "exec/comm/meeting_place.hpp"

namespace orrery {
namespace {

constexpr std::size_t least_characters = 16, most_characters = 4096;
constexpr const char* code = "cli.token";
constexpr const char* how_made = "One is made by: head -c 32 /dev/urandom | sha256sum | cut -c 1-64";

std::string without_blanks_around(const std::string& text) {
  constexpr const char* blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

std::string read_token(const std::string& file) {
  struct stat is {};
  std::ifstream in(file);
  if (!in || stat(file.c_str(), &is) != 0 || S_ISDIR(is.st_mode)) {
    refuse(code, fmt::format("--token-file: {} cannot be read", escaped(file)));
  }
  if ((is.st_mode & 077) != 0) {
    refuse(code,
           fmt::format("--token-file: other users have access to {} (mode {:04o})", escaped(file), is.st_mode & 0777U),
           {"chmod 600 makes it yours alone."});
  }
  std::string text(most_characters + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

void declare_token(Command& c, TokenFlags& flags) {
  c.option("--token-file", flags.file,
           "a file with the job's token, which keeps strangers out; else the variable ORRERY_TOKEN has it");
  c.flag("--no-token", flags.none, "let ranks of several hosts meet without a token, on a network that is trusted");
}

std::string token_of(const TokenFlags& flags, const Environment& environment) {
  if (flags.none && flags.file) refuse(code, "--no-token and --token-file contradict each other");
  if (flags.none) return "";
  const auto variable = environment("ORRERY_TOKEN");
  if (!flags.file && !variable) return "";
  const std::string token = without_blanks_around(flags.file ? read_token(*flags.file) : *variable);
  const std::string where = flags.file ? "in " + escaped(*flags.file) : "in the variable ORRERY_TOKEN";
  if (token.size() < least_characters || token.size() > most_characters) {
    refuse(code,
           fmt::format("the token {} has {} characters{}; it needs {} to {}", where, token.size(),
                       token.size() > most_characters ? " or more" : "", least_characters, most_characters),
           {how_made});
  }
  return token;
}

void require_token(const JobPlace& job, const TokenFlags& flags, const std::string& token) {
  if (!token.empty() || flags.none || job.ranks == 1 || !needs_token(MeetingPlace::of(job.meeting))) return;
  refuse(
      code, fmt::format("ranks that meet at {} need a token, so that no stranger joins them", escaped(job.meeting)),
      {"Give all of them the same token, in the variable ORRERY_TOKEN or by --token-file FILE.", how_made,
       "--rendezvous FILE, in a folder that all hosts see, needs no token; with --no-token ranks meet without one."});
}

}  // namespace orrery
