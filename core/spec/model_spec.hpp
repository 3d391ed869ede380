#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/layer_kinds.hpp"
#include "core/spec/rope_scaling.hpp"

namespace orrery {

/// How the layers are put together.
///   decoder   causal language model, norms before each part (GPT, LLaMA)
///   bert      all positions see each other, norms after each part, masked language modelling
///   vit       patches of an image, all see each other, norms before each part, classification
enum class Architecture : std::uint8_t { decoder, bert, vit };

/// A mixture of experts in place of feed-forward layers.
struct Mixture {
  /// How the gates of the chosen experts are made: softmax over them (Mixtral); softmax over all experts (DeepSeek-V2);
  /// sigmoid, then divided by their sum (DeepSeek-V3).
  enum class Scores : std::uint8_t { softmax_chosen, softmax_all, sigmoid };
  /// What a group of experts is worth to a token: its best score (DeepSeek-V2); the sum of its two best (DeepSeek-V3).
  enum class GroupScore : std::uint8_t { best, two_best };
  std::uint32_t experts = 0;
  std::uint32_t per_token = 0;       ///< experts that a token visits
  std::uint64_t ffn = 0;             ///< width of one expert
  std::uint64_t shared_ffn = 0;      ///< width of the experts that every token visits, together; 0: none
  std::uint64_t first_dense = 0;     ///< layers before the first mixture
  std::uint64_t every = 1;           ///< from there on one layer in so many is a mixture, beginning with the first of
                                     ///< them
  std::vector<std::uint32_t> dense;  ///< numbers of further layers that are none, ascending
  Scores scores = Scores::softmax_chosen;
  double scale = 1.0;  ///< of the gates
  /// Device- or node-limited routing: experts form this many equal groups, by their numbers, and a token visits only
  /// experts of its best groups_per_token groups.
  std::uint32_t groups = 1;
  std::uint32_t groups_per_token = 1;
  GroupScore group_score = GroupScore::best;
  bool score_bias = false;   ///< each expert has a bias, without gradient, that only the choice sees
  bool router_bias = false;  ///< the router's product has a bias (gpt-oss)
  bool expert_bias = false;  ///< the experts' products have biases (gpt-oss)
  bool shared_gate = false;  ///< a sigmoid of one product per token scales what the shared experts give (Qwen2-MoE)
  friend bool operator==(const Mixture&, const Mixture&) = default;
};

/// Multi-head latent attention (DeepSeek-V2, 2024): keys and values are made
/// from a narrow vector per token, queries from another.
struct LatentAttention {
  std::uint64_t query_rank = 0;  ///< 0: queries are made from the stream
  std::uint64_t kv_rank = 0;
  std::uint64_t rope_dim = 0;   ///< features of a query or key head that rotate; all heads share the key's
  std::uint64_t value_dim = 0;  ///< width of a value head; head_dim is the width of a query or key head without
                                ///< rope_dim
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// A model with layers that Programs do not have. It is counted, but neither priced nor run.
struct CountedOnly {
  std::uint64_t parameters = 0;
  std::uint64_t active = 0;  ///< that one token meets; 0: all
  std::string because;       ///< what its layers are: "state-space layers"
  friend bool operator==(const CountedOnly&, const CountedOnly&) = default;
};

/// Describes what a vision transformer looks at. Its sequence is a class token, where it has one, and the patches, so
/// max_positions is image_positions.
struct Image {
  /// What its head sees: the class token (ViT); the mean of the patches (SigLIP, I-JEPA); both (DINOv2).
  enum class Pool : std::uint8_t { class_token, mean, class_and_mean };
  std::uint64_t size = 0;   ///< pixels on each side
  std::uint64_t patch = 0;  ///< pixels on each side of a patch
  std::uint64_t channels = 3;
  bool class_token = true;
  bool mask_token = false;  ///< one that is published and never met here, since no patch is masked (DINOv2)
  bool patch_bias = true;   ///< the product of patches has a bias
  bool head_bias = true;    ///< the head has a bias
  Pool pool = Pool::class_token;
  friend bool operator==(const Image&, const Image&) = default;
};

/// The model that is trained: layers between an embedding and a head (decoders, BERT, vision transformers). Layers are
/// alike but for what they see (`local`, `unrotated`) and for mixtures.
///
/// Widths are global, before any sharding. `vocabulary` is the real one, which a plan pads to a multiple of its tensor
/// size. For a vision transformer it is the number of classes.
struct ModelSpec {
  std::string name;
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;  ///< equal to heads without grouped-query attention
  std::uint64_t head_dim = 0;  ///< hidden / heads unless the model says otherwise
  std::uint64_t ffn = 0;       ///< width of the feed-forward layer (of each of gate and up for gated ones)
  std::uint64_t vocabulary = 0;
  std::uint64_t max_positions = 0;
  Norm norm = Norm::layer_norm;
  Activation activation = Activation::gelu;
  PositionEncoding positions = PositionEncoding::learned;
  Biases biases = Biases::of_layers(true);
  bool tied_embeddings = true;  ///< the LM head is the embedding table
  bool norm_weight = true;      ///< norms have weights; else no bias either (OLMo)
  bool norm_bias = true;        ///< layer norms have a bias
  bool embedding_norm = false;  ///< a norm follows the embedding (BLOOM, CLIP); BERT has one anyway
  bool layer_scale = false;     ///< vit: a weight for each feature scales what a branch adds to the stream (DINOv2)
  BranchNorms branch_norms = BranchNorms::before;
  ParallelBranches parallel = ParallelBranches::none;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  std::optional<LocalAttention> local;
  LayerPattern unrotated;             ///< rotary: layers whose queries and keys do not rotate (Llama-4, SmolLM3)
  bool sinks = false;                 ///< each head has a learned score of no key, which softmax counts (gpt-oss)
  double attention_scale = 0.0;       ///< of scores; 0: 1 / sqrt(width of a key)
  double attention_softcap = 0.0;     ///< scores are cap tanh(score / cap) (Gemma-2); 0: not
  double qkv_clip = 0.0;              ///< queries, keys and values are cut to -clip..clip (DBRX); 0: not
  double gate_limit = 0.0;            ///< gated: gate and product are cut to this; 0: not. With swiglu gpt-oss's gate
  double logit_softcap = 0.0;         ///< logits likewise
  double embedding_scale = 1.0;       ///< of the embedding's output (Gemma)
  double residual_scale = 1.0;        ///< of each branch (Granite)
  double logit_scale = 1.0;           ///< of the logits (Command-R)
  std::uint64_t rotary_dim = 0;       ///< features of a head that rotate, the first ones; 0: all (GPT-NeoX has fewer)
  std::uint64_t position_offset = 0;  ///< learned: rows of the table before that of the first position (OPT)
  Architecture architecture = Architecture::decoder;
  std::optional<Mixture> mixture;
  std::optional<LatentAttention> latent;
  std::optional<Image> image;            ///< vit
  std::optional<CountedOnly> counted;    ///< none: all of the model is described here
  std::uint64_t segments = 0;            ///< bert: kinds of tokens with an embedding of their own
  std::uint64_t prediction_modules = 0;  ///< further layers that predict tokens further ahead (DeepSeek-V3)
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  /// How released checkpoints stretch the rotary angles to longer sequences, one of rope_scaling_names(); empty means
  /// that they do not. Scaling costs nothing, so predictions hold with it. Without its numbers a model cannot be run.
  std::string rope_scaling;
  RopeStretch rope_stretch;
  std::string source;  ///< where the numbers come from
  Origin origin;
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// Most prediction modules that plans train.
inline constexpr std::uint32_t max_prediction_modules = 4;

/// Trainable parameters, exact to the unit.  The LM head counts once when tied. Of a model that is only counted, its
/// number is given.
///
///     GPT:    V h + S h + L (12 h^2 + 13 h) + 2 h            (tied, ffn = 4 h)
///     LLaMA:  2 V h + L (2 h a d + 2 h k d + 3 h f + 2 h) + h
///     BERT:   (V + S + G) h + 2 h + L (12 h^2 + 13 h) + h^2 + 3 h + V
///     ViT:    c P^2 h + 2 h + (N + 1) h + L (12 h^2 + 13 h) + 2 h + h C + C
///     ViT without a class token, or a bias of patches: h less for each; with scaled branches: 2 L h more; with a head
///             that sees class token and mean: h C more
///     mixture, per layer, for the 3 h f above:  3 h (E f_e + f_s) + h E
///     latent attention, per layer, for the 2 h a d + 2 h k d above:
///             h q + q + q a (d + r) + h (u + r) + u + u a (d + e) + a e h
///
/// Biases, norms and other vectors of the kinds in layer_kinds.hpp count with their widths: a bias as its product is
/// wide, norms of queries and keys 2 d or (a + k) d, sinks a, a router's bias E, an expert's f_e (2 f_e where gated) +
/// h.
///
/// V vocabulary, S positions, h hidden, L layers, a heads, k kv heads,
/// d head size, f ffn; G segments; P patch side, c channels, N patches,
/// C classes; q and u ranks of queries and of keys and values, r rope_dim,
/// e value_dim; E experts of width f_e, f_s width of shared ones (biases that
/// only the choice of experts sees are not trained and do not count).  BERT is trained on masked words: its head
/// counts, a pooler does not.  Source: the published architectures; checked against published counts in
/// tests/unit/core/spec.
[[nodiscard]] std::uint64_t parameter_count(const ModelSpec&);

/// Parameters that one token meets: only per_token of the experts in each layer.
[[nodiscard]] std::uint64_t active_parameter_count(const ModelSpec&);

/// The same as the model's authors count it. Mixtures have the E biases of a layer that only the choice of experts
/// sees. BERT has the pooler, h^2 + h, that its second task trains, and lacks the head of its first task (the model
/// called BERT-base has 109,482,240). A vision transformer has its mask token, h.
[[nodiscard]] std::uint64_t published_parameter_count(const ModelSpec&);

/// Parameters of one prediction module, which parameter_count leaves out, as its authors count it: a layer like the
/// model's last, a projection 2 h -> h and three norms. Embedding and head are the model's (DeepSeek-V3, 2024, section
/// 2.2).
[[nodiscard]] std::uint64_t prediction_module_parameter_count(const ModelSpec&);

/// Parameters of one transformer layer, which is a mixture where the model has some.
[[nodiscard]] std::uint64_t layer_parameter_count(const ModelSpec&);
/// Parameters of its attention: projections, their biases and inner norms.
[[nodiscard]] std::uint64_t attention_parameter_count(const ModelSpec&);

/// Whether the layer has a mixture for its feed-forward part: above first_dense, in steps of `every`, and not among
/// `dense`. Prediction modules have layers of the kind of the model's last.
[[nodiscard]] bool is_mixture(const ModelSpec&, std::uint64_t layer);
/// Number of layers as Programs and weights number them: the model's layers, then two for each prediction module,
/// namely the one that brings the stream and the tokens ahead together, and its transformer layer.
[[nodiscard]] std::uint64_t numbered_layers(const ModelSpec&);
/// Layers that are mixtures, prediction modules apart.
[[nodiscard]] std::uint64_t mixture_count(const ModelSpec&);
/// Whether some layers are mixtures and others are dense.
[[nodiscard]] bool mixes_kinds(const ModelSpec&);
/// Whether queries see only the keys of positions up to their own; otherwise they see all.
[[nodiscard]] bool is_causal(const ModelSpec&);
/// Whether the layer's queries see near keys alone, and whether its queries and keys rotate. Prediction modules have
/// layers of the kind of the model's last.
[[nodiscard]] bool is_local(const ModelSpec&, std::uint64_t layer);
[[nodiscard]] bool rotates(const ModelSpec&, std::uint64_t layer);
/// Norms of a layer's stream, those of queries and keys apart.
[[nodiscard]] std::uint64_t norms_per_layer(const ModelSpec&);
/// Width of a head's query and key, and of its value.
[[nodiscard]] std::uint64_t key_width(const ModelSpec&);
[[nodiscard]] std::uint64_t value_width(const ModelSpec&);
/// Positions of an image: its patches, and the class token where there is one.
[[nodiscard]] std::uint64_t image_positions(const Image&);
/// Whether the head sees the class token, and whether it sees the mean of the patches.
[[nodiscard]] bool sees_class_token(const Image&);
[[nodiscard]] bool sees_mean(const Image&);
/// Number of patches in an image, and of values (pixels times channels) in one patch.
[[nodiscard]] std::uint64_t patch_count(const Image&);
[[nodiscard]] std::uint64_t patch_width(const Image&);

}  // namespace orrery
