#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace orrery::test {

/// The results of a run of the built program.
struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

/// A folder of its own for one test, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/orrery-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void write(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

/// Limits of `orrery plan` under which a search takes little time, for tests that only need a plan.
inline const std::string short_search =
    "--only \"tensor=1d zero=0,1 schedule=1f1b context=off replica=off offload=off loss_chunks=1\" ";

/// Runs `program arguments` in a shell, with a home of its own, so that it finds no calibration of this machine.
inline Ran run(const std::string& program, const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command = "XDG_DATA_HOME=" + folder.file("home") + " " + program + " " + arguments + " >" +
                              folder.file("out") + " 2>" + folder.file("err");
  const int state = std::system(command.c_str());
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, contents(folder.file("out")), contents(folder.file("err"))};
}

}  // namespace orrery::test
