#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_spec.hpp"

/// The keys of Hugging Face config.json files, one table for each model type.
///
/// Every key of a file is one of these: read; refused unless it has the one value that this program has; without effect
/// on the trained model; unknown. A new model type needs a row in hf_families.cpp, with its tables and the reader of
/// its layers.
namespace orrery::hf {

class Config;

enum class Use : std::uint8_t {
  read,       ///< `value` stands for a missing key, as JSON; null: its reader knows
  only,       ///< changes the model unless it is `value` (JSON), null or empty; `about` says in what way
  no_effect,  ///< changes neither the parameters nor what a step computes
  same_as     ///< another name of the key `value`
};

struct Key {
  std::string_view name;
  Use use = Use::no_effect;
  std::string_view value = {};
  std::string_view about = {};  ///< only: what it asks for; read: the key of [model] that gets the value, where rules
                                ///< name it
};
using Keys = std::span<const Key>;

constexpr Key read(std::string_view name, std::string_view absent, std::string_view gives = {}) {
  return {name, Use::read, absent, gives};
}
constexpr Key only(std::string_view name, std::string_view value, std::string_view about) {
  return {name, Use::only, value, about};
}
constexpr Key no_effect(std::string_view name) { return {name}; }
constexpr Key same_as(std::string_view name, std::string_view other) { return {name, Use::same_as, other}; }

/// The object of a file that describes a language model inside a larger one.
struct Part {
  std::string_view key = {};     ///< "text_config"; empty: there is none
  std::string_view type = {};    ///< model type where the object does not say
  std::string_view tied = {};    ///< tie_word_embeddings of the whole where its file does not say; empty: the part's
  std::string_view absent = {};  ///< the object where the file has none, as JSON; empty: an empty one
  bool flat = false;             ///< older files have the part's keys beside those of the whole
};

/// The tower of images of a model that has one beside its tower of text, read alone.
struct TowerPart {
  std::string_view of = {};  ///< the class that it is with its head
  ModelSpec (*read)(Config&) = nullptr;
};

/// A model type.
struct Family {
  /// What other classes of the type have in place of the trained head (classes.cpp).
  ///   decoder     nothing; or a classifier without a bias
  ///   pooler      BERT's pooler, with a classifier behind it
  ///   dense       nothing; or a classifier of two products (ELECTRA)
  ///   pooler_unless_classified  a pooler; or a classifier of two products (RoBERTa)
  ///   pooler_alone, nothing     classifiers are refused
  ///   unknown     all such classes are refused
  enum class Heads : std::uint8_t { decoder, pooler, dense, pooler_unless_classified, pooler_alone, nothing, unknown };

  std::string_view type;                  ///< model_type
  std::vector<std::string_view> classes;  ///< names in `architectures` of the classes whose head is trained here
  std::vector<Keys> tables;               ///< the first that has a key counts
  ModelSpec (*read)(Config&);
  Part language = {};
  Heads heads = Heads::decoder;
  TowerPart vision = {};
};
/// Model types that look these tables up behind their own.
[[nodiscard]] std::vector<Family> with_tables(std::vector<Family> types, const std::vector<Keys>& shared);
[[nodiscard]] const std::vector<Family>& families();
[[nodiscard]] const Family* family_of(std::string_view type);

/// Keys that files of every type may have, and the keys of rotary positions.
[[nodiscard]] Keys common_keys();
[[nodiscard]] Keys rotary_keys();
/// Keys of decoders by the library's usual names, with those of LLaMA where a type says nothing else: but for the
/// norm's constant, which is rms_keys or layer_norm_keys.
[[nodiscard]] Keys usual_keys();
[[nodiscard]] Keys rms_keys();
[[nodiscard]] Keys layer_norm_keys();
/// Keys of a mixture's routing, with losses and noise, which the workload states.
[[nodiscard]] Keys router_keys();
/// Keys without effect inside objects that describe towers of images.
[[nodiscard]] Keys inner_keys();
/// Keys inside rope_scaling and rope_parameters.
[[nodiscard]] Keys rope_keys();

/// The row of a key; null where no table has it.
[[nodiscard]] const Key* find_key(std::span<const Keys> tables, std::string_view name);

/// The known key that `name` is likely to be meant for. It is at most two edits away, one where the name has less than
/// 8 letters, none below 4. For keys without effect it is one edit less, because many files have names close to these.
/// Capitals and hyphens do not count. Empty where there is none.
[[nodiscard]] std::string_view near_key(std::span<const Keys> tables, std::string_view name);

/// A value as a message shows it, with Infinity and NaN as Python writes them.
[[nodiscard]] std::string shown(const nlohmann::json& value);

}  // namespace orrery::hf
