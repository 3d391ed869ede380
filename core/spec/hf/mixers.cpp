#include "core/spec/hf/mixers.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery::hf {

std::vector<std::string> layer_names(Config& c, const char* key, std::uint64_t layers,
                                     const std::function<std::string(std::uint64_t)>& otherwise) {
  std::vector<std::string> names = c.texts(key);
  if (names.empty()) {
    for (std::uint64_t l = 0; l < layers; ++l) names.push_back(otherwise(l));
  }
  if (names.size() != layers && c.good()) {
    c.error(key, "hf.range", fmt::format("{} does not name a kind for each layer", key),
            {fmt::format("It has {} names; the model has {} layers.", names.size(), layers)});
  }
  names.resize(layers);
  return names;
}

Count number_or_auto(Config& c, const char* key, Count otherwise) {
  const nlohmann::json* value = c.find(key);
  return value == nullptr || (value->is_string() && *value == "auto") ? otherwise : number(c, key);
}

void count_decoder(Config& c, ModelSpec& m, const Decoder& d, std::string because) {
  const Count table = Count(m.vocabulary) * m.hidden, head = m.tied_embeddings ? Count(0) : table;
  const Count body = table + d.layers + m.hidden;
  const bool sparse = d.active < d.layers;
  count(c, m, body, head, std::move(because), sparse ? table + d.active + m.hidden + head : Count(0));
}

}  // namespace orrery::hf
