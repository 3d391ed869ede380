#pragma once

namespace orrery {

/// The commit from which this program was built, "3f2a1c0d9e", with "-changed" where files differed from it; "unknown"
/// outside a repository. The build writes it (cmake/commit.cmake).
[[nodiscard]] const char* orrery_commit();

}  // namespace orrery
