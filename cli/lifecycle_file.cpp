#include "cli/lifecycle_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {

LifecycleFile::LifecycleFile(std::string path, Mode mode)
    : path_(std::move(path)),
      file_(
          open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (mode == Mode::create ? O_TRUNC : 0), 0666)),
      hooks_(lifecycle_log([this](const std::string& line) { write(line); })) {
  if (file_ < 0) throw Error("cannot write " + path_ + ": " + std::strerror(errno));
}

LifecycleFile::~LifecycleFile() {
  if (file_ >= 0) close(file_);
}

void LifecycleFile::write(const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(file_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("cannot write " + path_ + ": " + std::strerror(errno));
    at += static_cast<std::size_t>(n);
  }
  told_failure_ = told_failure_ || line.rfind(R"({"event":"failure")", 0) == 0;
}

}  // namespace orrery
