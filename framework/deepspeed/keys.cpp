#include "framework/deepspeed/keys.hpp"

#include <fmt/format.h>

namespace orrery {

std::string toml_real(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

bool DeepSpeedKeys::is_open(std::string_view key) {
  const LaunchValue* v = r.value(key);
  if (v == nullptr || v->kind != LaunchValue::Kind::text || v->text != "auto") return false;
  r.take(key, "left open for the arguments of the training script");
  return true;
}

bool DeepSpeedKeys::is_usable(std::string_view key) {
  const LaunchValue* v = r.value(key);
  if (v == nullptr || is_open(key)) return false;
  if (v->kind != LaunchValue::Kind::list) return true;
  r.error(key, fmt::format("{} has a list of values, from which the autotuner takes one", key),
          {"A plan has one value: put it in the list's place."});
  return false;
}

std::optional<std::uint64_t> DeepSpeedKeys::whole(std::string_view key, std::uint64_t least) {
  return is_usable(key) ? r.whole(key, least) : std::nullopt;
}
std::optional<double> DeepSpeedKeys::real(std::string_view key) { return is_usable(key) ? r.real(key) : std::nullopt; }
std::optional<bool> DeepSpeedKeys::toggle(std::string_view key) {
  return is_usable(key) ? r.toggle(key) : std::nullopt;
}
std::optional<std::string> DeepSpeedKeys::text(std::string_view key) {
  return is_usable(key) ? r.text(key) : std::nullopt;
}

void DeepSpeedKeys::set_real(std::string_view key, std::string_view plan_key) {
  if (const auto value = real(key)) r.set(key, plan_key, toml_real(*value));
}

}  // namespace orrery
