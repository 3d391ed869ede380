#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "core/base/source_excerpt.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

// One wrong input per diagnostic of core/base and core/spec, and the exact text
// that a person sees.  docs/diagnostics.md lists the same codes.

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

const std::string good_model = R"(schema = 1
[model]
name = "m"
layers = 2
hidden = 64
heads = 4
ffn = 256
vocabulary = 100
max_positions = 32
norm = "layer_norm"
activation = "gelu"
positions = "learned"
bias = true
tied_embeddings = true
)";

const std::string good_cluster = R"(schema = 1
[cluster]
name = "c"
nodes = 2
devices_per_node = 4
device = "h100"
[[cluster.levels]]
name = "nvlink"
size = 4
bandwidth = "450 GB/s"
latency = "2 us"
[[cluster.levels]]
name = "infiniband"
size = 2
bandwidth = "400 Gbit/s"
latency = "5 us"
)";

const std::string good_workload = "schema = 1\n[workload]\nbatch = 8\nsequence = 16\n";

/// `text` with the first `from` replaced by `to`.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string model_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_model(text, "m.toml", d));
  return render(d);
}
std::string workload_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_workload(text, "w.toml", d));
  return render(d);
}
std::string cluster_error(const std::string& text) {
  Diagnostics d;
  const DeviceLookup lookup = [](const std::string& name, Diagnostics& more) { return library.device(name, more); };
  CHECK_FALSE(parse_cluster(text, "c.toml", lookup, d));
  return render(d);
}
std::string config_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_hf_config(text, "config.json", d));
  return render(d);
}

}  // namespace

TEST_CASE("the unchanged files are right", "[error]") {
  Diagnostics d;
  CHECK(parse_model(good_model, "m.toml", d));
  CHECK(parse_workload(good_workload, "w.toml", d));
  CHECK(parse_cluster(
      good_cluster, "c.toml", [](const std::string& n, Diagnostics& m) { return library.device(n, m); }, d));
  CHECK(render(d) == "");
}

TEST_CASE("file.open: a file that is not there", "[error]") {
  Diagnostics d;
  CHECK_FALSE(read_model_file("/nowhere/m.toml", d));
  CHECK(render(d) == "/nowhere/m.toml: error: there is no such file [file.open]\n");
}

TEST_CASE("the caret stands under its character, whatever stands before it", "[error]") {
  const auto shown = [](std::string_view line, std::uint32_t column) {
    const Excerpt e = excerpt(line, column);
    return e.line + "\n" + e.pad + "^";
  };
  CHECK(shown("\ta = 1", 2) == "\ta = 1\n\t^");
  CHECK(shown("\xc3\xa9 = 1", 5) == "\xc3\xa9 = 1\n    ^");           // one column
  CHECK(shown("\xe4\xb8\xad = 1", 5) == "\xe4\xb8\xad = 1\n     ^");  // two columns
  CHECK(shown("e\xcc\x81 = 1", 6) == "e\xcc\x81 = 1\n    ^");         // an accent above the letter
  CHECK(shown("\x1b[31m = 1", 8) == "\\x1b[31m = 1\n          ^");    // a colour, escaped
  CHECK(shown("\xff\xc0\x80\xed\xa0\x80 x", 8) ==
        "\\xff\\xc0\\x80\\xed\\xa0\\x80 x\n" + std::string(25, ' ') + "^");    // no UTF-8
  CHECK(shown("\xc2\x9b\xe2\x80\xae", 9) == "\\u009b\\u202e\n            ^");  // beyond the end
  CHECK(shown("", 3) == "\n^");
  const std::string many(1000, 'x');
  CHECK(shown(many, 1) == std::string(120, 'x') + "...\n^");
  CHECK(shown(many, 500) == "..." + std::string(120, 'x') + "...\n" + std::string(83, ' ') + "^");
  CHECK(shown(many, 1000) == "..." + std::string(120, 'x') + "\n" + std::string(122, ' ') + "^");
  CHECK(character_count("a\xc3\xa9\xff") == 3);
}

TEST_CASE("messages do not pass on what a terminal would obey", "[error]") {
  Diagnostics d;
  d.error("some.code", "a\x1b[2Jb\nc", {"one\ntwo\r"});
  CHECK(render(d) == "error: a\\x1b[2Jb\\x0ac [some.code]\n  one\ntwo\\x0d\n");
}

TEST_CASE("file.syntax: a line that is not TOML", "[error]") {
  const std::string text = with(good_model, "layers = 2", "layers 2");
  CHECK(model_error(text) ==
        R"(m.toml:4:8: error: not valid TOML: Error while parsing key-value pair: expected '=', saw '2' [file.syntax]
    4 | layers 2
      |        ^
)");
}

TEST_CASE("model.architecture: what BERT and ViT cannot be", "[error]") {
  const std::string bert = with(good_model, "layers = 2", "architecture = \"bert\"\nsegments = 2\nlayers = 2");
  Diagnostics d;
  CHECK(parse_model(bert, "m.toml", d));
  CHECK(model_error(with(bert, "activation = \"gelu\"", "activation = \"swiglu\"")) ==
        R"(m.toml:13:14: error: BERT has activation gelu [model.architecture]
   13 | activation = "swiglu"
      |              ^
  Set activation to gelu, or leave it out.
)");
  CHECK(model_error(with(bert, "heads = 4", "heads = 4\nkv_heads = 2")) ==
        R"(m.toml:9:12: error: BERT has a key and a value for every head [model.architecture]
    9 | kv_heads = 2
      |            ^
  kv_heads is 2, heads 4.
  Leave kv_heads out.
)");
}

const std::string good_image = R"(schema = 1
[model]
name = "v"
architecture = "vit"
layers = 2
hidden = 64
heads = 4
ffn = 256
[model.image]
size = 28
patch = 4
classes = 10
)";

TEST_CASE("model.image: patches that do not fill an image, and too large ones", "[error]") {
  Diagnostics d;
  const auto m = parse_model(good_image, "m.toml", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(m->max_positions == 50);  // 7 x 7 patches and the class token
  CHECK(m->vocabulary == 10);
  CHECK(model_error(with(good_image, "patch = 4", "patch = 5")) ==
        R"(m.toml:11:9: error: the side of a patch does not divide the image's [model.image]
   11 | patch = 5
      |         ^
  size is 28, and 28 / 5 leaves 3.
  Nearest divisors: 4, 7.
)");
  CHECK(model_error(with(with(good_image, "patch = 4", "patch = 2048"), "size = 28", "size = 2048")) ==
        R"(m.toml:10:8: error: the image is too large [model.image]
   10 | size = 2048
      |        ^
  It has 1 patches of 2048 x 2048 x 3 numbers; at most 16777215 patches of 1048576 numbers are allowed.
)");
  ModelSpec built = *m;
  built.max_positions = 49;
  built.origin = {};
  CHECK_FALSE(check_model(built, d));
  CHECK(render(d) ==
        "error: max_positions is not the class token and the patches [model.image]\n  It is 49; an image has 49 "
        "patches.\n");
}

TEST_CASE("model.latent: what latent attention needs", "[error]") {
  const std::string latent = with(
      with(with(with(good_model, "\"learned\"", "\"rotary\""), "\"layer_norm\"", "\"rms_norm\""), "bias = true",
           "bias = false"),
      "tied_embeddings = true", "tied_embeddings = true\n[model.latent]\nkv_rank = 8\nrope_dim = 4\nvalue_dim = 16");
  Diagnostics d;
  const auto m = parse_model(latent, "m.toml", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(parse_model(write_model(*m), "m.toml", d)->latent == m->latent);
  CHECK(model_error(with(latent, "rope_dim = 4", "rope_dim = 3")) ==
        R"(m.toml:17:12: error: rope_dim is odd: features rotate in pairs [model.latent]
   17 | rope_dim = 3
      |            ^
  It is 3.
)");
  CHECK(
      model_error(with(latent, "bias = false", "bias = true")) ==
      R"(m.toml:15:1: error: latent attention has rotary positions, rms_norm, no biases, and as many kv_heads as heads [model.latent]
   15 | [model.latent]
      | ^
  Set positions to rotary, norm to rms_norm, bias to false, and leave kv_heads out.
)");
}

TEST_CASE("file.schema: a version of the future", "[error]") {
  const std::string text = with(good_model, "schema = 1", "schema = 99");
  CHECK(model_error(text) == R"(m.toml:1:10: error: this model file is newer than this program [file.schema]
    1 | schema = 99
      |          ^
  Its schema is 99; this program reads up to 1.
)");
}

TEST_CASE("file.unknown-key: a slip in a key", "[error]") {
  const std::string text = with(good_model, "layers = 2", R"(layers = 2
layer = 3)");
  CHECK(model_error(text) == R"(m.toml:5:1: error: model.layer is not a known key [file.unknown-key]
    5 | layer = 3
      | ^
  Did you mean layers?
)");
}

TEST_CASE("file.missing-key: a key left out", "[error]") {
  const std::string text = with(good_model, R"(ffn = 256
)",
                                "");
  CHECK(model_error(text) == R"(m.toml:2:1: error: the key ffn is missing from [model] [file.missing-key]
    2 | [model]
      | ^
)");
}

TEST_CASE("file.type: text where a number belongs", "[error]") {
  const std::string text = with(good_model, "heads = 4", R"(heads = "four")");
  CHECK(model_error(text) == R"(m.toml:6:9: error: model.heads is text, but a whole number is wanted [file.type]
    6 | heads = "four"
      |         ^
)");
}

TEST_CASE("file.range: a number below its range", "[error]") {
  const std::string text = with(good_model, "layers = 2", "layers = -2");
  CHECK(model_error(text) == R"(m.toml:4:10: error: model.layers is out of range [file.range]
    4 | layers = -2
      |          ^
  It is -2; from 1 to 10000 is allowed.
)");
}

TEST_CASE("file.range: not a number", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
dropout = nan)");
  CHECK(workload_error(text) == R"(w.toml:4:11: error: workload.dropout is out of range [file.range]
    4 | dropout = nan
      |           ^
  It is nan; from 0 to below 1 is allowed.
)");
}

TEST_CASE("file.unit: a quantity without its unit", "[error]") {
  const std::string text = with(good_cluster, R"("450 GB/s")", R"("450")");
  CHECK(
      cluster_error(text) ==
      R"(c.toml:10:13: error: cluster.levels.0.bandwidth is not a quantity: the unit is missing; write for example "3.35 TB/s" [file.unit]
   10 | bandwidth = "450"
      |             ^
)");
}

TEST_CASE("file.unit: a bare number for a quantity", "[error]") {
  const std::string text = with(good_cluster, R"("450 GB/s")", "450");
  CHECK(
      cluster_error(text) ==
      R"(c.toml:10:13: error: cluster.levels.0.bandwidth is a whole number, but a quantity in quotes is wanted [file.unit]
   10 | bandwidth = 450
      |             ^
  Write for example "3.35 TB/s".
)");
}

TEST_CASE("file.choice: a name that is not known", "[error]") {
  const std::string text = with(good_model, R"("gelu")", R"("relu")");
  CHECK(model_error(text) == R"(m.toml:11:14: error: model.activation is "relu", which is not known [file.choice]
   11 | activation = "relu"
      |              ^
  Known: gelu, swiglu.
)");
}

TEST_CASE("model.heads: heads that do not divide", "[error]") {
  const std::string text = with(good_model, "heads = 4", "heads = 5");
  CHECK(model_error(text) == R"(m.toml:6:9: error: heads does not divide hidden [model.heads]
    6 | heads = 5
      |         ^
  hidden is 64, and 64 / 5 leaves 4.
  Give head_dim where the width of the heads is not hidden / heads.
)");
}

TEST_CASE("model.kv-heads: key heads that do not divide heads", "[error]") {
  const std::string text = with(good_model, "heads = 4", R"(heads = 4
kv_heads = 3)");
  CHECK(model_error(text) == R"(m.toml:7:12: error: kv_heads does not divide heads [model.kv-heads]
    7 | kv_heads = 3
      |            ^
  heads is 4, and 4 / 3 leaves 1.
  Nearest divisors: 2, 4.
)");
}

TEST_CASE("model.positions: rotary positions with odd heads", "[error]") {
  const std::string text = with(good_model, R"("learned")", R"("rotary"
head_dim = 15)");
  CHECK(model_error(text) == R"(m.toml:13:12: error: rotary positions need an even head_dim [model.positions]
   13 | head_dim = 15
      |            ^
  head_dim is 15.
)");
}

TEST_CASE("model.range: heads wider than any model", "[error]") {
  const std::string text = with(good_model, "heads = 4", R"(heads = 4096
head_dim = 4096)");
  CHECK(model_error(text) == R"(m.toml:6:9: error: heads times head_dim is out of range [model.range]
    6 | heads = 4096
      |         ^
  4096 x 4096 is 16777216; at most 1048576 is allowed.
)");
}

TEST_CASE("model.size: more parameters than can be", "[error]") {
  const std::string text = with(good_model, R"(layers = 2
hidden = 64
heads = 4
ffn = 256)",
                                R"(layers = 10000
hidden = 1048576
heads = 4
ffn = 1048576)");
  CHECK(model_error(text) == R"(m.toml:4:10: error: the model is too large [model.size]
    4 | layers = 10000
      |          ^
  It has 65,970,802,664,669,184 parameters; at most 1,125,899,906,842,624 are allowed.
)");
}

TEST_CASE("workload.range: a batch too large with its sequence", "[error]") {
  const std::string text = with(good_workload, R"(batch = 8
sequence = 16)",
                                R"(batch = 16777216
sequence = 16777216)");
  CHECK(workload_error(text) == R"(w.toml:3:9: error: batch times sequence is out of range [workload.range]
    3 | batch = 16777216
      |         ^
  16777216 x 16777216 is 281,474,976,710,656 tokens per step; at most 68,719,476,736 are allowed.
)");
}

TEST_CASE("file.range: a clip norm of nothing", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
clip_norm = 0)");
  CHECK(workload_error(text) == R"(w.toml:4:13: error: workload.clip_norm is out of range [file.range]
    4 | clip_norm = 0
      |             ^
  It is 0; above 0 and at most 1000000000 is allowed.
)");
}

TEST_CASE("file.range: dropout that leaves nothing", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
dropout = 1.0)");
  CHECK(workload_error(text) == R"(w.toml:4:11: error: workload.dropout is out of range [file.range]
    4 | dropout = 1.0
      |           ^
  It is 1; from 0 to below 1 is allowed.
)");
}

TEST_CASE("file.range: a range says which of its ends are allowed", "[error]") {
  CHECK(workload_error(good_workload + "[workload.optimizer]\nbeta1 = 1\n") ==
        R"(w.toml:6:9: error: workload.optimizer.beta1 is out of range [file.range]
    6 | beta1 = 1
      |         ^
  It is 1; from 0 to below 1 is allowed.
)");
  CHECK(workload_error(with(good_workload, "schema = 1", "schema = 0")) ==
        R"(w.toml:1:10: error: schema is out of range [file.range]
    1 | schema = 0
      |          ^
  It is 0; only 1 is allowed.
)");
  CHECK(cluster_error(with(good_cluster, "450 GB/s", "0.5 B/s")) ==
        R"(c.toml:10:13: error: cluster.levels.0.bandwidth is out of range [file.range]
   10 | bandwidth = "0.5 B/s"
      |             ^
  It is 0.5 B/s; from 1 B/s to 1000000 TB/s is allowed.
)");
}

TEST_CASE("workload.range and workload.dropout: workloads built in memory are checked too", "[error]") {
  Workload w;
  w.global_batch = w.sequence_length = 1;
  w.optimizer.beta1 = 1.0;
  w.clip_norm = 0.0;
  w.hidden_dropout = 1.0;
  Diagnostics d;
  CHECK_FALSE(check_workload(w, d));
  CHECK(render(d) == R"(error: optimizer.beta1 is out of range [workload.range]
  It is 1; from 0 to below 1 is allowed.
error: clip_norm is out of range [workload.range]
  It is 0; above 0 and at most 1e+09 is allowed. Leave it out for no clipping.
error: hidden_dropout is a probability below 1 [workload.dropout]
  It is 1.
)");
}

TEST_CASE("file.unknown-key: a slip in schema itself", "[error]") {
  CHECK(model_error(with(good_model, "schema = 1", "shema = 1")) ==
        R"(m.toml:1:1: error: shema is not a known key [file.unknown-key]
    1 | shema = 1
      | ^
  Did you mean schema?
)");
}

TEST_CASE("workload.data: a token file that is not there", "[error]") {
  CHECK(workload_error(good_workload + "data = \"nowhere.txt\"\n") ==
        R"(w.toml:5:8: error: there is no such token file [workload.data]
    5 | data = "nowhere.txt"
      |        ^
  It is looked for at nowhere.txt.
)");
}

TEST_CASE("workload.dropout: dropout set twice", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
dropout = 0.1
hidden_dropout = 0.1)");
  CHECK(workload_error(text) == R"(w.toml:5:18: error: dropout already sets this rate [workload.dropout]
    5 | hidden_dropout = 0.1
      |                  ^
  Give dropout, or the two rates.
)");
}

TEST_CASE("workload.gradient-dtype: gradients finer than their states", "[error]") {
  const std::string text = with(good_workload, "batch = 8", R"(batch = 8
gradient_dtype = "f64")");
  CHECK(workload_error(text) ==
        R"(w.toml:4:18: error: gradients cannot be accumulated in this type [workload.gradient-dtype]
    4 | gradient_dtype = "f64"
      |                  ^
  With precision bf16 it is bf16 or f32.
)");
}

TEST_CASE("workload.schedule: a schedule that ends in its warm-up", "[error]") {
  const std::string text = with(good_workload, "sequence = 16", R"(sequence = 16
[workload.schedule]
kind = "cosine"
warmup_steps = 10
total_steps = 10)");
  CHECK(workload_error(text) ==
        R"(w.toml:8:15: error: a falling schedule needs more steps in all than for its warm-up [workload.schedule]
    8 | total_steps = 10
      |               ^
  total_steps is 10, warmup_steps 10.
)");
}

TEST_CASE("cluster.levels: levels that miss a node", "[error]") {
  const std::string text = with(good_cluster, "size = 2", "size = 3");
  CHECK(cluster_error(text) ==
        R"(c.toml:7:1: error: the sizes of the levels do not multiply to the number of devices [cluster.levels]
    7 | [[cluster.levels]]
      | ^
  They give 12; 2 nodes of 4 are 8.
)");
}

TEST_CASE("cluster.levels: levels that cross a node", "[error]") {
  const std::string text = with(good_cluster, R"(nodes = 2
devices_per_node = 4)",
                                R"(nodes = 4
devices_per_node = 2)");
  CHECK(cluster_error(text) == R"(c.toml:7:1: error: no level ends where a node ends [cluster.levels]
    7 | [[cluster.levels]]
      | ^
  Sizes from the inside out must reach 2 devices, those of a node.
)");
}

TEST_CASE("cluster.size: more devices than can be", "[error]") {
  const std::string text = with(good_cluster, "nodes = 2", "nodes = 1000000");
  CHECK(cluster_error(text) == R"(c.toml:4:9: error: the cluster is too large [cluster.size]
    4 | nodes = 1000000
      |         ^
  1000000 x 4 is 4000000 devices; at most 1048576 are allowed.
)");
}

TEST_CASE("library.unknown-device: a device with another name", "[error]") {
  const std::string text = with(good_cluster, R"(device = "h100")", R"(device = "h10")");
  CHECK(cluster_error(text) == R"(c.toml:6:10: error: no device is named "h10" [library.unknown-device]
    6 | device = "h10"
      |          ^
  Nearest names: h100, h200, p100, v100.
)");
}

TEST_CASE("device.peak: a device that computes nothing", "[error]") {
  const std::string text = with(good_cluster, R"(device = "h100"
)",
                                R"([cluster.device]
name = "x"
memory = "1 GiB"
memory_bandwidth = "1 GB/s"
peak = {}
)");
  CHECK(cluster_error(text) == R"(c.toml:10:8: error: the device computes in no precision [device.peak]
   10 | peak = {}
      |        ^
  Give at least one peak: fp32 = "15.7 TFLOP/s".
)");
}

TEST_CASE("hf.syntax: half a file in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "llama",
)";
  CHECK(config_error(text) == R"(config.json:3:1: error: not valid JSON [hf.syntax]
)");
}

TEST_CASE("hf.model-type: another kind of model in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "mixtral"
})";
  CHECK(config_error(text) == R"(config.json:2:17: error: model type "mixtral" is not supported [hf.model-type]
    2 |   "model_type": "mixtral"
      |                 ^
  Supported: gpt2, llama, bert, vit, deepseek_v2, deepseek_v3.
  A model of another type with the same layers can be written as a .toml file: orrery show model gpt2-124m shows one.
)");
}

TEST_CASE("hf.missing-key: no model type in a config.json", "[error]") {
  const std::string text = R"({
  "hidden_size": 64
})";
  CHECK(config_error(text) == R"(config.json: error: the key model_type is missing [hf.missing-key]
  Supported: gpt2, llama, bert, vit, deepseek_v2, deepseek_v3.
)");
}

TEST_CASE("hf.type: text where a number belongs in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_layer": "12"
})";
  CHECK(config_error(text) == R"(config.json:3:14: error: n_layer is not a whole number [hf.type]
    3 |   "n_layer": "12"
      |              ^
)");
}

TEST_CASE("hf.type: a wrong number is the only mistake told of it", "[error]") {
  CHECK(config_error(R"({"model_type": "gpt2", "n_embd": 12.5, "n_head": 7})") ==
        R"(config.json:1:34: error: n_embd is not a whole number [hf.type]
    1 | {"model_type": "gpt2", "n_embd": 12.5, "n_head": 7}
      |                                  ^
)");
}

TEST_CASE("hf.unsupported: another scaling of rotary angles", "[error]") {
  const std::string text = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "vocab_size": 100,
  "rope_scaling": {"type": "spiral"}
})";
  CHECK(config_error(text) ==
        R"(config.json:4:19: error: rope_scaling of the kind "spiral" is not supported [hf.unsupported]
    4 |   "rope_scaling": {"type": "spiral"}
      |                   ^
  Supported: default, linear, dynamic, yarn, longrope, llama3.
)");
  for (const auto& [given, kind] : {std::pair{R"({"type": "linear", "factor": 2.0})", "linear"},
                                    std::pair{R"({"rope_type": "llama3", "factor": 8.0})", "llama3"},
                                    std::pair{R"({"rope_type": "default"})", ""}, std::pair{"null", ""}}) {
    Diagnostics d;
    const auto model = parse_hf_config(with(text, R"({"type": "spiral"})", given), "config.json", d);
    CHECK(render(d) == "");
    REQUIRE(model);
    CHECK(model->rope_scaling == kind);
    CHECK(parse_model(write_model(*model), "again.toml", d) == model);
  }
}

TEST_CASE("model.positions: scaled angles of positions that have none", "[error]") {
  CHECK(model_error(good_model + "rope_scaling = \"yarn\"\n") ==
        R"(m.toml:15:16: error: rope_scaling is of rotary positions [model.positions]
   15 | rope_scaling = "yarn"
      |                ^
  This model has none: leave it out, or set positions to rotary.
)");
}

TEST_CASE("a config.json names its model, else its folder does", "[error]") {
  const auto name = [](const std::string& own, const std::string& file) {
    Diagnostics d;
    const auto model = parse_hf_config(R"({"model_type": "gpt2", "_name_or_path": ")" + own + "\"}", file, d);
    CHECK(render(d) == "");
    return model ? model->name : "";
  };
  CHECK(name("openai/gpt2-xl", "/nowhere/some-folder/config.json") == "gpt2-xl");
  CHECK(name("", "/nowhere/some-folder/config.json") == "some-folder");
  CHECK(name("./", "/nowhere/some-folder/../other/config.json") == "other");
  CHECK(name("..", "/config.json") == "gpt2");
  CHECK(name("", "config.json") == std::filesystem::current_path().filename());
}

TEST_CASE("hf.range: a negative number in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_layer": -1
})";
  CHECK(config_error(text) == R"(config.json:3:14: error: n_layer is out of range [hf.range]
    3 |   "n_layer": -1
      |              ^
  It is -1; from 1 to 10000 is allowed.
)");
}

TEST_CASE("hf.unsupported: another activation in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "activation_function": "relu"
})";
  CHECK(config_error(text) == R"(config.json:3:26: error: activation_function "relu" is not supported [hf.unsupported]
    3 |   "activation_function": "relu"
      |                          ^
  Supported: gelu_new, gelu_pytorch_tanh, gelu_fast.
)");
}

TEST_CASE("model.heads: heads that do not divide in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_head": 13
})";
  CHECK(config_error(text) == R"(config.json:3:13: error: n_head does not divide n_embd [model.heads]
    3 |   "n_head": 13
      |             ^
  n_embd is 768, and 768 / 13 leaves 1.
)");
}

TEST_CASE("library.unknown-model and library.unknown-cluster name near ones", "[error]") {
  Diagnostics d;
  CHECK_FALSE(library.model("lama-3-70b", ".", d));
  CHECK_FALSE(library.cluster("dgx-h10", ".", std::nullopt, d));
  CHECK(render(d) == R"(error: no model is named "lama-3-70b" [library.unknown-model]
  Nearest names: llama-3-70b, llama-2-70b, llama-2-7b, llama-3-405b.
error: no cluster is named "dgx-h10" [library.unknown-cluster]
  Nearest names: dgx-h100, dgx-1v, dgx-a100, dgx-b200.
)");
}

TEST_CASE("cluster.gpus: numbers that are no whole nodes", "[error]") {
  Diagnostics d;
  CHECK_FALSE(library.cluster("dgx-h100", ".", 12, d));
  CHECK_FALSE(library.cluster("colossal-system-1", ".", 16, d));
  CHECK(render(d) == R"(error: 12 GPUs are not whole nodes of dgx-h100 [cluster.gpus]
  A node has 8. Nearest: 8, 16.
error: colossal-system-1 has no network between nodes [cluster.gpus]
  It is one node of 8; 16 were asked for.
)");
}

TEST_CASE("workload.size: a step that 64 bits cannot count", "[error]") {
  Diagnostics d;
  const auto model = library.model("gpt3-175b", ".", d);
  Workload w;
  w.global_batch = 4096;
  w.sequence_length = 1 << 24;
  REQUIRE(model);
  CHECK_FALSE(check_sizes(*model, w, d));
  // 2^12 sequences x 2^24 queries x 2^24 keys x 96 heads = 1.11e20 scores; 2^56 = 7.21e16.
  CHECK(render(d) == R"(error: one step of this model is too large to count [workload.size]
  The largest activation of a step has 1.11e+20 elements; at most 7.21e+16 are allowed.
)");
}

TEST_CASE("cluster.range and device.range: specs built in memory are checked too", "[error]") {
  Diagnostics d;
  auto cluster = library.cluster("dgx-h100", ".", std::nullopt, d);
  REQUIRE(cluster);
  cluster->origin = {};
  cluster->nodes = 0;
  cluster->device.memory = Bytes::of(-1.0);
  CHECK_FALSE(check_cluster(*cluster, d));
  CHECK(render(d) == R"(error: nodes is out of range [cluster.range]
  It is 0; from 1 to 1048576 is allowed.
error: memory is out of range [device.range]
  It is -1; from 1 to 9007199254740992 is allowed.
)");
}
