#include "core/spec/hf/stranger.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/config.hpp"
#include "core/spec/hf/part.hpp"

namespace orrery::hf {
namespace {

using nlohmann::json;

constexpr std::array outer_keys{
    read("model_type", "null"),     read("architectures", "null"),       read("_name_or_path", "\"\""),
    read("text_config", "null"),    read("llm_config", "null"),          read("language_config", "null"),
    read("thinker_config", "null"), read("tie_word_embeddings", "null"),
};

/// Names that files give the object of their language model.
constexpr std::array objects{"text_config", "llm_config", "language_config", "thinker_config.text_config",
                             "thinker_config"};

ModelSpec refuse_whole(Config& c) {
  const json* type = c.find("model_type");
  c.error("model_type", "hf.model-type",
          fmt::format("model type {} is not supported", type == nullptr ? "" : shown(*type)),
          {fmt::format("The language model in its {} is read: --part language, or FILE#language in a plan file.",
                       c.family().language.key)});
  return {};
}

}  // namespace

const Family* stranger_around(const File& file) {
  static const std::vector<Family> rows = [] {
    std::vector<Family> out;
    for (const char* key : objects)
      out.push_back({"", {"Model"}, {outer_keys}, refuse_whole, {key, "", said_tie}, Family::Heads::unknown});
    return out;
  }();
  for (const Family& row : rows) {
    const json* inner = object_at(*file.object, row.language.key);
    if (inner == nullptr) continue;
    const auto type = inner->find("model_type");
    if (type != inner->end() && type->is_string() && family_of(type->get_ref<const std::string&>()) != nullptr)
      return &row;
  }
  return nullptr;
}

}  // namespace orrery::hf
