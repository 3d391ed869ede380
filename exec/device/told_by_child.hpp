#pragma once

#include <functional>
#include <string>

namespace orrery {

/// The result of `work` in a separate process, which is a copy of this one, so that nothing that it begins stays here.
/// Throws Error where that process ends without an answer, also after an exception of `work`. Signals do not disturb
/// it.
[[nodiscard]] std::string told_by_child(const std::function<std::string()>& work);

}  // namespace orrery
