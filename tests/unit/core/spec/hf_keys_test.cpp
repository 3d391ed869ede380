#include "core/spec/hf/keys.hpp"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/spec/hf_config.hpp"
#include "core/spec/library.hpp"

// Laws of the tables: the effect of each kind of key on a model, for every key of every model type.

using namespace orrery;
using nlohmann::json;

namespace {

/// A small model of the type, whose file holds no more than it must.
json smallest(const hf::Family& f) {
  json out{{"model_type", std::string(f.type)}};
  if (f.type == "deepseek_v2") out["num_experts_per_tok"] = 2;
  // Without head_dim the library rounds 4096 / 96 down.
  if (f.type == "glm4_moe" || f.type == "glm4v_moe_text") out["head_dim"] = 128;
  if (f.type == "glm4v_moe") out["text_config"] = {{"head_dim", 128}};
  return out;
}

struct Answer {
  std::optional<ModelSpec> model;
  std::string first_code;
  std::string text;
};

Answer read(const json& config) {
  Diagnostics d;
  Answer out;
  out.model = parse_hf_config(config.dump(), "folder/config.json", d);
  out.text = render(d);
  if (!d.empty()) out.first_code = d.list().front().code;
  return out;
}

/// Every row as it stands in the first table that has it.
std::vector<hf::Key> rows(const hf::Family& f) {
  std::vector<hf::Key> out;
  for (const hf::Keys& keys : f.tables) {
    for (const hf::Key& k : keys) {
      const hf::Key* first = hf::find_key(f.tables, k.name);
      if (first == &k) out.push_back(k);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("every type that is read stands in docs/model-file.md", "[unit][hf]") {
  std::ifstream file(std::filesystem::path(ORRERY_SOURCE_DIR) / "docs/model-file.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const hf::Family& f : hf::families()) {
    CAPTURE(f.type);
    const std::string type(f.type);
    const bool listed = text.find("| " + type + ",") != std::string::npos ||
                        text.find(", " + type + ",") != std::string::npos ||
                        text.find(", " + type + " |") != std::string::npos;
    CHECK(listed);
  }
}

TEST_CASE("a key without effect leaves the model as it is, and is not listed", "[unit][hf]") {
  for (const hf::Family& f : hf::families()) {
    const Answer plain = read(smallest(f));
    CAPTURE(f.type, plain.text);
    REQUIRE(plain.model);
    for (const hf::Key& k : rows(f)) {
      if (k.use != hf::Use::no_effect) continue;
      CAPTURE(k.name);
      json config = smallest(f);
      config[std::string(k.name)] = 7;
      const Answer with = read(config);
      CHECK(with.model == plain.model);
      CHECK((with.model && unread_keys(*with.model).empty()));
    }
  }
}

TEST_CASE("a key that asks for another model is refused, and passes with the one value", "[unit][hf]") {
  for (const hf::Family& f : hf::families()) {
    const Answer plain = read(smallest(f));
    for (const hf::Key& k : rows(f)) {
      if (k.use != hf::Use::only) continue;
      CAPTURE(f.type, k.name);
      for (const json& value : {json::parse(k.value), json(nullptr)}) {
        json config = smallest(f);
        config[std::string(k.name)] = value;
        CHECK(read(config).model == plain.model);
      }
      for (const json& value : {json("another"), json(12345), json{{"a", 1}}}) {
        json config = smallest(f);
        config[std::string(k.name)] = value;
        const Answer with = read(config);
        CHECK(!with.model);
        CHECK(with.first_code == "hf.unsupported");
        CHECK(with.text.find(std::string(k.name)) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a key under another name is the key", "[unit][hf]") {
  for (const hf::Family& f : hf::families()) {
    for (const hf::Key& k : rows(f)) {
      if (k.use != hf::Use::same_as) continue;
      CAPTURE(f.type, k.name);
      json own = smallest(f), other = smallest(f), both = smallest(f);
      own[std::string(k.value)] = other[std::string(k.name)] = both[std::string(k.name)] = 16;
      both[std::string(k.value)] = 32;
      CHECK(read(own).model == read(other).model);
      CHECK(read(own).first_code == read(other).first_code);
      CHECK(read(both).first_code == "hf.unsupported");
    }
  }
}

TEST_CASE("a slip of the pen in a key that is read names the key", "[unit][hf]") {
  for (const hf::Family& f : hf::families()) {
    for (const hf::Key& k : rows(f)) {
      if (k.use != hf::Use::read || k.name.size() < 8) continue;
      const std::string slip(k.name.substr(0, k.name.size() - 1));
      if (hf::find_key(f.tables, slip) != nullptr) continue;
      CAPTURE(f.type, slip);
      json config = smallest(f);
      config[slip] = 1;
      const Answer with = read(config);
      CHECK(!with.model);
      CHECK(with.text.find(fmt::format("{} is not a key of {} [hf.unknown-key]", slip, f.type)) != std::string::npos);
      CHECK(with.text.find("Did you mean ") != std::string::npos);
    }
  }
}

TEST_CASE("a key that nobody knows is listed and changes nothing", "[unit][hf]") {
  for (const hf::Family& f : hf::families()) {
    json config = smallest(f);
    config["swiglu_zebra"] = 7;
    config["a_quokka"] = {{"hidden_size", 1}};
    const Answer with = read(config);
    CAPTURE(f.type, with.text);
    CHECK(with.model == read(smallest(f)).model);
    REQUIRE(with.model);
    CHECK(unread_keys(*with.model) == std::vector<std::string>{"a_quokka", "swiglu_zebra"});
  }
  Diagnostics d;
  const auto shipped = Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models").model("gpt2-124m", ".", d);
  REQUIRE(shipped);
  CHECK(unread_keys(*shipped).empty());
}

TEST_CASE("near is two edits in a long key that is read, one in a short one, and one in a key without effect",
          "[unit][hf]") {
  const hf::Family& llama = *hf::family_of("llama");
  const std::pair<const char*, const char*> table[] = {
      {"num_key_value_head", "num_key_value_heads"},
      {"num_kay_value_head", "num_key_value_heads"},
      {"num_kay_valu_head", ""},
      {"Hidden-Size", "hidden_size"},
      {"hiddensize", "hidden_size"},
      {"use_cach", "use_cache"},
      {"use_cac", ""},
      {"num_layers", ""},  // two edits from num_labels, which changes nothing
      {"typ", ""},
  };
  for (const auto& [name, near] : table) {
    CAPTURE(name);
    CHECK(hf::near_key(llama.tables, name) == near);
  }
}
