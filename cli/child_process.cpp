#include "cli/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// Makes `file` the stream `as`. A child may call this: it asks for no memory.
bool redirected(const char* file, int flags, int as) {
  const int opened = open(file, flags, 0644);
  if (opened < 0 || opened == as) return opened == as;
  const bool done = dup2(opened, as) == as;
  close(opened);
  return done;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& out,
                           std::filesystem::path err)
    : err_(std::move(err)) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // The child writes into this pipe why it does not start; the start itself closes it.
  int told[2];
  if (pipe2(told, O_CLOEXEC) != 0) throw Error(command.front() + " does not start: " + std::strerror(errno));
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    // It does not outlive this program, however that ends.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (getppid() == parent && redirected("/dev/null", O_RDONLY, STDIN_FILENO) &&
        redirected(out.c_str(), flags, STDOUT_FILENO) && redirected(err_.c_str(), flags, STDERR_FILENO)) {
      execv(arguments.front(), arguments.data());
    }
    const int failure = errno;
    static_cast<void>(!write(told[1], &failure, sizeof failure));
    _exit(127);
  }
  int failure = process_ < 0 ? errno : 0;
  close(told[1]);
  if (process_ > 0) {
    ssize_t got = 0;
    do {
      got = read(told[0], &failure, sizeof failure);
    } while (got < 0 && errno == EINTR);
    if (got > 0) static_cast<void>(wait());
  }
  close(told[0]);
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
  // Somebody else has waited for it, or nobody can: it has ended, and how is not known.
  if (found < 0) status_ = -1;
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
