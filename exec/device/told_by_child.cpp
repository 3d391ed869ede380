#include "exec/device/told_by_child.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string told_by_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(std::string("cannot make a pipe: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (...) {
      _exit(1);
    }
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n < 0 && errno != EINTR) _exit(1);
      if (n > 0) at += static_cast<std::size_t>(n);
    }
    _exit(0);
  }
  const int failure = errno;
  close(ends[1]);
  std::string text;
  char part[1024];
  for (ssize_t n = 1; child > 0 && n != 0;) {
    n = read(ends[0], part, sizeof part);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (child < 0) throw Error(std::string("cannot start a process: ") + std::strerror(failure));
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0 || text.empty()) {
    throw Error("the child process ended without an answer" +
                (WIFSIGNALED(state) ? " (signal " + std::to_string(WTERMSIG(state)) + ")" : std::string()));
  }
  return text;
}

}  // namespace orrery
