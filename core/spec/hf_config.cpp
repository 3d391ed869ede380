#include "core/spec/hf_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/hf/config.hpp"
#include "core/spec/hf/file.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

using hf::Config;
using hf::Family;
using nlohmann::json;

/// The last folder of a path that names one, empty otherwise ("", ".", "..", "/").
std::string last_folder(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const std::string name = path.substr(path.find_last_of('/') + 1);
  return name == "." || name == ".." ? "" : name;
}

/// The name that the file states, otherwise its folder, otherwise the type of the model.
std::string name_from(Config& c, const std::filesystem::path& file, std::string_view type) {
  std::string name = last_folder(c.text("_name_or_path"));
  std::error_code failure;
  if (name.empty())
    name =
        last_folder(std::filesystem::weakly_canonical(std::filesystem::absolute(file), failure).parent_path().string());
  if (name.empty()) name = type;
  return name.substr(0, 200);
}

/// Refuses classes that have another head than the trained one, or none.
void check_classes(Config& c, const Family& family) {
  const json* classes = c.find("architectures");
  if (classes == nullptr) return;
  const bool names = classes->is_array() &&
                     std::all_of(classes->begin(), classes->end(), [](const json& name) { return name.is_string(); });
  if (!names) {
    c.error("architectures", "hf.type", "architectures is not a list of names");
    return;
  }
  for (const json& item : *classes) {
    const auto& name = item.get_ref<const std::string&>();
    if (std::find(family.classes.begin(), family.classes.end(), name) != family.classes.end()) continue;
    c.error("architectures", "hf.unsupported", fmt::format("the class {} is not supported", escaped(name)),
            {fmt::format("Supported: {}. Others have another head, or none.", family.classes.front()),
             "A file without architectures is read as the supported class."});
  }
}

/// Positions of our keys, which check_model speaks of, point at the file's keys.
void place_rules(const Family& family, Origin& origin) {
  for (const hf::Keys& keys : family.tables) {
    for (const hf::Key& key : keys) {
      const auto at = origin.positions.find(std::string(key.name));
      if (key.use != hf::Use::read || key.about.empty() || at == origin.positions.end()) continue;
      origin.positions.emplace("model." + std::string(key.about), at->second);
    }
  }
}

}  // namespace

std::optional<ModelSpec> parse_hf_config(std::string text, const std::filesystem::path& file,
                                         Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<hf::File> opened = hf::open_file(std::move(text), file.string(), diagnostics);
  const Family* family = opened ? hf::family_of(*opened, diagnostics) : nullptr;
  if (family == nullptr) return std::nullopt;
  static_cast<void>(hf::sort_keys(*opened, *family, diagnostics));  // unread_keys() lists the unknown ones
  ModelSpec model;
  {
    Config config(*opened->object, *family, opened->origin, diagnostics);
    check_classes(config, *family);
    model = family->read(config);
    model.name = name_from(config, file, family->type);
  }
  model.source = fmt::format("Hugging Face configuration, model type {}", family->type);
  if (diagnostics.size() != before) return std::nullopt;
  place_rules(*family, opened->origin);
  model.origin = std::move(opened->origin);
  if (!check_model(model, diagnostics)) return std::nullopt;
  return model;
}

std::optional<ModelSpec> read_hf_config(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_hf_config(std::move(*text), file, diagnostics);
}

std::vector<std::string> unread_keys(const ModelSpec& model) {
  if (!looks_like_hf_config(model.origin.text)) return {};
  Diagnostics told;  // when the model was read
  std::optional<hf::File> file = hf::open_file(model.origin.text, model.origin.file, told);
  const Family* family = file ? hf::family_of(*file, told) : nullptr;
  return family == nullptr ? std::vector<std::string>{} : hf::sort_keys(*file, *family, told);
}

bool looks_like_hf_config(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace orrery
