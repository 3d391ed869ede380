#pragma once

#include <string>

#include "core/spec/library.hpp"

namespace orrery::test {

/// The models, clusters and devices that the project ships.
inline Library shipped_library() { return Library(std::string(ORRERY_SOURCE_DIR) + "/models"); }

/// A shipped model by name.  Throws where there is none: a test that names it is wrong then.
inline ModelSpec shipped_model(const char* name) {
  Diagnostics d;
  return shipped_library().model(name, ".", d).value();
}

}  // namespace orrery::test
