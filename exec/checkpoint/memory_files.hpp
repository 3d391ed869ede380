#pragma once

#include <memory>

#include "exec/checkpoint/files.hpp"

namespace orrery {

/// Files in memory: the state of a run on its way from one plan to another, which no disk has to see.
[[nodiscard]] std::unique_ptr<FileSystem> memory_files();

}  // namespace orrery
