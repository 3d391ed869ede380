#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Megatron-LM's flags in a file, by the names that its command line has ("--num-layers"), whatever the file calls
/// them. Switches that a file turns off, and flags without a value, are absent.
class MegatronFlags {
 public:
  /// The keys of the file by the flags that they are; keys that are none are left out.
  using Keys = std::map<std::string, std::string, std::less<>>;
  /// `inverted` are switches that a file turns on with false.
  MegatronFlags(LaunchReading&, Keys, const Keys& inverted = {});

  [[nodiscard]] LaunchReading& reading() { return r_; }
  /// What the file leaves open stands in a recipe, and not in Megatron-LM's defaults.
  void over_recipe() { over_recipe_ = true; }
  [[nodiscard]] bool is_over_recipe() const { return over_recipe_; }
  [[nodiscard]] bool has(std::string_view flag) const { return keys_.contains(flag); }
  /// Whether a switch is on.
  [[nodiscard]] bool on(std::string_view flag) const { return has(flag); }
  /// The key of the file; the flag itself where the file has none.
  [[nodiscard]] std::string key(std::string_view flag) const;

  // Values, as LaunchReading gives them.
  [[nodiscard]] std::optional<std::uint64_t> whole(std::string_view flag, std::uint64_t least = 0,
                                                   std::uint64_t most = std::uint64_t{1} << 40);
  [[nodiscard]] std::optional<double> real(std::string_view flag);
  [[nodiscard]] std::optional<std::string> text(std::string_view flag);
  [[nodiscard]] std::optional<std::string> word(std::string_view flag, std::initializer_list<std::string_view> words);
  /// The text of a flag where the file gives it; unlike text(), no mistake where it does not.
  [[nodiscard]] std::optional<std::string> known_text(std::string_view flag) const;
  /// The words of a flag that takes several.
  [[nodiscard]] std::vector<std::string> words(std::string_view flag) const;

  // What becomes of a flag.
  void set(std::string_view flag, std::string_view plan_key, std::string_view toml);
  void take(std::string_view flag, std::string says);
  void refuse(std::string_view flag, std::string what, std::string nearest);
  void error(std::string_view flag, std::string message, std::vector<std::string> details = {});
  void without_effect(std::string_view flag, std::string why);
  /// All that nothing was said of; a word that ends in "*" is a beginning.
  void without_effect(std::initializer_list<std::string_view> flags, const char* why);

 private:
  LaunchReading& r_;
  Keys keys_;
  bool over_recipe_ = false;
  std::vector<std::string> said_;
};

/// "a.b_c" as "--b-c": the flag that a configuration's field has.
[[nodiscard]] std::string flag_of_field(std::string_view path);

}  // namespace orrery
