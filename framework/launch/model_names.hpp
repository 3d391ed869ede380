#pragma once

#include <optional>
#include <string>

#include "core/spec/library.hpp"

namespace orrery {

/// The shipped model that a name of a hub means ("NousResearch/Meta-Llama-3-8B-Instruct" is llama-3-8b). The
/// organisation, the case, the maker's word in front ("Meta-") and words at the end that change weights but no shape
/// ("-Instruct", "-hf") do not count; a list of other names with the same shape and vocabulary counts too
/// ("Qwen2-7B" is qwen2.5-7b). Empty where none is meant.
[[nodiscard]] std::optional<std::string> shipped_model_of(const std::string& name, const Library&);

}  // namespace orrery
