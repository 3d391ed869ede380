#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/program_run.hpp"

namespace orrery::test {

/// A program in a process group of its own, with a folder of its own for temporary files.
class SignalledRun {
 public:
  explicit SignalledRun(std::vector<std::string> words) {
    std::filesystem::create_directory(temporary());
    process_ = fork();
    if (process_ == 0) {
      setpgid(0, 0);
      setenv("TMPDIR", temporary().c_str(), 1);
      redirect(STDOUT_FILENO, folder_.file("out"));
      redirect(STDERR_FILENO, folder_.file("err"));
      std::vector<char*> arguments;
      for (std::string& w : words) arguments.push_back(w.data());
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    setpgid(process_, process_);
  }
  ~SignalledRun() {
    if (process_ > 0) kill(-process_, SIGKILL);
  }
  SignalledRun(const SignalledRun&) = delete;
  SignalledRun& operator=(const SignalledRun&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }
  /// Processes that it has started, in order.
  [[nodiscard]] std::vector<pid_t> children() const {
    std::ifstream in("/proc/" + std::to_string(process_) + "/task/" + std::to_string(process_) + "/children");
    std::vector<pid_t> all;
    for (pid_t child = 0; in >> child;) all.push_back(child);
    return all;
  }
  /// Whether it has ended; wait() tells how.
  [[nodiscard]] bool has_ended() const {
    siginfo_t ended{};
    return process_ <= 0 ||
           (waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0);
  }
  /// Returns the exit status, 128 + the signal that ended it, or -1 where it goes on for longer than that.
  int wait(std::chrono::seconds longest = std::chrono::seconds(30)) {
    int state = 0;
    if (!eventually([&] { return waitpid(process_, &state, WNOHANG) == process_; }, longest)) return -1;
    process_ = -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  }
  /// Number of names among its temporary files.
  [[nodiscard]] std::ptrdiff_t left_behind() const {
    const std::filesystem::directory_iterator all(temporary());
    return std::distance(begin(all), end(all));
  }
  [[nodiscard]] std::string out() const { return contents(folder_.file("out")); }
  [[nodiscard]] std::string err() const { return contents(folder_.file("err")); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

  /// Whether the condition becomes true within half a minute, or another time.
  static bool eventually(const std::function<bool()>& true_by_now,
                         std::chrono::seconds longest = std::chrono::seconds(30)) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!true_by_now()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

 private:
  [[nodiscard]] std::string temporary() const { return folder_.file("tmp"); }
  static void redirect(int number, const std::string& file) {
    const int to = open(file.c_str(), O_CREAT | O_WRONLY, 0600);
    dup2(to, number);
  }

  TemporaryFolder folder_;
  pid_t process_ = -1;
};

}  // namespace orrery::test
