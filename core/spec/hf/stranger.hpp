#pragma once

#include "core/spec/hf/file.hpp"

/// Models of a type that nobody here knows, around a language model of a type that is read. The language model can be
/// planned (`--part language`); the whole is refused, and the message says so.
namespace orrery::hf {

/// A row that reads the language model inside the file; null where the file has none of a known type.
[[nodiscard]] const Family* stranger_around(const File&);

}  // namespace orrery::hf
