#include "core/spec/hf/count.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/spec_check.hpp"

namespace orrery::hf {

Count number(Config& c, const char* key) { return c.whole_from_zero(key, max_vocabulary); }

Count number(Config& c, const char* key, Count absent) { return c.none(key) ? absent : number(c, key); }

bool truth(Config& c, const char* key) { return !c.none(key) && c.flag(key); }

bool is_class(Config& c, std::string_view name) {
  const nlohmann::json* classes = c.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty()) return c.family().classes.front() == name;
  return (*classes)[0] == name;
}

Count label_count(Config& c) {
  const std::optional<std::uint64_t> names = c.entries("id2label");
  return names ? Count(*names) : number(c, "num_labels");
}

ModelSpec shape(Config& c, const ShapeKeys& keys) {
  const auto whole = [&](const char* key, std::uint64_t most, std::uint64_t absent) {
    return key == nullptr || c.none(key) ? absent : std::max<std::uint64_t>(1, c.whole_from_zero(key, most));
  };
  ModelSpec m;
  m.layers = whole(keys.layers, max_layers, 1);
  m.hidden = whole(keys.hidden, max_width, 1);
  m.heads = whole(keys.heads, max_width, 1);
  m.kv_heads = whole(keys.kv_heads, max_width, m.heads);
  m.head_dim = whole(keys.head_dim, max_width, std::max<std::uint64_t>(1, m.hidden / m.heads));
  m.ffn = whole(keys.ffn, max_width, std::min(max_width, 4 * m.hidden));
  m.vocabulary = whole(keys.vocabulary, max_vocabulary, 1);
  m.max_positions = whole(keys.positions, max_sequence, 1);
  return m;
}

void count(Config& c, ModelSpec& m, Count body, Count head, std::string because, Count active) {
  c.set_head(head.value());
  m.counted = CountedOnly{(body + head).value(), active.value(), std::move(because)};
}

}  // namespace orrery::hf
