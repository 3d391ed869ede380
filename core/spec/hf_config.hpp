#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// Reads the config.json of a Hugging Face model of one of the types in
/// hf/families.hpp. `part` is "language" for the language model alone inside a larger one, "vision" for the tower of
/// images alone beside one of text, "with-head" for a base model (BertModel) with the head that its type is trained
/// with, and empty for the whole.
///
/// Every key of the file is one of four things. It is read; or it is refused, because it asks for a model that this
/// program does not have; or it is known to change nothing (token ids, dtypes, cache flags); or nobody here knows it,
/// and unread_keys() lists it. An unknown key beside a known one is taken for a misspelling and refused. Absent keys
/// get the defaults of the library's class for that type. `architectures`, where the file has it, names the class
/// whose head is trained here. Models of some other classes are counted, but not priced.
///
/// rope_scaling with rope_theta is read like rope_parameters of newer files; the kind of scaling is kept
/// (ModelSpec::rope_scaling). NaN and Infinity are read as Python writes them, and each key's rule judges them.
///
/// The model's name is the last part of _name_or_path, else the folder of the
/// file, else the model type.
///
/// Codes: file.open  hf.syntax  hf.model-type  hf.missing-key  hf.type
/// hf.range  hf.unsupported  hf.unknown-key  hf.part, and those of check_model
[[nodiscard]] std::optional<ModelSpec> read_hf_config(const std::filesystem::path& file, Diagnostics& diagnostics,
                                                      std::string_view part = {});

/// The same from text; `file` is shown in messages, and its folder may give the model's name.
[[nodiscard]] std::optional<ModelSpec> parse_hf_config(std::string text, const std::filesystem::path& file,
                                                       Diagnostics& diagnostics, std::string_view part = {});

/// Keys that nothing here knows, in the config.json that a model was read from, in the file's order; none for models
/// from other files.
[[nodiscard]] std::vector<std::string> unread_keys(const ModelSpec&);

/// Whether a text is a config.json rather than a .toml file: it begins with a brace.
[[nodiscard]] bool looks_like_hf_config(std::string_view text);

}  // namespace orrery
