#include "core/spec/hf/classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"

namespace orrery::hf {
namespace {

using nlohmann::json;

/// The name that a type's classes begin with, which is the trained class without its ending: "Llama".
std::string_view prefix_of(std::string_view trained) {
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForImageClassification",
                                     "ForConditionalGeneration", "ModelWithProjection"}) {
    if (trained.ends_with(end)) return trained.substr(0, trained.size() - end.size());
  }
  return {};
}

/// Parameters of the trained head, which a model without it lacks.
std::uint64_t head_of(const Config& c, const ModelSpec& m) {
  if (c.head()) return *c.head();
  const std::uint64_t table = m.vocabulary * m.hidden;
  switch (m.architecture) {
    case Architecture::decoder: return (m.tied_embeddings ? 0 : table) + (m.biases.head ? m.vocabulary : 0);
    case Architecture::bert: return m.hidden * m.hidden + 3 * m.hidden + m.vocabulary;
    case Architecture::vit: {
      const Image image = m.image.value_or(Image{});
      const std::uint64_t tables = (sees_class_token(image) ? 1 : 0) + (sees_mean(image) ? 1 : 0);
      return tables * table + (image.head_bias ? m.vocabulary : 0);
    }
  }
  return 0;
}

/// As the library takes them: by name, else the number, else two.
std::uint64_t labels(const Config& c) {
  const json* names = c.given("id2label");
  if (names != nullptr && names->is_object() && !names->empty()) return names->size();
  const json* number = c.given("num_labels");
  return number != nullptr && number->is_number_unsigned() ? number->get<std::uint64_t>() : 2;
}

/// Parameters of what the class has in the head's place; empty where that is not known.
///
///     pooler, or a classifier's first product                h^2 + h
///     classifier of sequences: decoders                      h C
///     classifier of sequences: encoders; of tokens           h C + C
///     ends of an answer, or whether sentences follow each other   2 h + 2
///
/// h hidden, C classes.
std::optional<std::uint64_t> in_place(const Config& c, const Family& f, std::string_view ending, std::uint64_t h,
                                      std::uint64_t head) {
  using Heads = Family::Heads;
  if (f.heads == Heads::unknown) return std::nullopt;
  const std::uint64_t square = h * h + h;
  const bool pools = f.heads != Heads::decoder && f.heads != Heads::dense && f.heads != Heads::nothing;
  if (ending == "Model") return pools ? square : 0;
  if (f.heads == Heads::pooler_alone || f.heads == Heads::nothing) return std::nullopt;
  if (ending == "ForPreTraining" && f.heads == Heads::pooler) return head + square + 2 * h + 2;
  if (ending == "ForTokenClassification") return (h + 1) * labels(c);
  if (ending == "ForQuestionAnswering") return 2 * h + 2;
  if (ending != "ForSequenceClassification") return std::nullopt;
  return f.heads == Heads::decoder ? h * labels(c) : square + (h + 1) * labels(c);
}

}  // namespace

std::string_view class_with_head(const File& file, const Family& family) {
  const auto classes = file.object->find("architectures");
  if (classes == file.object->end() || !classes->is_array() || classes->size() != 1) return {};
  const json& name = classes->front();
  const std::string_view trained = family.classes.empty() ? std::string_view() : family.classes.front();
  const std::string_view prefix = prefix_of(trained);
  const bool base = name.is_string() && name.get_ref<const std::string&>() == std::string(prefix) + "Model";
  return base && !prefix.empty() && family.heads != Family::Heads::unknown ? trained : std::string_view();
}

void count_class(Config& c, const Family& family, ModelSpec& m) {
  if (family.type.empty()) return;  // of a type that is not known
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
    const std::string_view prefix = prefix_of(family.classes.front());
    const bool own = !prefix.empty() && name.starts_with(prefix);
    const std::optional<std::uint64_t> other =
        own && c.good() ? in_place(c, family, std::string_view(name).substr(prefix.size()), m.hidden, head_of(c, m))
                        : std::nullopt;
    if (other) {
      const std::uint64_t less = head_of(c, m), active = active_parameter_count(m);
      const std::uint64_t all = parameter_count(m) + (m.image && m.image->mask_token && !m.counted ? m.hidden : 0);
      const bool bare = family.language.key.empty() && name == std::string(prefix) + "Model" && classes->size() == 1;
      m.counted = CountedOnly{all - less + *other, active < all ? active - less + *other : 0,
                              fmt::format("the class {}, which has not the head that is trained{}", name,
                                          bare ? "; --part with-head adds it" : "")};
      continue;
    }
    c.error("architectures", "hf.unsupported", fmt::format("the class {} is not supported", escaped(name)),
            {fmt::format("Supported: {}. Others have another head, or none.", family.classes.front()),
             "A file without architectures is read as the supported class."});
  }
}

}  // namespace orrery::hf
