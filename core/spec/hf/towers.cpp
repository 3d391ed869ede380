#include "core/spec/hf/towers.hpp"

#include <array>

namespace orrery::hf {
namespace {

constexpr std::array keys{
    read("vision_config.hidden_size", "null"),       read("vision_config.intermediate_size", "null"),
    read("vision_config.num_hidden_layers", "null"), read("vision_config.num_channels", "null"),
    read("vision_config.image_size", "null"),        read("vision_config.patch_size", "null"),
    read("vision_config.vision_use_head", "null"),   read("vision_config.num_patches", "null"),
    no_effect("vision_config.num_attention_heads"),  no_effect("vision_config.projection_dim"),
    no_effect("vision_config.vocab_size"),           no_effect("vision_config.head_dim"),
    no_effect("vision_config.rope_theta"),           no_effect("vision_config.rope_parameters"),
};

}  // namespace

Vision class_sizes(TowerKind kind) {
  switch (kind) {
    case TowerKind::clip: return {768, 3072, 12, 3, 224, 32};
    case TowerKind::siglip: return {768, 3072, 12, 3, 224, 16};
    case TowerKind::pixtral: return {1024, 4096, 24, 3, 1024, 16};
  }
  return {};
}

Vision read_vision(Config& c, const std::string& ahead, const Vision& absent) {
  const auto at = [&](const char* key, Count otherwise) { return number(c, (ahead + key).c_str(), otherwise); };
  const auto side = [&](const char* key, Count otherwise) {
    const std::string path = ahead + key;
    return c.none(path.c_str()) ? otherwise : Count(c.side(path.c_str(), max_side));
  };
  Vision v;
  v.h = at("hidden_size", absent.h);
  v.f = at("intermediate_size", absent.f);
  v.layers = at("num_hidden_layers", absent.layers);
  v.channels = at("num_channels", absent.channels);
  v.patch = side("patch_size", absent.patch);
  const std::string head = ahead + "vision_use_head", rows = ahead + "num_patches";
  v.head = c.knows(head.c_str()) && !c.none(head.c_str()) ? c.flag(head.c_str()) : absent.head;
  v.rows = c.knows(rows.c_str()) ? at("num_patches", absent.rows) : absent.rows;
  v.image = c.knows((ahead + "image_size").c_str()) ? side("image_size", absent.image) : absent.image;
  return v;
}

Count tower(TowerKind kind, const Vision& v) {
  const Count pixels = v.patch * v.patch * v.channels, side = v.image / v.patch;
  const Count rows = v.rows > Count(0) ? v.rows : side * side;
  switch (kind) {
    case TowerKind::clip:
      return product(pixels, v.h) + v.h + (rows + 1) * v.h + v.layers * bert_layer(v.h, v.f) + 4 * v.h;
    case TowerKind::siglip: {
      const Count head = v.h + attention(v.h) + 2 * v.h + feed_forward(v.h, v.f, false, true);
      return product(pixels, v.h, true) + rows * v.h + v.layers * bert_layer(v.h, v.f) + 2 * v.h +
             (v.head ? head : Count(0));
    }
    case TowerKind::pixtral:
      return product(pixels, v.h) + v.h +
             v.layers * (attention(v.h, false) + feed_forward(v.h, v.f, true, false) + 2 * v.h);
  }
  return 0;
}

Keys tower_keys() { return keys; }

}  // namespace orrery::hf
