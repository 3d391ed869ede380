#include "core/spec/library.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <tuple>

#include "tests/support/program_run.hpp"

using namespace orrery;
using test::TemporaryFolder;

namespace {
const std::filesystem::path source_dir = ORRERY_SOURCE_DIR;
const Library library(source_dir / "models");
}  // namespace

TEST_CASE("shipped models have the published number of parameters", "[unit][library]") {
  // Counts of the released checkpoints; GPT-3 and the Megatron models by the
  // closed form V h + S h + L (12 h^2 + 13 h) + 2 h.
  const std::pair<const char*, std::uint64_t> published[] = {
      {"gpt2-124m", 124'439'808},       {"gpt2-355m", 354'823'168},        {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},     {"gpt3-175b", 174'604'259'328},    {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},  {"llama-2-70b", 68'976'648'192},   {"llama-3-8b", 8'030'261'248},
      {"llama-3-70b", 70'553'706'496},  {"llama-3-405b", 405'853'388'800}, {"bert-base", 109'482'240},
      {"bert-large", 335'141'888},      {"vit-b-16", 86'567'656},          {"vit-l-16", 304'326'632},
      {"vit-h-14", 632'045'800},        {"deepseek-v2", 235'741'434'880},  {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v3", 671'026'419'200}, {"mixtral-8x7b", 46'702'792'704},
  };
  for (const auto& [name, count] : published) {
    CAPTURE(name);
    Diagnostics d;
    const auto model = library.model(name, ".", d);
    CHECK(render(d) == "");
    REQUIRE(model);
    CHECK(published_parameter_count(*model) == count);
  }
}

// Section 4.2 of the report and README_WEIGHTS of the release: 671B in the main model; beside it one prediction
// module of 11.6B (the release says 11.5B), stored with copies of the embedding and of the head, 685B in all.
TEST_CASE("DeepSeek-V3 has 671B parameters, 685B with its prediction module", "[unit][library]") {
  Diagnostics d;
  const auto m = library.model("deepseek-v3", ".", d);
  REQUIRE(m);
  // 58 mixtures of 256 experts have a bias for each, which is not trained.
  CHECK(parameter_count(*m) == 671'026'419'200 - 58 * 256);
  // A token meets, with the biases: both tables, 61 layers of attention and two norms, 3 dense layers, 58 of 9 experts
  // and a router.
  CHECK(active_parameter_count(*m) + 58 * 256 == 37'552'297'472);
  // Attention and two norms; 257 experts, router and biases; projection and three norms.
  const std::uint64_t module =
      187'107'328 + 2 * 7168 + 257ULL * 3 * 7168 * 2048 + 256 * 7168 + 256 + 2 * 7168 * 7168 + 3 * 7168;
  CHECK(module == 11'610'068'224);
  CHECK(prediction_module_parameter_count(*m) == module);
  CHECK(published_parameter_count(*m) + module + 2ULL * 129'280 * 7168 == 684'489'845'504);
}

// The parameters that a token meets, as authors state them to the billion: DeepSeek-V2 "21B", its lite version "2.4B"
// (both without the input embedding, of whose table a token reads one row), DeepSeek-V3 "37B", Mixtral "13B".
TEST_CASE("a token meets the published number of parameters", "[unit][library]") {
  const std::tuple<const char*, double, double> published[] = {{"deepseek-v2", 21.0, 0.5},
                                                               {"deepseek-v2-lite", 2.4, 0.06},
                                                               {"deepseek-v3", 37.0, 0.5},
                                                               {"mixtral-8x7b", 13.0, 0.5}};
  for (const auto& [name, billions, rounding] : published) {
    CAPTURE(name);
    Diagnostics d;
    const auto m = library.model(name, ".", d);
    REQUIRE(m);
    const double active = static_cast<double>(active_parameter_count(*m) - m->vocabulary * m->hidden);
    CHECK(active / 1e9 == Approx(billions).margin(rounding));
  }
}

TEST_CASE("BERT trains its head of masked words and no pooler", "[unit][library]") {
  // These are the released masked-language models: h^2 + h + 2 h + V for the head in place of h^2 + h for the pooler.
  Diagnostics d;
  CHECK(parameter_count(*library.model("bert-base", ".", d)) == 109'482'240 + 2 * 768 + 30522);
  CHECK(parameter_count(*library.model("bert-large", ".", d)) == 335'141'888 + 2 * 1024 + 30522);
}

TEST_CASE("latent attention has the parameters of DeepSeek-V3's", "[unit][library]") {
  // Ranks 1536 and 512, 128 heads of 128 + 64 and 128 features (DeepSeek-V3, 2024, section 4.2):
  // 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168.
  ModelSpec m;
  m.hidden = 7168;
  m.heads = m.kv_heads = m.head_dim = 128;
  m.biases = {};
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  m.latent = LatentAttention{1536, 512, 64, 128};
  CHECK(attention_parameter_count(m) == 187'107'328);
  // A dense prediction module: the layer, 2 h^2 of the projection, three norms.
  m.ffn = 18432;
  CHECK(prediction_module_parameter_count(m) == layer_parameter_count(m) + 2 * 7168 * 7168 + 3 * 7168);
}

TEST_CASE("the SC '21 models have the sizes of the paper's table", "[unit][library]") {
  // Narayanan et al., table 1, in billions to one decimal.
  const std::pair<const char*, double> table[] = {
      {"1.7b", 1.7},   {"3.6b", 3.6},     {"7.5b", 7.5},     {"18.4b", 18.4},   {"39.1b", 39.1},
      {"76.1b", 76.1}, {"145.6b", 145.6}, {"310.1b", 310.1}, {"529.6b", 529.6}, {"1008b", 1008.0}};
  for (const auto& [name, billions] : table) {
    CAPTURE(name);
    Diagnostics d;
    const auto model = library.model(std::string("megatron-sc21-") + name, ".", d);
    REQUIRE(model);
    CHECK(static_cast<double>(parameter_count(*model)) / 1e9 == Approx(billions).margin(0.05));  // its rounding
  }
}

TEST_CASE("every shipped file reads without a mistake", "[unit][library]") {
  Diagnostics d;
  CHECK(library.models().size() >= 22);
  CHECK(library.clusters().size() >= 9);
  CHECK(library.devices().size() >= 9);
  for (const std::string& name : library.models()) {
    const auto model = library.model(name, ".", d);
    REQUIRE(model);
    CHECK(model->name == name);
  }
  for (const std::string& name : library.clusters()) CHECK(library.cluster(name, ".", std::nullopt, d));
  for (const std::string& name : library.devices()) {
    const auto device = library.device(name, d);
    REQUIRE(device);
    if (!device->calibration.empty()) CHECK(std::filesystem::exists(library.calibration(device->calibration)));
  }
  CHECK(render(d) == "");
}

TEST_CASE("a cluster takes any number of whole nodes, or part of one", "[unit][library]") {
  for (const std::uint32_t gpus : {1U, 2U, 3U, 8U, 16U, 64U, 16384U}) {
    CAPTURE(gpus);
    Diagnostics d;
    const auto c = library.cluster("dgx-h100", ".", gpus, d);
    CHECK(render(d) == "");
    REQUIRE(c);
    CHECK(c->devices() == gpus);
    CHECK(c->nodes == (gpus < 8 ? 1 : gpus / 8));
    CHECK(c->levels[0].size * c->levels[1].size == gpus);
    CHECK(c->levels[0].size == std::min(gpus, 8U));
  }
  for (const std::uint32_t gpus : {0U, 9U, 12U, 2'000'000U}) {
    CAPTURE(gpus);
    Diagnostics d;
    CHECK_FALSE(library.cluster("dgx-h100", ".", gpus, d));
    REQUIRE(d.size() == 1);
    CHECK(d.list().front().code == "cluster.gpus");
  }
  Diagnostics d;
  CHECK_FALSE(library.cluster("colossal-system-1", ".", 16, d));  // one node without a network
}

TEST_CASE("an unknown name lists near ones", "[unit][library]") {
  Diagnostics d;
  CHECK_FALSE(library.model("llama-3-70", ".", d));
  REQUIRE(d.size() == 1);
  CHECK(d.list().front().code == "library.unknown-model");
  CHECK(d.list().front().details.front().find("llama-3-70b") != std::string::npos);
}

TEST_CASE("a path is relative to the file that names it", "[unit][library]") {
  Diagnostics d;
  const auto shipped = library.model("gpt2-124m", ".", d);
  const auto by_path = library.model("../model/gpt2-124m.toml", source_dir / "models" / "plan", d);
  CHECK(render(d) == "");
  CHECK(shipped == by_path);
}

TEST_CASE("a model is taken from a file of any name that holds JSON, and from a folder with a config.json",
          "[unit][library]") {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.file("models");
  std::filesystem::create_directories(folder / "folder");
  const std::string text = R"( {"model_type": "gpt2", "_name_or_path": "mine"})";
  for (const char* name : {"my-model.json", "model", "model.txt", "folder/config.json", "gpt2-355m"}) {
    std::ofstream(folder / name) << text;
  }
  for (const char* reference : {"my-model.json", "./my-model.json", "model", "./model", "model.txt", "folder",
                                "./folder", "folder/config.json", "./gpt2-355m"}) {
    CAPTURE(reference);
    Diagnostics d;
    const auto model = library.model(reference, folder, d);
    CHECK(render(d) == "");
    REQUIRE(model);
    CHECK(model->name == "mine");
    // Written into a plan it means the same file from any other folder.
    CHECK(library.model(library.portable_model(reference, folder), "/", d) == model);
  }
  // A shipped name stays what it is.
  Diagnostics d;
  CHECK(library.model("gpt2-355m", folder, d)->layers == 24);
  CHECK(library.portable_model("gpt2-355m", folder) == "gpt2-355m");
  CHECK(library.portable_model("no-such-model", folder) == "no-such-model");
  CHECK_FALSE(library.model("no-such-model", folder, d));
  CHECK(d.list().back().code == "library.unknown-model");
  std::filesystem::create_directories(folder / "empty");
  CHECK_FALSE(library.model("empty", folder, d));
  CHECK(d.list().back().code == "library.unknown-model");
  CHECK_FALSE(library.model("./", folder, d));
  CHECK(d.list().back().code == "file.open");
}

TEST_CASE("a reference that ends in #language is the language model alone", "[unit][library]") {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.file("models");
  std::filesystem::create_directories(folder / "folder");
  const std::string text = R"({"model_type": "llava", "_name_or_path": "mine"})";
  for (const char* name : {"my-model.json", "model", "folder/config.json"}) std::ofstream(folder / name) << text;
  for (const char* reference : {"my-model.json", "model", "folder", "./folder", "folder/config.json"}) {
    CAPTURE(reference);
    Diagnostics d;
    const std::string part = std::string(reference) + "#language";
    const auto whole = library.model(reference, folder, d), language = library.model(part, folder, d);
    CHECK(render(d) == "");
    REQUIRE((whole && language));
    CHECK(whole->counted);
    CHECK_FALSE(language->counted);
    CHECK(language->name == "mine-language");
    CHECK(library.model(library.portable_model(part, folder), "/", d) == language);
    CHECK(without_part(part).file == reference);
    CHECK(without_part(part).part == "language");
  }
  Diagnostics d;
  CHECK_FALSE(library.model("gpt2-124m#language", folder, d));
  CHECK(d.list().back().code == "hf.part");
  // A mark inside a path is no part.
  CHECK(without_part("a#b/config.json").part.empty());
  CHECK(without_part("config#1.json").part.empty());
  CHECK(without_part("#language").part.empty());
}
