#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace orrery::test {

/// The output of a program on a terminal of its own.
struct Shown {
  int status = -1;  ///< 128 + the signal that ended it
  std::string text;
  double seconds = 0.0;
};

/// Runs a program on a terminal of `columns`.  Where `cue` is not empty, Ctrl-C
/// is pressed once, as soon as the cue has been shown.
inline Shown run_on_terminal(std::vector<std::string> words, const std::string& cue = "",
                             unsigned short columns = 120) {
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  winsize size{};
  size.ws_col = columns;
  size.ws_row = 24;
  int terminal = -1;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  Shown shown;
  bool pressed = cue.empty();
  char piece[4096];
  for (ssize_t n = 0; (n = read(terminal, piece, sizeof piece)) > 0;) {
    shown.text.append(piece, static_cast<std::size_t>(n));
    if (!pressed && shown.text.find(cue) != std::string::npos) {
      kill(child, SIGINT);
      pressed = true;
    }
  }
  int state = 0;
  waitpid(child, &state, 0);
  close(terminal);
  shown.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  shown.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return shown;
}

}  // namespace orrery::test
