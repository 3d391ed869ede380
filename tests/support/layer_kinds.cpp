#include "tests/support/layer_kinds.hpp"

namespace orrery::test {
namespace {

void rms(ModelSpec& m) { m.norm = Norm::rms_norm; }
void layer_norm(ModelSpec& m) { m.norm = Norm::layer_norm; }
void rotary(ModelSpec& m) { m.positions = PositionEncoding::rotary; }
/// Half of the features of heads that have four.
void rotate_in_part(ModelSpec& m) {
  rotary(m);
  if (m.head_dim >= 4) m.rotary_dim = m.head_dim / 2;
}

void stretch(ModelSpec& m, const char* kind, const RopeStretch& by) {
  rotary(m);
  m.rope_theta = 20.0;  // pairs turn at different speeds within a few positions
  m.rope_scaling = kind;
  m.rope_stretch = by;
}

constexpr LayerKindCase singles[] = {
    {"norms of each head", [](ModelSpec& m) { rms(m), m.query_key_norm = QueryKeyNorm::head; }, false, false, true},
    {"norms of all heads", [](ModelSpec& m) { rms(m), m.query_key_norm = QueryKeyNorm::whole; }, false},
    {"norms of heads without weights",
     [](ModelSpec& m) { rms(m), rotary(m), m.query_key_norm = QueryKeyNorm::unweighted; }, false, false, true},
    {"geglu", [](ModelSpec& m) { m.activation = Activation::geglu; }},
    {"gates with a limit", [](ModelSpec& m) { m.activation = Activation::swiglu, m.gate_limit = 0.3; }, true, false,
     true},
    {"relu", [](ModelSpec& m) { m.activation = Activation::relu; }, true, false, true},
    {"squared relu", [](ModelSpec& m) { m.activation = Activation::squared_relu; }},
    {"quick gelu", [](ModelSpec& m) { m.activation = Activation::quick_gelu; }},
    {"biases of queries, keys and values",
     [](ModelSpec& m) {
       m.biases = {true, false, false, false};
     }},
    {"bias of attention's last product",
     [](ModelSpec& m) {
       m.biases = {false, true, false, false};
     }},
    {"biases of feed-forward layers",
     [](ModelSpec& m) {
       m.biases = {false, false, true, false};
     }},
    {"bias of the head",
     [](ModelSpec& m) {
       m.biases = {false, false, false, true};
     }},
    {"all biases",
     [](ModelSpec& m) {
       m.biases = {true, true, true, true};
     }},
    {"layer norms without a bias", [](ModelSpec& m) { layer_norm(m), m.norm_bias = false; }},
    {"layer norms without weights",
     [](ModelSpec& m) { layer_norm(m), m.norm_weight = m.norm_bias = m.tied_embeddings = false; }},
    {"rms norms without weights", [](ModelSpec& m) { rms(m), m.norm_weight = m.tied_embeddings = false; }},
    {"branches side by side behind one norm", [](ModelSpec& m) { m.parallel = ParallelBranches::one_norm; }, false},
    {"branches side by side behind two norms", [](ModelSpec& m) { m.parallel = ParallelBranches::two_norms; }, false},
    {"norms behind branches", [](ModelSpec& m) { m.branch_norms = BranchNorms::after; }},
    {"norms around branches", [](ModelSpec& m) { m.branch_norms = BranchNorms::both; }},
    {"heads that rotate in part", rotate_in_part},
    {"angles stretched evenly", [](ModelSpec& m) { stretch(m, "linear", {.factor = 2.5}); }},
    {"angles stretched beyond the trained length",
     [](ModelSpec& m) { stretch(m, "dynamic", {.factor = 2.0, .original = 3}); }},
    {"angles stretched by wavelength",
     [](ModelSpec& m) { stretch(m, "llama3", {.factor = 8.0, .original = 9, .slow = 0.2, .fast = 1.1}); }},
    {"angles stretched as YaRN does",
     [](ModelSpec& m) { stretch(m, "yarn", {.factor = 8.0, .original = 9, .slow = 0.2, .fast = 1.1}); }},
    {"angles stretched by a factor for each pair",
     [](ModelSpec& m) {
       stretch(m, "longrope", {.factor = 4.0, .original = 6});
       m.rope_stretch.short_factors = {1.1, 1.7};
       m.rope_stretch.long_factors = {2.0, 5.0};
       m.rope_stretch.short_factors.resize(m.head_dim / 2, 1.5);
       m.rope_stretch.long_factors.resize(m.head_dim / 2, 3.0);
     }},
    {"angles stretched by wavelength, with one bound",
     [](ModelSpec& m) { stretch(m, "llama3", {.factor = 8.0, .original = 9, .slow = 0.5, .fast = 0.5}); }},
    {"no positions", [](ModelSpec& m) { m.positions = PositionEncoding::none; }},
    {"a norm behind the embedding", [](ModelSpec& m) { m.embedding_norm = true; }},
    {"a scaled embedding", [](ModelSpec& m) { m.embedding_scale = 3.5; }},
    {"scaled branches", [](ModelSpec& m) { m.residual_scale = 0.22; }},
    {"scaled logits", [](ModelSpec& m) { m.logit_scale = 0.6; }},
    {"capped logits", [](ModelSpec& m) { m.logit_softcap = 4.0; }},
    {"clipped queries, keys and values", [](ModelSpec& m) { m.qkv_clip = 0.5; }, true, false, true},
    {"positions behind others in the table",
     [](ModelSpec& m) { m.positions = PositionEncoding::learned, m.position_offset = 2; }},
    {"biases of router and experts", [](ModelSpec& m) { m.mixture->router_bias = m.mixture->expert_bias = true; },
     false, true},
    {"a gate of the shared experts", [](ModelSpec& m) { m.mixture->shared_gate = m.mixture->shared_ffn > 0; }, false,
     true},
};

constexpr LayerKindCase families[] = {
    {"Qwen3", [](ModelSpec& m) { rms(m), rotary(m), m.biases = {}, m.query_key_norm = QueryKeyNorm::head; }, false,
     false, true},
    // Layers with norms of heads, and statistics of them, beside layers without.
    {"Llama-4",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {}, m.activation = Activation::swiglu;
       m.query_key_norm = QueryKeyNorm::unweighted, m.unrotated.every = 2;
     },
     false, false, true},
    {"Gemma-2",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {}, m.activation = Activation::geglu, m.branch_norms = BranchNorms::both;
       m.embedding_scale = 4.0, m.logit_softcap = 30.0, m.tied_embeddings = true;
     }},
    {"OLMo-2",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {}, m.activation = Activation::swiglu, m.branch_norms = BranchNorms::after;
       m.query_key_norm = QueryKeyNorm::whole;
     },
     false},
    {"GPT-NeoX",
     [](ModelSpec& m) {
       layer_norm(m), rotate_in_part(m), m.biases = Biases::of_layers(true), m.activation = Activation::gelu;
       m.parallel = ParallelBranches::two_norms, m.tied_embeddings = false;
     },
     false},
    {"Phi",
     [](ModelSpec& m) {
       layer_norm(m), rotate_in_part(m), m.biases = {true, true, true, true}, m.activation = Activation::gelu;
       m.parallel = ParallelBranches::one_norm, m.tied_embeddings = false;
     },
     false},
    {"Command-R",
     [](ModelSpec& m) {
       layer_norm(m), rotary(m), m.biases = {}, m.activation = Activation::swiglu, m.norm_bias = false;
       m.parallel = ParallelBranches::one_norm, m.logit_scale = 0.0625, m.tied_embeddings = true;
     },
     false},
    {"Granite",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {}, m.embedding_scale = 12.0, m.residual_scale = 0.22, m.logit_scale = 0.125;
     }},
    {"OPT",
     [](ModelSpec& m) {
       layer_norm(m), m.positions = PositionEncoding::learned, m.position_offset = 2, m.activation = Activation::relu;
       m.biases = Biases::of_layers(true);
     },
     true, false, true},
    {"Nemotron",
     [](ModelSpec& m) {
       layer_norm(m), rotate_in_part(m), m.biases = {}, m.activation = Activation::squared_relu;
       m.tied_embeddings = false;
     }},
    {"gpt-oss's experts",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {true, true, false, false}, m.activation = Activation::swiglu, m.gate_limit = 0.2;
       m.mixture->router_bias = m.mixture->expert_bias = true, m.mixture->shared_ffn = 0;
     },
     false, true, true},
    {"Qwen2-MoE",
     [](ModelSpec& m) {
       rms(m), rotary(m), m.biases = {true, false, false, false}, m.mixture->shared_gate = m.mixture->shared_ffn > 0;
     },
     false, true},
};

}  // namespace

std::span<const LayerKindCase> single_kinds() { return singles; }
std::span<const LayerKindCase> family_kinds() { return families; }

}  // namespace orrery::test
