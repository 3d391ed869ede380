#include "cli/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/diagnostics.hpp"

extern char** environ;

namespace orrery {

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& out,
                           std::filesystem::path err)
    : err_(std::move(err)) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), flags, 0644);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err_.c_str(), flags, 0644);
  const int failure = posix_spawn(&process_, arguments.front(), &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) throw Error(command.front() + " does not start: " + std::strerror(failure));
}

ChildProcess::~ChildProcess() {
  if (status_) return;
  kill(process_, SIGKILL);
  static_cast<void>(wait());
}

std::optional<int> ChildProcess::status(int options) {
  if (status_) return status_;
  int state = 0;
  pid_t found = -1;
  do {
    found = waitpid(process_, &state, options);
  } while (found < 0 && errno == EINTR);
  if (found == process_) status_ = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  return status_;
}

std::optional<int> ChildProcess::ended() { return status(WNOHANG); }
int ChildProcess::wait() { return status(0).value_or(-1); }
void ChildProcess::signal(int number) const {
  if (!status_) kill(process_, number);
}

std::string ChildProcess::errors() const {
  std::ifstream in(err_);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace orrery
