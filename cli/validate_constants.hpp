#pragma once

#include "cli/common.hpp"
#include "core/spec/library.hpp"

namespace orrery {

/// Lists every constant of training software (models/software) with prior, value, error and the number of runs that it
/// was fitted to, and the held-out errors of each key. Returns the exit status.
int validate_constants(const CommonFlags&, const Library&);

}  // namespace orrery
