#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/hf/keys.hpp"
#include "core/spec/model_spec.hpp"

/// The readers of one family each, in hf_*.cpp, share this: the values of a Hugging Face config.json. Only those files
/// include it.
namespace orrery::hf {

/// The object of a file of one model type. Readers ask only for keys that the type's tables have as read. Where the
/// file leaves a key out, or has null, the table's value counts. After every mistake they return a usable value.
class Config {
 public:
  /// `object` has only the names of the tables; `origin` has the positions of values.
  Config(const nlohmann::json& object, const Family& family, const Origin& origin, Diagnostics& diagnostics);
  ~Config();
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  /// The language model that the object describes inside the whole (Family::language).
  [[nodiscard]] const ModelSpec& language() const { return *language_; }
  void set_language(ModelSpec model) { language_ = std::make_shared<ModelSpec>(std::move(model)); }
  [[nodiscard]] const Family& family() const { return family_; }
  /// Parameters of the trained head, where its reader says so because the spec's shape does not.
  [[nodiscard]] const std::optional<std::uint64_t>& head() const { return head_; }
  void set_head(std::uint64_t parameters) { head_ = parameters; }

  /// Whether the type's tables have a value for the key.
  [[nodiscard]] bool knows(const char* key) const;
  /// No mistake so far: what was read may be compared.
  [[nodiscard]] bool good() const { return diagnostics_.size() == before_; }
  /// The file's value of any key, read or not; null where it has none.
  [[nodiscard]] const nlohmann::json* given(const char* key) const;
  /// The file's value, or the table's; null where both are.
  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  /// Whether the file says null, or has no such key and the table says null.
  [[nodiscard]] bool none(const char* key) const;

  /// Adds an error at the value of `key`, which may be one inside rope_scaling or rope_parameters: "rope_scaling.type".
  void error(const std::string& key, std::string code, std::string message, std::vector<std::string> details = {});
  /// A number of at least 1 and at most `most`; `derived` where neither file nor table has one.
  std::uint64_t whole(const char* key, std::uint64_t most, std::optional<std::uint64_t> derived = std::nullopt);
  /// The same with 0 allowed; null means 0.
  std::uint64_t whole_from_zero(const char* key, std::uint64_t most);
  /// A number, or a list of two equal ones.
  std::uint64_t side(const char* key, std::uint64_t most);
  /// The number of entries in an object or array; empty where the file has none.
  std::optional<std::uint64_t> entries(const char* key);
  double number(const char* key, double least, double most);
  /// The number in `key` of an object that messages call `path`.
  std::optional<double> number_in(const nlohmann::json& object, const char* key, const std::string& path, double least,
                                  double most);
  bool flag(const char* key);
  std::string text(const char* key);
  /// A list of texts, or of whole numbers up to `most`; empty where there is none.
  std::vector<std::string> texts(const char* key);
  std::vector<std::uint64_t> wholes(const char* key, std::uint64_t most);
  /// One of the known names.
  std::string choice(const char* key, const std::vector<std::string>& known);

 private:
  std::uint64_t whole_of(const nlohmann::json& value, const char* key, std::uint64_t least, std::uint64_t most);

  struct Values;
  const Family& family_;
  const Origin& origin_;
  Diagnostics& diagnostics_;
  std::unique_ptr<Values> values_;
  std::shared_ptr<const ModelSpec> language_;
  std::optional<std::uint64_t> head_;
  std::size_t before_;
};

/// Reads base and kind of scaling of rotary angles, from rope_scaling or rope_parameters.
void read_rope(Config&, ModelSpec&);
/// The base of the angles in layers that see a window, which older files have in a key of its own; 0: the model's.
[[nodiscard]] double local_rope_theta(Config&, const char* older);
/// Notes the features that rotate, where they are a part of each head's width.
void rotate_in_part(Config&, ModelSpec&, double factor);
/// Refuses a number of heads that does not divide the width.
void heads_divide(Config&, const ModelSpec&, const char* heads, const char* hidden);

}  // namespace orrery::hf
