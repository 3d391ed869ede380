#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// Reads the config.json of a Hugging Face model.
///
/// Model types gpt2, llama, bert, vit, and, without experts, deepseek_v2 and
/// deepseek_v3.  Both spellings of the rotary base are read
/// (rope_theta, and rope_parameters of newer files); absent keys take the
/// defaults of that model type.  The kind of scaling of rotary angles is kept
/// (ModelSpec::rope_scaling).  Keys that do not change the shape of training
/// (token ids, dtypes, cache flags) are skipped; keys that would change it in a
/// way this program does not know (another activation, experts) are refused.
///
/// The model's name is the last part of _name_or_path, else the folder of the
/// file, else the model type.
///
/// Codes: file.open  hf.syntax  hf.model-type  hf.missing-key  hf.type
/// hf.range  hf.unsupported, and those of check_model
[[nodiscard]] std::optional<ModelSpec> read_hf_config(const std::filesystem::path& file, Diagnostics& diagnostics);

/// The same from text; `file` is shown in messages, and its folder may give the model's name.
[[nodiscard]] std::optional<ModelSpec> parse_hf_config(std::string text, const std::filesystem::path& file,
                                                       Diagnostics& diagnostics);

}  // namespace orrery
