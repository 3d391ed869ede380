#pragma once

#include "core/spec/hf/config.hpp"

/// Classes in `architectures` that have another head than the trained one, or none.
namespace orrery::hf {

/// Makes a model of such a class one that is only counted, and refuses classes whose heads are not known. Code:
/// hf.unsupported
void count_class(Config&, const Family&, ModelSpec&);

}  // namespace orrery::hf
