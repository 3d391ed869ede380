#include "core/spec/hf_config.hpp"

#include <fmt/format.h>

#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/hf/classes.hpp"
#include "core/spec/hf/config.hpp"
#include "core/spec/hf/part.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

using hf::Config;
using hf::Family;

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

constexpr std::string_view with_head = "with-head";

/// Refuses a part that the file has not.
bool has_part(const hf::File& file, const Family& family, std::string_view part, Diagnostics& d) {
  const bool larger = !family.language.key.empty();
  const std::string_view trained = larger ? std::string_view() : hf::class_with_head(file, family);
  const bool tower = family.vision.read != nullptr;
  if (part == "language" ? larger : part == "vision" ? tower : part == with_head && !trained.empty()) return true;
  std::string has =
      larger ? "It has the part \"language\": the language model alone." : "It is a single model: leave the part out.";
  if (!trained.empty())
    has = fmt::format("It has the part \"{}\": the base model with the head of {}.", with_head, trained);
  if (tower) has = fmt::format("It has the part \"vision\": the tower of images of {} alone.", family.vision.of);
  d.error(file.origin, "model_type", "hf.part",
          fmt::format("model type {} has no part \"{}\"", family.type, escaped(part)), {has});
  return false;
}

}  // namespace

std::optional<ModelSpec> parse_hf_config(std::string text, const std::filesystem::path& file, Diagnostics& diagnostics,
                                         std::string_view part) {
  const std::size_t before = diagnostics.size();
  std::optional<hf::File> opened = hf::open_file(std::move(text), file.string(), diagnostics);
  const Family* family = opened ? hf::family_of(*opened, diagnostics) : nullptr;
  if (family == nullptr) return std::nullopt;
  static_cast<void>(hf::sort_keys(*opened, *family, diagnostics));  // unread_keys() lists the unknown ones
  if (!part.empty() && !has_part(*opened, *family, part, diagnostics)) return std::nullopt;
  ModelSpec model;
  Origin& origin = opened->origin;
  {
    Config config(*opened->object, *family, origin, diagnostics);
    if (!family->language.key.empty()) {
      model = hf::read_language(*opened, *family, diagnostics);
      if (diagnostics.size() != before) return std::nullopt;
      for (const auto& [key, at] : model.origin.positions) {
        if (key.starts_with("model.")) origin.positions.emplace(key, at);
      }
      config.set_language(model);
    }
    if (part.empty()) {
      model = family->read(config);
      model.source = fmt::format("Hugging Face configuration, model type {}", family->type);
      hf::count_class(config, *family, model);
    } else if (part == with_head) {
      model = family->read(config);
      model.source = fmt::format("Hugging Face configuration, model type {}, with the head of {}", family->type,
                                 hf::class_with_head(*opened, *family));
    } else if (part == "vision") {
      model = family->vision.read(config);
      model.source = fmt::format("Hugging Face configuration, model type {}, tower of images of {}", family->type,
                                 family->vision.of);
    } else {
      origin.positions.emplace(hf::language_mark, Position{});
    }
    model.name = name_from(config, file, family->type);
    if (!part.empty()) model.name = fmt::format("{}-{}", model.name.substr(0, 190), part);
  }
  if (diagnostics.size() != before) return std::nullopt;
  hf::place_rules(*family, origin);
  model.origin = std::move(origin);
  if (!check_model(model, diagnostics)) return std::nullopt;
  return model;
}

std::optional<ModelSpec> read_hf_config(const std::filesystem::path& file, Diagnostics& diagnostics,
                                        std::string_view part) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_hf_config(std::move(*text), file, diagnostics, part);
}

std::vector<std::string> unread_keys(const ModelSpec& model) {
  if (!looks_like_hf_config(model.origin.text)) return {};
  Diagnostics told;  // when the model was read
  std::optional<hf::File> file = hf::open_file(model.origin.text, model.origin.file, told);
  const Family* family = file ? hf::family_of(*file, told) : nullptr;
  if (family == nullptr) return {};
  std::vector<std::string> keys = hf::sort_keys(*file, *family, told);
  if (model.origin.positions.contains(hf::language_mark)) keys.clear();
  if (family->language.key.empty()) return keys;
  const std::vector<std::string> inner = hf::unread_in_language(*file, *family);
  keys.insert(keys.end(), inner.begin(), inner.end());
  return keys;
}

bool looks_like_hf_config(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace orrery
