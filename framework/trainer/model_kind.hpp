#pragma once

#include <string>
#include <string_view>

namespace orrery {

/// What a published model is that plans do not have, by words of its name: "Qwen/Qwen2.5-VL-7B" is a model of images
/// and text. Empty where the name says nothing of the kind.
[[nodiscard]] std::string_view model_beyond_plans(const std::string& name);

}  // namespace orrery
