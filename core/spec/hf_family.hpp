#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/model_spec.hpp"

/// What the readers of one family each, in hf_*.cpp, share: the keys of a
/// Hugging Face config.json.  Included by those files alone.
namespace orrery::hf {

/// The object of a file.  Readers return a usable value after every mistake.
class Config {
 public:
  Config(const nlohmann::json& object, const Origin& origin, Diagnostics& diagnostics)
      : object_(object), origin_(origin), diagnostics_(diagnostics), before_(diagnostics.size()) {}

  /// No mistake so far: what was read may be compared.
  [[nodiscard]] bool good() const { return diagnostics_.size() == before_; }

  /// Present and not null.
  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  void error(const char* key, std::string code, std::string message, std::vector<std::string> details = {});
  std::uint64_t whole(const char* key, std::optional<std::uint64_t> absent, std::uint64_t most);
  /// Required; 0 is allowed.
  std::uint64_t whole_from_zero(const char* key, std::uint64_t most);
  /// Entries of an object or array, or `absent`.
  std::uint64_t entries(const char* key, std::uint64_t absent);
  double number(const char* key, double absent, double least, double most);
  double number_in(const nlohmann::json& where, const char* key, const char* shown, double absent, double least,
                   double most);
  bool flag(const char* key, bool absent);
  std::string text(const char* key, const char* absent);
  void only(const char* key, const char* absent, const std::vector<std::string>& known);

 private:
  const nlohmann::json& object_;
  const Origin& origin_;
  Diagnostics& diagnostics_;
  std::size_t before_;
};

/// The kind of scaling of rotary angles under `key`; empty: none.
std::string rope_scaling(Config&, const char* key);
/// Refuses a number of heads that does not divide the width.
void heads_divide(Config&, const ModelSpec&, const char* heads, const char* hidden);

// Readers by model_type.
[[nodiscard]] ModelSpec gpt2(Config&);
[[nodiscard]] ModelSpec llama(Config&);
[[nodiscard]] ModelSpec bert(Config&);
[[nodiscard]] ModelSpec vit(Config&);
[[nodiscard]] ModelSpec deepseek(Config&);  ///< deepseek_v2, deepseek_v3
[[nodiscard]] ModelSpec mixtral(Config&);

/// DeepSeek's mixture: every layer from first_k_dense_replace on.
void deepseek_experts(Config&, ModelSpec&);

}  // namespace orrery::hf
