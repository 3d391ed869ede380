#include "cli/run_log.hpp"

#include <exception>
#include <filesystem>
#include <fstream>

namespace orrery {
namespace {

/// Adds a newline to a file that does not end with one.
void end_last_line(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;  // a pipe cannot be looked at
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (in.tellg() <= 0) return;
  in.seekg(-1, std::ios::end);
  if (in.get() != '\n') std::ofstream(path, std::ios::binary | std::ios::app) << '\n';
}

}  // namespace

void RunLog::open(const std::optional<std::string>& path, bool begins) {
  path_ = path;
  if (path_ && begins) file_ = std::make_unique<LifecycleFile>(*path_);
}

void RunLog::leave_to_others() {
  path_.reset();
  file_.reset();
}

void RunLog::survived(const std::string& what) {
  if (!file_) return;
  end_last_line(*path_);
  file_->hooks().failure({what});
}

void RunLog::failed(const std::string& what) noexcept {
  if (!path_) return;
  try {
    if (!file_) file_ = std::make_unique<LifecycleFile>(*path_, LifecycleFile::Mode::append);
    if (file_->told_failure()) return;
    end_last_line(*path_);
    file_->hooks().failure({what});
  } catch (const std::exception&) {
    // The reason for the end of the run goes to standard error.
  }
}

}  // namespace orrery
