#pragma once

#include <string_view>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// Reads the keys of [model] that say what layers are made of (layer_kinds.hpp), with [model.local]. Keys that are left
/// out keep the values of the spec. Codes: those of TomlTable, model.biases
void read_layer_kinds(TomlTable&, ModelSpec&);
/// Writes the keys of [model] that differ from the usual.
void write_layer_kinds(TomlWriter&, const ModelSpec&);
/// Writes [model.local], where the model has local layers.
void write_local_attention(TomlWriter&, const ModelSpec&);

/// Adds the mistakes in these keys; whether there are none. Codes: model.layer-kinds  model.range  model.positions
[[nodiscard]] bool check_layer_kinds(const ModelSpec&, Diagnostics&);

}  // namespace orrery
