#pragma once

#include <string_view>

#include "core/spec/hf/config.hpp"
#include "core/spec/hf/file.hpp"

/// Classes in `architectures` that have another head than the trained one, or none.
namespace orrery::hf {

/// Makes a model of such a class one that is only counted, and refuses classes whose heads are not known. Code:
/// hf.unsupported
void count_class(Config&, const Family&, ModelSpec&);

/// The class that the type's base model, which the file names and which has no head, becomes with the head that is
/// trained: BertForMaskedLM of BertModel. Empty where the file names another class, or none.
[[nodiscard]] std::string_view class_with_head(const File&, const Family&);

}  // namespace orrery::hf
