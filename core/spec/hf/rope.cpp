#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/config.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "core/spec/yarn_constants.hpp"

// Reads rotary angles. Files of version 5 of the library keep them in rope_parameters, older ones in rope_scaling and
// rope_theta. Both are read alike, for every type.
namespace orrery::hf {
namespace {

using nlohmann::json;

struct Rope {
  std::optional<double> theta;
  std::string kind;  ///< of rope_scaling_names(), or empty
  std::optional<double> partial;
  RopeStretch stretch;
  std::optional<YarnConstants> constants;  ///< DeepSeek's
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
    if (kind == "deepseek_yarn") return "yarn";
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

void read_stretch(Config&, const std::string& outer, const json& object, std::uint64_t max_positions, Rope&);

std::optional<Rope> rope_in(Config& c, const char* key, std::uint64_t max_positions) {
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
  if (!out.kind.empty()) read_stretch(c, key, *object, max_positions, out);
  return out;
}

/// The numbers of a scaling; its factor stays 0 where they are not all there.
void read_stretch(Config& c, const std::string& outer, const json& object, std::uint64_t max_positions, Rope& out) {
  constexpr double most = 1e6;
  const auto number = [&](const char* key, double least) {
    return c.number_in(object, key, outer + "." + key, least, most);
  };
  const auto list = [&](const char* key) {
    const auto at = object.find(key);
    std::vector<double> numbers;
    if (at == object.end() || !at->is_array()) return numbers;
    for (const json& each : *at) numbers.push_back(each.is_number() ? each.get<double>() : 0.0);
    return numbers;
  };
  RopeStretch s;
  s.original = static_cast<std::uint64_t>(number("original_max_position_embeddings", 1.0).value_or(0.0));
  s.factor = number("factor", 1.0).value_or(0.0);
  s.length = number("attention_factor", 0.0).value_or(0.0);
  if (out.kind == "yarn") {
    s.slow = number("beta_slow", 0.0).value_or(s.slow);
    s.fast = number("beta_fast", 0.0).value_or(s.fast);
    const auto truncate = object.find("truncate");
    s.whole_pairs = truncate == object.end() || !truncate->is_boolean() || truncate->get<bool>();
    const double one = number("mscale", 0.0).value_or(0.0), all = number("mscale_all_dim", 0.0).value_or(0.0);
    if (all > 0.0) out.constants = YarnConstants{one, all};
  } else if (out.kind == "llama3") {
    const auto low = number("low_freq_factor", 0.0), high = number("high_freq_factor", 0.0);
    if (!low || !high) return;
    s.slow = *low;
    s.fast = *high;
  } else if (out.kind == "longrope") {
    s.short_factors = list("short_factor");
    s.long_factors = list("long_factor");
    // Phi-3 names it beside the scaling.
    constexpr const char* original = "original_max_position_embeddings";
    if (s.original == 0 && c.knows(original) && !c.none(original)) s.original = c.whole(original, max_sequence);
    if (s.original > 0) {
      s.factor = std::max(1.0, static_cast<double>(max_positions) / static_cast<double>(s.original));
    }
    const auto bad = [](const std::vector<double>& of) {
      return of.empty() || std::any_of(of.begin(), of.end(), [](double x) { return !(x > 0.0 && x <= most); });
    };
    if (bad(s.short_factors) || bad(s.long_factors)) return;
  }
  if (s.factor > 0.0) out.stretch = s;
}

/// Keeps the numbers where they suit the model.
void take_stretch(ModelSpec& m, const Rope& rope) {
  const RopeStretch& stretch = rope.stretch;
  const std::size_t pairs = rotating_features(m) / 2;
  const bool lists = stretch.short_factors.size() == pairs && stretch.long_factors.size() == pairs;
  const bool ordered = stretch.slow <= stretch.fast;
  if (m.rope_scaling == "longrope" && !lists) return;
  if ((m.rope_scaling == "yarn" || m.rope_scaling == "llama3") && !ordered) return;
  m.rope_stretch = stretch;
  if (!rope.constants) return;
  const double scale = m.attention_scale;
  set_constants(m, *rope.constants);
  // The length follows from both constants, unless the file says it; without the first it is yarn's own.
  if (stretch.length > 0.0 || rope.constants->one == 0.0) m.rope_stretch.length = stretch.length;
  if (!m.latent) m.attention_scale = scale;  // the library scales those of latent attention alone
}

}  // namespace

void read_rope(Config& c, ModelSpec& m) {
  m.positions = PositionEncoding::rotary;
  m.rope_theta = c.number("rope_theta", 1.0, 1e12);
  const std::optional<Rope> older = rope_in(c, "rope_scaling", m.max_positions);
  const std::optional<Rope> newer = rope_in(c, "rope_parameters", m.max_positions);
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
  take_stretch(m, chosen);
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
