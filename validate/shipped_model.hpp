#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// The model among `known` that a text names, in the spelling of `known`; empty where it names none of them.
///
/// Case, dots, dashes and underscores do not matter. Neither do an owner before a slash, "Meta", and the purpose of a
/// tuned model behind its name ("Instruct", "chat", "hf"): "meta-llama/Meta-Llama-3-8B-Instruct" and "LLAMA3_8B" are
/// llama-3-8b. Numbers and letters must be the same ones in the same order, except for the common names of some
/// (DeepSeek-R1 has V3's shape). Remarks that change no shape may stand in brackets: "DeepSeekV3 (tokendrop)".
[[nodiscard]] std::string shipped_model_named(std::string_view text, const std::vector<std::string>& known);

}  // namespace orrery
