#include <catch2/catch.hpp>

#include <filesystem>

#include "core/spec/model_level.hpp"
#include "core/spec/spec_check.hpp"
#include "tests/error/core/spec_cases.hpp"

// Models, workloads, clusters and devices with mistakes: one wrong input for each code of core/spec, and the exact
// text.

using namespace orrery;
using namespace orrery::test;

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

TEST_CASE("model.image: a head sees what there is", "[error]") {
  const std::string bare = good_image + "class_token = false\n";
  CHECK(model_error(bare + "pool = \"class_and_mean\"\n") ==
        R"(m.toml:14:8: error: the head sees a class token that there is not [model.image]
   14 | pool = "class_and_mean"
      |        ^
  Set pool to class_token or class_and_mean where there is a class token, to mean where there is none.
)");
  CHECK(model_error(good_image + "pool = \"mean\"\n") ==
        R"(m.toml:13:8: error: the head does not see the class token [model.image]
   13 | pool = "mean"
      |        ^
  Set pool to class_token or class_and_mean where there is a class token, to mean where there is none.
)");
  Diagnostics d;
  const auto m = parse_model(bare + "pool = \"mean\"\npatch_bias = false\nhead_bias = false\n", "m.toml", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(m->max_positions == 49);
  CHECK(parse_model(write_model(*m), "m.toml", d)->image == m->image);
  ModelSpec built = *m;
  built.max_positions = 50;
  built.origin = {};
  CHECK_FALSE(check_model(built, d));
  CHECK(render(d) == "error: max_positions is not the patches [model.image]\n  It is 50; an image has 49 patches.\n");
}

TEST_CASE("model.layer-kinds: weights of features are a vision transformer's", "[error]") {
  CHECK(model_error(with(good_model, "bias = true", "bias = true\nfeature_scale = true")) ==
        R"(m.toml:14:17: error: only vision transformers scale their branches by features [model.layer-kinds]
   14 | feature_scale = true
      |                 ^
  Leave feature_scale out.
)");
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
      R"(m.toml:15:1: error: latent attention needs rotary positions, rms_norm, no biases, and as many kv_heads as heads [model.latent]
   15 | [model.latent]
      | ^
  Set positions to rotary, norm to rms_norm, bias to false, and leave kv_heads out.
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

TEST_CASE("workload.range and workload.dropout: workloads built in memory are checked too", "[error]") {
  Workload w;
  w.global_batch = w.sequence_length = 1;
  w.optimizer.beta1 = 1.0;
  w.clip_norm = 0.0;
  w.hidden_dropout = 1.0;
  w.optimizer.trust_coefficient = 0.0;
  w.optimizer.trust_clip = -2.0;
  Diagnostics d;
  CHECK_FALSE(check_workload(w, d));
  CHECK(render(d) == R"(error: optimizer.beta1 is out of range [workload.range]
  It is 1; from 0 to below 1 is allowed.
error: optimizer.trust_coefficient is out of range [workload.range]
  It is 0; above 0 and at most 1e+09 is allowed.
error: optimizer.trust_clip is out of range [workload.range]
  It is -2; above 0 and at most 1e+09 is allowed.
error: clip_norm is out of range [workload.range]
  It is 0; above 0 and at most 1e+09 is allowed. Leave it out for no clipping.
error: hidden_dropout must be from 0 to below 1 [workload.dropout]
  It is 1.
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

TEST_CASE("workload.adapters: a matrix that takes no adapter, and none", "[error]") {
  const std::string text = good_workload + "[workload.adapters]\nrank = 8\nmatrices = [\"q\", \"head\"]\n";
  CHECK(workload_error(text) == R"(w.toml:7:12: error: "head" is no matrix that takes an adapter [workload.adapters]
    7 | matrices = ["q", "head"]
      |            ^
  The matrices are q, k, v, o, gate, up and down; all stands for all of them.
)");
  CHECK(
      workload_error(good_workload + "[workload.adapters]\nrank = 8\nbase = \"int8\"\ndouble_quantization = true\n") ==
      R"(w.toml:8:23: error: only the scales of nf4 are quantized a second time [workload.adapters]
    8 | double_quantization = true
      |                       ^
  base is "int8".
  Write base = "nf4", or leave double_quantization out.
)");
  CHECK(workload_error(with(text, "\"q\", \"head\"", "")).find("adapters need a matrix [workload.adapters]") !=
        std::string::npos);
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
  With precision bf16 it must be bf16 or f32.
)");
}

TEST_CASE("workload.master-weights: no masters where there are none, or in fp16", "[error]") {
  CHECK(workload_error(with(good_workload, "batch = 8", "batch = 8\nprecision = \"fp32\"\nmaster_weights = false")) ==
        R"(w.toml:5:18: error: there are no master weights to leave out [workload.master-weights]
    5 | master_weights = false
      |                  ^
  With precision fp32 the optimizer updates the weights themselves.
  Leave out master_weights, or use bf16 or fp8.
)");
  CHECK(workload_error(with(good_workload, "batch = 8", "batch = 8\nprecision = \"fp16\"\nmaster_weights = false")) ==
        R"(w.toml:5:18: error: fp16 needs master weights [workload.master-weights]
    5 | master_weights = false
      |                  ^
  Squares of gradients leave the range of fp16, and loss scaling takes gradients of fp32 weights.
  Leave out master_weights, or use bf16.
)");
}

TEST_CASE("workload.moment-dtype: moments in a type that they cannot have, or none", "[error]") {
  CHECK(workload_error(with(good_workload, "batch = 8", "batch = 8\nmoment_dtype = \"f16\"")) ==
        R"(w.toml:4:16: error: optimizer moments cannot be kept in this type [workload.moment-dtype]
    4 | moment_dtype = "f16"
      |                ^
  With weights in bf16 they must be f32, bf16, f8 or u8.
)");
  CHECK(workload_error(with(good_workload, "batch = 8", "batch = 8\nprecision = \"fp64\"\nmoment_dtype = \"bf16\"")) ==
        R"(w.toml:5:16: error: optimizer moments cannot be kept in this type [workload.moment-dtype]
    5 | moment_dtype = "bf16"
      |                ^
  With precision fp64 they must be f64.
)");
  CHECK(workload_error(with(good_workload, "batch = 8",
                            "batch = 8\nmoment_dtype = \"bf16\"\noptimizer = { kind = "
                            "\"adafactor\" }")) ==
        R"(w.toml:4:16: error: the optimizer keeps no moments [workload.moment-dtype]
    4 | moment_dtype = "bf16"
      |                ^
  Adafactor keeps sums over rows and columns, always in f32.
  Leave out moment_dtype.
)");
  CHECK(workload_error(with(good_workload, "batch = 8",
                            "batch = 8\nmoment_dtype = \"bf16\"\noptimizer = { kind = "
                            "\"lamb\" }")) ==
        R"(w.toml:4:16: error: LAMB cannot keep rounded moments [workload.moment-dtype]
    4 | moment_dtype = "bf16"
      |                ^
  Its update reads the moments again after the norms, which would then be those of another update.
  Leave out moment_dtype, or use adam.
)");
}

TEST_CASE("workload.moment-dtype: moments in f8 of another optimizer than Adam", "[error]") {
  CHECK(workload_error(
            with(good_workload, "batch = 8", "batch = 8\nmoment_dtype = \"f8\"\noptimizer = { kind = \"sgd\" }")) ==
        R"(w.toml:4:16: error: only Adam can keep its moments in f8 [workload.moment-dtype]
    4 | moment_dtype = "f8"
      |                ^
  Its first moment is f8 and its second f16, with scales.
  Set moment_dtype to bf16, or use adam.
)");
}

TEST_CASE("workload.moment-dtype: moments in codes of a byte of another optimizer than Adam", "[error]") {
  CHECK(workload_error(
            with(good_workload, "batch = 8", "batch = 8\nmoment_dtype = \"u8\"\noptimizer = { kind = \"lars\" }")) ==
        R"(w.toml:4:16: error: only Adam can keep its moments in u8 [workload.moment-dtype]
    4 | moment_dtype = "u8"
      |                ^
  Both moments are codes of a byte, with scales.
  Set moment_dtype to bf16, or use adam.
)");
}

TEST_CASE("workload.schedule: a schedule that ends in its warm-up", "[error]") {
  const std::string text = with(good_workload, "sequence = 16", R"(sequence = 16
[workload.schedule]
kind = "cosine"
warmup_steps = 10
total_steps = 10)");
  CHECK(workload_error(text) ==
        R"(w.toml:8:15: error: a falling learning rate needs total_steps above warmup_steps [workload.schedule]
    8 | total_steps = 10
      |               ^
  total_steps is 10, and warmup_steps is 10.
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
  CHECK(cluster_error(text) == R"(c.toml:7:1: error: no level ends at the edge of a node [cluster.levels]
    7 | [[cluster.levels]]
      | ^
  The sizes, multiplied from the innermost level on, must reach 2, the devices of a node.
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
  Nearest names: a10, h100, h100-96, h20.
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
  CHECK(cluster_error(text) == R"(c.toml:10:8: error: the device has no peak rate in any precision [device.peak]
   10 | peak = {}
      |        ^
  Give at least one peak: fp32 = "15.7 TFLOP/s".
)");
}

TEST_CASE("model.positions: scaled angles of positions that have none", "[error]") {
  CHECK(model_error(good_model + "rope_scaling = \"yarn\"\n") ==
        R"(m.toml:15:16: error: rope_scaling needs rotary positions [model.positions]
   15 | rope_scaling = "yarn"
      |                ^
  This model has none: leave it out, or set positions to rotary.
)");
}

TEST_CASE("model.rope: numbers of a scaling without its kind, out of order, or too few", "[error]") {
  std::string rotary = good_model;
  const std::string learned = "positions = \"learned\"";
  rotary.replace(rotary.find(learned), learned.size(), "positions = \"rotary\"");
  CHECK(model_error(rotary + "\n[model.rope]\nfactor = 2.0\n") ==
        R"(m.toml:16:1: error: [model.rope] has numbers of a scaling that the model does not name [model.rope]
   16 | [model.rope]
      | ^
  Name the kind in rope_scaling, or leave [model.rope] out.
)");
  CHECK(model_error(rotary + "rope_scaling = \"yarn\"\n[model.rope]\nfactor = 2.0\nslow = 5.0\nfast = 4.0\n") ==
        R"(m.toml:18:8: error: slow must not be above fast [model.rope]
   18 | slow = 5.0
      |        ^
  slow is 5, and fast is 4.
)");
  CHECK(model_error(rotary + "rope_scaling = \"longrope\"\n[model.rope]\nfactor = 2.0\nlong_factors = [2.0]\n") ==
        R"(m.toml:16:1: error: longrope needs a factor for each pair of features [model.rope]
   16 | [model.rope]
      | ^
  short_factors has 0 and long_factors 1; 8 pairs rotate.
)");
}

TEST_CASE("model.layer-kinds: branches side by side whose norms follow them", "[error]") {
  CHECK(model_error(good_model + "parallel = \"one_norm\"\nbranch_norms = \"after\"\n") ==
        R"(m.toml:15:12: error: branches side by side have their norms before them [model.layer-kinds]
   15 | parallel = "one_norm"
      |            ^
  Leave branch_norms out.
)");
}

TEST_CASE("model.layer-kinds: layers that the model does not have", "[error]") {
  CHECK(model_error(good_model + "\n[model.local]\nsize = 4\nglobal_layers = [1, 99]\n") ==
        R"(m.toml:18:17: error: local.global_layers must name layers of the model in ascending order [model.layer-kinds]
   18 | global_layers = [1, 99]
      |                 ^
  It has 99 at place 2; the model's layers are 0 to 1.
)");
}

TEST_CASE("model.counted: a plan of a model that is only counted", "[error]") {
  Diagnostics d;
  const auto model =
      parse_model(good_model + "\n[model.counted]\nparameters = 1000\nbecause = \"recurrences\"\n", "m.toml", d);
  REQUIRE(model);
  CHECK_FALSE(check_priced(*model, d));
  CHECK(render(d) == R"(m.toml:2:1: error: m is counted, but not priced: plans do not have recurrences [model.counted]
    2 | [model]
      | ^
  It has 1,000 parameters. orrery show model tells what else is known of it.
)");
  CHECK(model_error(good_model + "\n[model.counted]\nparameters = 10\nactive = 11\nbecause = \"x\"\n") ==
        R"(m.toml:16:1: error: a model that is only counted needs its parameters and the reason [model.counted]
   16 | [model.counted]
      | ^
  parameters is 10, active 11; from 1 to 1125899906842624 parameters are allowed, and no more active ones.
)");
}

TEST_CASE("library.unknown-model and library.unknown-cluster name near ones", "[error]") {
  Diagnostics d;
  CHECK_FALSE(library.model("lama-3-70b", ".", d));
  CHECK_FALSE(library.cluster("dgx-h10", ".", std::nullopt, d));
  CHECK(render(d) == R"(error: no model is named "lama-3-70b" [library.unknown-model]
  Nearest names: llama-3-70b, llama-2-70b, llama-3.1-70b, llama-2-7b.
error: no cluster is named "dgx-h10" [library.unknown-cluster]
  Nearest names: dgx-h100, dgx-1v, dgx-a100, dgx-h200.
)");
}

TEST_CASE("cluster.gpus: numbers that are no whole nodes", "[error]") {
  Diagnostics d;
  CHECK_FALSE(library.cluster("dgx-h100", ".", 12, d));
  CHECK_FALSE(library.cluster("colossal-system-1", ".", 16, d));
  CHECK(render(d) == R"(error: 12 GPUs are not a whole number of nodes of dgx-h100 [cluster.gpus]
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
  cluster->disk = DiskSpec{Bytes::of(1e12), Bandwidth::of(2e9), Bandwidth::of(1e9), Seconds::of(-1.0)};
  CHECK_FALSE(check_cluster(*cluster, d));
  CHECK(render(d) == R"(error: nodes is out of range [cluster.range]
  It is 0; from 1 to 1048576 is allowed.
error: disk.latency is out of range [cluster.range]
  It is -1; from 0 to 1000 is allowed.
error: memory is out of range [device.range]
  It is -1; from 1 to 9007199254740992 is allowed.
)");
}
