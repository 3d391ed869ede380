#include "core/spec/rope_file.hpp"

#include <fmt/format.h>

#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

constexpr double most_factor = 1e6;

}  // namespace

void read_rope_stretch(TomlTable t, RopeStretch& s) {
  t.read("factor", s.factor, {1.0, most_factor});
  t.read("original_positions", s.original, {1, max_sequence}, Need::optional);
  t.read("slow", s.slow, {0.0, most_factor, true}, Need::optional);
  t.read("fast", s.fast, {0.0, most_factor, true}, Need::optional);
  t.read("whole_pairs", s.whole_pairs, Need::optional);
  t.read("length", s.length, {0.0, most_factor, true}, Need::optional);
  t.read("short_factors", s.short_factors, {0.0, most_factor, true}, max_width, Need::optional);
  t.read("long_factors", s.long_factors, {0.0, most_factor, true}, max_width, Need::optional);
  t.finish();
}

void write_rope_stretch(TomlWriter& w, const ModelSpec& m) {
  const RopeStretch& s = m.rope_stretch;
  if (m.rope_scaling.empty() || s.factor == 0.0) return;
  const RopeStretch usual;
  w.table("model.rope").number("factor", s.factor);
  if (s.original > 0) w.whole("original_positions", s.original);
  if (s.slow != usual.slow) w.number("slow", s.slow);
  if (s.fast != usual.fast) w.number("fast", s.fast);
  if (!s.whole_pairs) w.flag("whole_pairs", false);
  if (s.length > 0.0) w.number("length", s.length);
  if (!s.short_factors.empty()) w.numbers("short_factors", s.short_factors);
  if (!s.long_factors.empty()) w.numbers("long_factors", s.long_factors);
}

bool check_rope_stretch(const ModelSpec& m, Diagnostics& diagnostics) {
  const RopeStretch& s = m.rope_stretch;
  if (s == RopeStretch{}) return true;
  const auto fail = [&](const char* key, std::string message, std::string detail) {
    diagnostics.error(m.origin, std::string("model.") + key, "model.rope", std::move(message), {std::move(detail)});
    return false;
  };
  if (m.rope_scaling.empty()) {
    return fail("rope", "[model.rope] has numbers of a scaling that the model does not name",
                "Name the kind in rope_scaling, or leave [model.rope] out.");
  }
  if ((m.rope_scaling == "llama3" || m.rope_scaling == "yarn") && s.slow > s.fast) {
    return fail("rope.slow", "slow must not be above fast", fmt::format("slow is {}, and fast is {}.", s.slow, s.fast));
  }
  const std::uint64_t pairs = rotating_features(m) / 2;
  const bool lists = s.short_factors.size() == pairs && s.long_factors.size() == pairs;
  if (m.rope_scaling == "longrope" && !lists) {
    return fail("rope", "longrope needs a factor for each pair of features",
                fmt::format("short_factors has {} and long_factors {}; {} pairs rotate.", s.short_factors.size(),
                            s.long_factors.size(), pairs));
  }
  return true;
}

}  // namespace orrery
