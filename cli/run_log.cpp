#include "cli/run_log.hpp"

#include <exception>

namespace orrery {

void RunLog::open(const std::optional<std::string>& path, bool begins) {
  path_ = path;
  if (path_ && begins) file_ = std::make_unique<LifecycleFile>(*path_);
}

void RunLog::leave_to_others() {
  path_.reset();
  file_.reset();
}

void RunLog::survived(const std::string& what) {
  if (file_) file_->hooks().failure({what});
}

void RunLog::failed(const std::string& what) noexcept {
  if (!path_) return;
  try {
    if (!file_) file_ = std::make_unique<LifecycleFile>(*path_, LifecycleFile::Mode::append);
    if (!file_->told_failure()) file_->hooks().failure({what});
  } catch (const std::exception&) {
    // The reason for the end of the run goes to standard error.
  }
}

}  // namespace orrery
