#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/spec/hf/config.hpp"
#include "core/spec/spec_files.hpp"

// Reads rotary angles. Files of version 5 of the library keep them in rope_parameters, older ones in rope_scaling and
// rope_theta. Both are read alike, for every type.
namespace orrery::hf {
namespace {

using nlohmann::json;

struct Rope {
  std::optional<double> theta;
  std::string kind;  ///< of rope_scaling_names(), or empty
  std::optional<double> partial;
  friend bool operator==(const Rope&, const Rope&) = default;
};

/// The kind of scaling: the key rope_type, or type in older files.
std::string kind_of(Config& c, const std::string& key, const json& object) {
  for (const char* name : {"rope_type", "type"}) {
    const auto at = object.find(name);
    if (at == object.end() || at->is_null()) continue;
    if (!at->is_string()) {
      c.error(key, "hf.type", fmt::format("{} of {} is not a text", name, key));
      return "";
    }
    auto kind = at->get<std::string>();
    const auto& known = rope_scaling_names();
    if (kind == "default" || kind == "mrope") return "";  // mrope: words rotate as by default
    if (kind == "su") return "longrope";                  // what it was called first
    if (std::find(known.begin(), known.end(), kind) != known.end()) return kind;
    c.error(key, "hf.unsupported", fmt::format("{} of the kind {} is not supported", key, shown(*at)),
            {fmt::format("Supported: default, {}.", fmt::join(known, ", "))});
    return "";
  }
  if (object.contains("factor")) {
    c.error(key, "hf.missing-key", fmt::format("{} does not name its kind (rope_type)", key));
  }
  return "";
}

std::optional<Rope> rope_in(Config& c, const char* key) {
  const json* object = c.find(key);
  if (object == nullptr || (object->is_object() && object->empty())) return std::nullopt;
  if (!object->is_object()) {
    c.error(key, "hf.type", fmt::format("{} is not an object", key));
    return std::nullopt;
  }
  // Layers that see all positions have the model's angles; local_rope_theta reads those of the others.
  if (const auto inner = object->find("full_attention"); inner != object->end() && inner->is_object()) object = &*inner;
  Rope out;
  out.partial = c.number_in(*object, "partial_rotary_factor", std::string(key) + ".partial_rotary_factor", 0.0, 1.0);
  out.theta = c.number_in(*object, "rope_theta", std::string(key) + ".rope_theta", 1.0, 1e12);
  out.kind = kind_of(c, key, *object);
  return out;
}

}  // namespace

void read_rope(Config& c, ModelSpec& m) {
  m.positions = PositionEncoding::rotary;
  m.rope_theta = c.number("rope_theta", 1.0, 1e12);
  const std::optional<Rope> older = rope_in(c, "rope_scaling");
  const std::optional<Rope> newer = rope_in(c, "rope_parameters");
  const Rope none;
  const Rope& chosen = older ? *older : newer ? *newer : none;
  const bool differ =
      older && newer &&
      (older->kind != newer->kind || older->theta.value_or(m.rope_theta) != newer->theta.value_or(m.rope_theta));
  if (differ && c.good()) {
    c.error("rope_parameters", "hf.unsupported", "rope_scaling and rope_parameters differ",
            {"They are two names of the same key; give one of them."});
  }
  m.rope_theta = chosen.theta.value_or(m.rope_theta);
  m.rope_scaling = chosen.kind;
  if (c.knows("partial_rotary_factor"))
    rotate_in_part(c, m, chosen.partial.value_or(c.number("partial_rotary_factor", 0.0, 1.0)));
}

void rotate_in_part(Config& c, ModelSpec& m, double factor) {
  if (factor >= 1.0 || !c.good()) return;
  m.rotary_dim = static_cast<std::uint64_t>(static_cast<double>(m.head_dim) * factor);
  if (m.rotary_dim >= 2 && m.rotary_dim % 2 == 0) return;
  c.error("partial_rotary_factor", "hf.unsupported", "the features that rotate are not an even number of at least 2",
          {fmt::format("{} of {} features rotate.", m.rotary_dim, m.head_dim)});
  m.rotary_dim = 0;
}

double local_rope_theta(Config& c, const char* older) {
  const json* angles = c.find("rope_parameters");
  if (angles != nullptr && angles->is_object()) {
    const auto inner = angles->find("sliding_attention");
    if (inner != angles->end() && inner->is_object())
      return c.number_in(*inner, "rope_theta", "rope_parameters.sliding_attention", 1.0, 1e12).value_or(0.0);
  }
  return c.knows(older) && !c.none(older) ? c.number(older, 1.0, 1e12) : 0.0;
}

}  // namespace orrery::hf
