#include "framework/megatron_core/flags.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

MegatronFlags::MegatronFlags(LaunchReading& r, Keys keys, const Keys& inverted) : r_(r), keys_(std::move(keys)) {
  for (auto at = keys_.begin(); at != keys_.end();) {
    const LaunchValue* v = r_.file().find(at->second);
    const bool off = v != nullptr && v->kind == LaunchValue::Kind::flag && v->text == "false";
    if (off) r_.without_effect(at->second, "it is off");
    at = off || v == nullptr || v->kind == LaunchValue::Kind::none ? keys_.erase(at) : std::next(at);
  }
  for (const auto& [flag, key] : inverted) {
    const LaunchValue* v = r_.file().find(key);
    if (v != nullptr && v->text == "false")
      keys_[flag] = key;
    else
      r_.without_effect(key, "it is the default");
  }
}

std::string MegatronFlags::key(std::string_view flag) const {
  const auto at = keys_.find(flag);
  return at == keys_.end() ? std::string(flag) : at->second;
}

std::optional<std::uint64_t> MegatronFlags::whole(std::string_view flag, std::uint64_t least, std::uint64_t most) {
  return has(flag) ? r_.whole(key(flag), least, most) : std::nullopt;
}
std::optional<double> MegatronFlags::real(std::string_view flag) {
  return has(flag) ? r_.real(key(flag)) : std::nullopt;
}
std::optional<std::string> MegatronFlags::text(std::string_view flag) {
  return has(flag) ? r_.text(key(flag)) : std::nullopt;
}
std::optional<std::string> MegatronFlags::word(std::string_view flag, std::initializer_list<std::string_view> words) {
  return has(flag) ? r_.word(key(flag), words) : std::nullopt;
}

std::optional<std::string> MegatronFlags::known_text(std::string_view flag) const {
  const LaunchValue* v = has(flag) ? r_.value(key(flag)) : nullptr;
  return v == nullptr || !v->unknown.empty() ? std::nullopt : std::optional(v->text);
}

std::vector<std::string> MegatronFlags::words(std::string_view flag) const {
  std::vector<std::string> out;
  const LaunchValue* v = has(flag) ? r_.value(key(flag)) : nullptr;
  if (v == nullptr) return out;
  const auto add = [&](const std::string& text) {
    std::string word;
    for (const char c : text + " ") {
      if (c != ' ' && c != ',' && c != '[' && c != ']') {
        word += c;
      } else if (!word.empty()) {
        out.push_back(std::exchange(word, {}));
      }
    }
  };
  if (v->kind != LaunchValue::Kind::list) add(v->text);
  for (const LaunchValue& item : v->items) add(item.text);
  return out;
}

void MegatronFlags::set(std::string_view flag, std::string_view plan_key, std::string_view toml) {
  said_.emplace_back(flag);
  r_.set(key(flag), plan_key, toml);
}
void MegatronFlags::take(std::string_view flag, std::string says) {
  said_.emplace_back(flag);
  if (has(flag)) r_.take(key(flag), std::move(says));
}
void MegatronFlags::refuse(std::string_view flag, std::string what, std::string nearest) {
  said_.emplace_back(flag);
  r_.refuse(key(flag), std::move(what), std::move(nearest));
}
void MegatronFlags::error(std::string_view flag, std::string message, std::vector<std::string> details) {
  said_.emplace_back(flag);
  r_.error(key(flag), std::move(message), std::move(details));
}
void MegatronFlags::without_effect(std::string_view flag, std::string why) {
  said_.emplace_back(flag);
  if (has(flag)) r_.without_effect(key(flag), std::move(why));
}
void MegatronFlags::without_effect(std::initializer_list<std::string_view> flags, const char* why) {
  for (const auto& [flag, key] : keys_) {
    if (std::find(said_.begin(), said_.end(), flag) != said_.end()) continue;
    const bool listed = std::any_of(flags.begin(), flags.end(), [&](std::string_view f) {
      return f.ends_with('*') ? std::string_view(flag).starts_with(f.substr(0, f.size() - 1)) : flag == f;
    });
    // A list of keys passes over those that something was said of.
    if (listed) r_.without_effect({std::string_view(key)}, why);
  }
}

std::string flag_of_field(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  std::string out = "--";
  for (const char c : dot == std::string_view::npos ? path : path.substr(dot + 1)) out += c == '_' ? '-' : c;
  return out;
}

}  // namespace orrery
