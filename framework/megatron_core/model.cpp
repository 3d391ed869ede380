#include <fmt/format.h>

#include <array>

#include "core/spec/spec_check.hpp"
#include "framework/launch/model_names.hpp"
#include "framework/megatron_core/read.hpp"

// The model of Megatron-LM's flags. Defaults are those of core/transformer/transformer_config.py and
// training/arguments.py, NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

class Model {
 public:
  explicit Model(MegatronFlags& f) : f_(f), r_(f.reading()) {}

  void read(std::uint64_t tensor) {
    m_.name = "model of the flags";
    const auto layers = size("--num-layers", "layers"), hidden = size("--hidden-size", "the width of the stream"),
               heads = size("--num-attention-heads", "attention heads");
    if (!layers || !hidden || !heads) {
      if (r_.known_model() == nullptr) absent(layers.has_value(), hidden.has_value());
      return elsewhere();
    }
    m_.layers = *layers, m_.hidden = *hidden, m_.heads = m_.kv_heads = *heads;
    m_.head_dim = size("--kv-channels", "the width of a head").value_or(m_.hidden / m_.heads);
    const bool gated = f_.on("--swiglu") || f_.on("--quick-geglu");
    // Without a width, gated layers get two thirds of 4 h, in multiples of 64 (validate_args).
    const std::uint64_t usual = f_.on("--swiglu") ? m_.hidden * 8 / 3 / 64 * 64 : m_.hidden * 4;
    m_.ffn = size("--ffn-hidden-size", "the width of feed-forward layers").value_or(usual);
    const auto groups = size("--num-query-groups", "key and value heads");
    if (f_.on("--group-query-attention")) m_.kv_heads = groups.value_or(1);
    f_.take("--group-query-attention", "key and value heads");
    kinds(gated);
    positions();
    attention();
    if (!read_megatron_experts(f_, m_)) return;
    if (const auto modules = size("--mtp-num-layers", "prediction modules")) m_.prediction_modules = *modules;
    vocabulary(tensor);
    m_.max_positions = f_.whole("--max-position-embeddings", 1).value_or(m_.max_positions);
    f_.take("--max-position-embeddings", "positions");
    if (const auto sequence = f_.whole("--seq-length", 1); sequence && *sequence > m_.max_positions) {
      m_.max_positions = *sequence;
    }
    if (m_.max_positions == 0) m_.max_positions = r_.given("workload.sequence").value_or(0);
    if (m_.max_positions == 0) {
      f_.error("--num-layers", "neither --seq-length nor --max-position-embeddings is given",
               {"--set sequence=N gives the length. Flags that a function of a script adds are not seen."});
      return;
    }
    Diagnostics wrong;
    if (m_.latent) fit_latent();
    if (check_model(m_, wrong)) return r_.model(std::move(m_));
    for (const Diagnostic& d : wrong.list())
      f_.error("--num-layers", "the model of the flags: " + d.message, d.details);
  }

 private:
  std::optional<std::uint64_t> size(const char* flag, const char* says) {
    const auto value = f_.whole(flag, 1, max_width);
    if (value) f_.take(flag, fmt::format("{} = {}", says, *value));
    return value;
  }

  /// The model's other flags, where its sizes stand elsewhere.
  void elsewhere() {
    f_.without_effect({"--num-layers",
                       "--hidden-size",
                       "--num-attention-heads",
                       "--ffn-hidden-size",
                       "--kv-channels",
                       "--group-query-attention",
                       "--num-query-groups",
                       "--normalization",
                       "--norm-epsilon",
                       "--layernorm-epsilon",
                       "--swiglu",
                       "--quick-geglu",
                       "--squared-relu",
                       "--disable-bias-linear",
                       "--add-qkv-bias",
                       "--untie-embeddings-and-output-weights",
                       "--activation-func-clamp-value",
                       "--position-embedding-type",
                       "--use-rotary-position-embeddings",
                       "--no-position-embedding",
                       "--rotary-*",
                       "--use-rope-scaling",
                       "--rope-*",
                       "--max-position-embeddings",
                       "--qk-*",
                       "--softmax-*",
                       "--window-*",
                       "--no-rope-freq",
                       "--make-vocab-size-divisible-by",
                       "--padded-vocab-size",
                       "--vocab-size",
                       "--multi-latent-attention",
                       "--q-lora-rank",
                       "--kv-lora-rank",
                       "--v-head-dim",
                       "--num-experts",
                       "--moe-ffn-hidden-size",
                       "--moe-layer-freq",
                       "--moe-shared-expert-intermediate-size",
                       "--moe-shared-expert-gate",
                       "--moe-router-*",
                       "--moe-expert-capacity-factor",
                       "--original-max-position-embeddings",
                       "--mtp-num-layers"},
                      "the model stands elsewhere");
  }

  void absent(bool layers, bool hidden) {
    const char* missing = !layers ? "--num-layers" : !hidden ? "--hidden-size" : "--num-attention-heads";
    if (f_.has(missing)) return;                                         // said already
    if (!layers && !hidden && !f_.has("--use-checkpoint-args")) return;  // LaunchReading asks for a model
    const bool stored = f_.on("--use-checkpoint-args");
    f_.error(stored ? "--use-checkpoint-args" : missing,
             stored ? std::string("the model's sizes stand in a checkpoint") : fmt::format("{} is missing", missing),
             {"Give a name or a config.json with --model."});
  }

  void kinds(bool gated) {
    if (const auto norm = f_.word("--normalization", {"LayerNorm", "RMSNorm"})) {
      m_.norm = *norm == "RMSNorm" ? Norm::rms_norm : Norm::layer_norm;
      f_.take("--normalization", "norms");
    }
    for (const char* flag : {"--norm-epsilon", "--layernorm-epsilon"}) {
      if (const auto epsilon = f_.real(flag)) m_.norm_epsilon = *epsilon;
      f_.take(flag, "norms");
    }
    if (gated) m_.activation = f_.on("--swiglu") ? Activation::swiglu : Activation::geglu;
    if (f_.on("--squared-relu")) m_.activation = Activation::squared_relu;
    for (const char* flag : {"--swiglu", "--quick-geglu", "--squared-relu"}) f_.take(flag, "the activation");
    const bool bias = !f_.on("--disable-bias-linear");
    m_.biases = Biases::of_layers(bias);
    if (f_.on("--add-qkv-bias")) m_.biases.qkv = true;
    f_.take("--disable-bias-linear", "no biases");
    f_.take("--add-qkv-bias", "biases of queries, keys and values");
    m_.tied_embeddings = !f_.on("--untie-embeddings-and-output-weights");
    f_.take("--untie-embeddings-and-output-weights", "a head of its own");
    const char* limit = "--activation-func-clamp-value";
    if (const auto value = f_.real(limit); value && f_.on("--quick-geglu")) {
      m_.gate_limit = *value;
      // gpt-oss's gate, which plans name swiglu with a limit.
      if (f_.real("--glu-linear-offset") == 1.0) m_.activation = Activation::swiglu;
      f_.take(limit, "gate_limit");
      f_.take("--glu-linear-offset", "the gate");
    } else {
      f_.without_effect(limit, "values that are cut cost no time and no memory");
    }
    if (f_.on("--apply-residual-connection-post-layernorm"))
      f_.error("--apply-residual-connection-post-layernorm",
               "residual connections that start behind the norm are not in plans");
  }

  void positions() {
    std::string kind = f_.on("--use-rotary-position-embeddings") ? "rope" : "learned_absolute";
    f_.take("--use-rotary-position-embeddings", "rotary positions");
    if (const auto word =
            f_.word("--position-embedding-type", {"learned_absolute", "rope", "yarn", "mrope", "relative", "none"})) {
      kind = *word;
      f_.take("--position-embedding-type", "positions");
    }
    if (f_.on("--no-position-embedding")) kind = "none";
    f_.take("--no-position-embedding", "positions");
    if (kind == "mrope" || kind == "relative")
      return f_.error("--position-embedding-type", fmt::format("{} positions are not in plans", kind));
    m_.positions = kind == "none"               ? PositionEncoding::none
                   : kind == "learned_absolute" ? PositionEncoding::learned
                                                : PositionEncoding::rotary;
    const bool rotary = m_.positions == PositionEncoding::rotary;
    if (const auto theta = f_.real("--rotary-base"); theta && rotary) m_.rope_theta = *theta;
    f_.take("--rotary-base", "rope_theta");
    if (const auto share = f_.real("--rotary-percent"); share && rotary && *share > 0.0 && *share < 1.0)
      m_.rotary_dim = static_cast<std::uint64_t>(static_cast<double>(m_.head_dim) * *share);
    f_.take("--rotary-percent", "rotary_dim");
    const auto factor = f_.real("--rope-scaling-factor");
    if (rotary && f_.on("--use-rope-scaling")) {
      m_.rope_scaling = "llama3";
      m_.rope_stretch.factor = factor.value_or(8.0);
      m_.rope_stretch.original = 8192;
      m_.rope_stretch.slow = 1.0, m_.rope_stretch.fast = 4.0;
    }
    if (const auto linear = f_.real("--rotary-seq-len-interpolation-factor"); linear && rotary) {
      m_.rope_scaling = "linear";
      m_.rope_stretch = {};
      m_.rope_stretch.factor = *linear;
    }
    for (const char* flag : {"--use-rope-scaling", "--rope-scaling-factor", "--rotary-seq-len-interpolation-factor"})
      f_.take(flag, "rope_scaling");
  }

  void attention() {
    const bool latent = f_.on("--multi-latent-attention");
    if (!latent && f_.on("--qk-layernorm") && m_.norm == Norm::layer_norm)
      f_.refuse("--qk-layernorm", "queries and keys have layer norms", "none");
    else if (!latent && f_.on("--qk-layernorm"))
      m_.query_key_norm = QueryKeyNorm::head;
    if (latent || m_.query_key_norm == QueryKeyNorm::head)
      f_.take("--qk-layernorm", latent ? "norms of the latent vectors" : "norms of queries and keys");
    if (!latent && f_.on("--qk-l2-norm")) m_.query_key_norm = QueryKeyNorm::unweighted;
    f_.take("--qk-l2-norm", "norms of queries and keys");
    if (const auto scale = f_.real("--softmax-scale")) m_.attention_scale = *scale;
    f_.take("--softmax-scale", "attention_scale");
    if (const auto sinks = f_.word("--softmax-type", {"vanilla", "off-by-one", "learnable"})) {
      m_.sinks = *sinks == "learnable";
      f_.take("--softmax-type", "sinks");
    }
    window();
    if (const auto every = f_.text("--no-rope-freq")) {
      const auto chosen = megatron_mixture_layers(*every, m_.layers);
      if (!chosen)
        return f_.error("--no-rope-freq", "--no-rope-freq names no layers", {fmt::format("It is {}.", *every)});
      // A number takes the last of each so many, a list says it of each layer.
      std::vector<bool> still = *chosen;
      if (every->find('[') == std::string::npos) {
        const std::uint64_t n = f_.whole("--no-rope-freq", 1).value_or(1);
        for (std::uint64_t l = 0; l < m_.layers; ++l) still[l] = (l + 1) % n == 0;
      }
      if (m_.positions == PositionEncoding::rotary) m_.unrotated = LayerPattern::of(still);
      f_.take("--no-rope-freq", "unrotated");
    }
  }

  void window() {
    std::string digits;
    for (const std::string& w : f_.words("--window-size")) digits += w + " ";
    if (digits.empty()) return;
    std::uint64_t before = 0;
    std::size_t i = digits.find_first_of("0123456789");
    for (; i < digits.size() && digits[i] >= '0' && digits[i] <= '9' && before < max_sequence; ++i)
      before = before * 10 + static_cast<std::uint64_t>(digits[i] - '0');
    if (before == 0) return f_.error("--window-size", "--window-size has no number of keys");
    LocalAttention local;
    local.size = before + 1;  // the key of the query itself is one more
    if (const auto skip = f_.text("--window-attn-skip-freq")) {
      const auto chosen = megatron_mixture_layers(*skip, m_.layers);
      if (!chosen) return f_.error("--window-attn-skip-freq", "--window-attn-skip-freq names no layers");
      // A list has 1 where the window holds; a number has the last of each so many without it.
      std::vector<bool> global(m_.layers);
      const bool list = skip->find('[') != std::string::npos;
      const std::uint64_t n = list ? 1 : f_.whole("--window-attn-skip-freq", 1).value_or(1);
      for (std::uint64_t l = 0; l < m_.layers; ++l) global[l] = list ? !(*chosen)[l] : (l + 1) % n == 0;
      local.global = LayerPattern::of(global);
      f_.take("--window-attn-skip-freq", "layers that see all keys");
    }
    m_.local = local;
    f_.take("--window-size", fmt::format("attention to {} keys", local.size));
  }

  /// Latent attention here has no biases, and a key head for each query head.
  void fit_latent() {
    m_.kv_heads = m_.heads;
    if (m_.biases.in_layers())
      f_.refuse("--multi-latent-attention", "its products have biases here", "products without biases");
    m_.biases = {};
  }

  void vocabulary(std::uint64_t tensor) {
    const std::uint64_t part = f_.whole("--make-vocab-size-divisible-by", 1, max_vocabulary).value_or(128);
    f_.take("--make-vocab-size-divisible-by", "the padding of the vocabulary");
    std::uint64_t v = 0;
    for (const char* flag : {"--padded-vocab-size", "--vocab-size"}) {
      const auto said = f_.whole(flag, 1, max_vocabulary);
      if (said && v == 0) v = *said;
      f_.take(flag, "the vocabulary");
    }
    if (v == 0) v = of_tokenizer();
    const std::uint64_t multiple = part * tensor;
    m_.vocabulary = part > 1 && multiple < max_vocabulary ? (v + multiple - 1) / multiple * multiple : v;
  }

  /// The vocabulary of a tokenizer that the flags name; else GPT-2's is assumed.
  std::uint64_t of_tokenizer() {
    struct Known {
      std::string_view type;
      std::uint64_t vocabulary;
    };
    static constexpr std::array known{Known{"GPT2BPETokenizer", 50257}, Known{"Llama2Tokenizer", 32000},
                                      Known{"Llama3Tokenizer", 128256}, Known{"TikTokenizer", 131072}};
    if (const auto given = r_.given("vocabulary")) {
      r_.assume_of_model("vocabulary", std::to_string(*given), "as --set says");
      return *given;
    }
    const std::string type = f_.known_text("--tokenizer-type").value_or("GPT2BPETokenizer");
    if (const auto name = f_.known_text("--tokenizer-model"); name && type == "HuggingFaceTokenizer") {
      if (const auto shipped = shipped_model_of(*name, r_.library())) {
        Diagnostics ignored;
        if (const auto model = r_.library().model(*shipped, "", ignored)) {
          f_.take("--tokenizer-model", fmt::format("a vocabulary of {}", model->vocabulary));
          return model->vocabulary;
        }
      }
    }
    std::uint64_t out = 0;
    for (const Known& k : known) {
      if (k.type == type) out = k.vocabulary;
    }
    if (out == 0) out = 50257;
    r_.assume_of_model("vocabulary", std::to_string(out), "the file leaves it to the tokenizer (--set vocabulary=N)");
    return out;
  }

  MegatronFlags& f_;
  LaunchReading& r_;
  ModelSpec m_;
};

}  // namespace

void read_megatron_model(MegatronFlags& flags, std::uint64_t tensor) { Model(flags).read(tensor); }

}  // namespace orrery
