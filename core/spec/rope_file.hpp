#pragma once

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// [model.rope]
void read_rope_stretch(TomlTable, RopeStretch&);
void write_rope_stretch(TomlWriter&, const ModelSpec&);
/// Adds the mistakes in these numbers; whether there are none. Code: model.rope
[[nodiscard]] bool check_rope_stretch(const ModelSpec&, Diagnostics&);

}  // namespace orrery
