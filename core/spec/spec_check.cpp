#include "core/spec/spec_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/layer_kinds_file.hpp"
#include "core/spec/mixture_file.hpp"
#include "core/spec/rope_file.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

/// Adds a mistake at `path`.`key` and remembers that there was one.
class Checker {
 public:
  Checker(const Origin& origin, std::string path, Diagnostics& diagnostics)
      : origin_(origin), path_(std::move(path)), diagnostics_(diagnostics) {}

  void fail(const std::string& key, std::string code, std::string message, std::vector<std::string> details = {}) {
    diagnostics_.error(origin_, path_ + "." + key, std::move(code), std::move(message), std::move(details));
    good_ = false;
  }
  void range(const std::string& key, const std::string& code, std::uint64_t value, std::uint64_t least,
             std::uint64_t most) {
    if (value >= least && value <= most) return;
    fail(key, code, fmt::format("{} is out of range", key),
         {fmt::format("It is {}; from {} to {} is allowed.", value, least, most)});
  }
  void number(const std::string& key, const std::string& code, double value, double least, double most) {
    if (value >= least && value <= most) return;
    fail(key, code, fmt::format("{} is out of range", key),
         {fmt::format("It is {}; from {} to {} is allowed.", value, least, most)});
  }
  void share(const std::string& key, const std::string& code, double value) {
    if (value >= 0.0 && value < 1.0) return;
    fail(key, code, fmt::format("{} is out of range", key),
         {fmt::format("It is {}; from 0 to below 1 is allowed.", value)});
  }
  [[nodiscard]] bool good() const { return good_; }

 private:
  const Origin& origin_;
  std::string path_;
  Diagnostics& diagnostics_;
  bool good_ = true;
};

std::string divisors_near(std::uint64_t whole, std::uint64_t wanted) {
  std::uint64_t below = 0;
  std::uint64_t above = 0;
  for (std::uint64_t d = wanted; d >= 1; --d) {
    if (whole % d == 0) {
      below = d;
      break;
    }
  }
  for (std::uint64_t d = wanted + 1; d <= whole; ++d) {
    if (whole % d == 0) {
      above = d;
      break;
    }
  }
  return above == 0 ? fmt::format("{}", below) : fmt::format("{}, {}", below, above);
}

/// The layers of BERT or ViT are of one kind; a model with other ones is another model.
void check_fixed(Checker& c, const ModelSpec& m, const char* name) {
  const auto fixed = [&](bool good, const char* key, const char* value) {
    if (good) return;
    c.fail(key, "model.architecture", fmt::format("{} has {} {}", name, key, value),
           {fmt::format("Set {} to {}, or leave it out.", key, value)});
  };
  fixed(m.norm == Norm::layer_norm, "norm", "layer_norm");
  if (m.architecture == Architecture::bert) fixed(m.activation == Activation::gelu, "activation", "gelu");
  fixed(m.positions == PositionEncoding::learned, "positions", "learned");
  Biases all = Biases::of_layers(true);
  if (m.architecture == Architecture::vit) all.qkv = m.biases.qkv;
  fixed(m.biases == all, "bias", "true");
  const bool tied = m.architecture == Architecture::bert;
  fixed(m.tied_embeddings == tied, "tied_embeddings", tied ? "true" : "false");
  if (m.mixture) {
    c.fail("mixture", "model.architecture", fmt::format("{} has no experts", name), {"Leave [model.mixture] out."});
  }
  if (m.kv_heads != m.heads) {
    c.fail("kv_heads", "model.architecture", fmt::format("{} has a key and a value for every head", name),
           {fmt::format("kv_heads is {}, heads {}.", m.kv_heads, m.heads), "Leave kv_heads out."});
  }
}

void check_image(Checker& c, const ModelSpec& m) {
  if (!m.image || m.image->patch < 1 || m.image->size < 1 || m.image->channels < 1) {
    c.fail("image", "model.image", "a vision transformer needs an image",
           {"Give size, patch and classes in [model.image]."});
    return;
  }
  const Image& i = *m.image;
  if (i.size % i.patch != 0) {
    c.fail("image.patch", "model.image", "the side of a patch does not divide the image's",
           {fmt::format("size is {}, and {} / {} leaves {}.", i.size, i.size, i.patch, i.size % i.patch),
            fmt::format("Nearest divisors: {}.", divisors_near(i.size, i.patch))});
  } else if (i.size > max_sequence || i.channels > max_sequence || patch_count(i) + 1 > max_sequence ||
             i.patch > max_width / i.patch || patch_width(i) > max_width) {
    c.fail("image.size", "model.image", "the image is too large",
           {fmt::format("It has {} patches of {} x {} x {} numbers; at most {} patches of {} numbers are allowed.",
                        patch_count(i), i.patch, i.patch, i.channels, max_sequence - 1, max_width)});
  }
  if (c.good() && m.max_positions != image_positions(i)) {
    c.fail("max_positions", "model.image",
           i.class_token ? "max_positions is not the class token and the patches" : "max_positions is not the patches",
           {fmt::format("It is {}; an image has {} patches.", m.max_positions, patch_count(i))});
  }
  if (sees_class_token(i) != i.class_token) {
    c.fail("image.pool", "model.image",
           i.class_token ? "the head does not see the class token" : "the head sees a class token that there is not",
           {"Set pool to class_token or class_and_mean where there is a class token, to mean where there is none."});
  }
}

void check_latent(Checker& c, const ModelSpec& m) {
  const LatentAttention& l = *m.latent;
  c.range("latent.query_rank", "model.latent", l.query_rank, 0, max_width);
  c.range("latent.kv_rank", "model.latent", l.kv_rank, 1, max_width);
  c.range("latent.rope_dim", "model.latent", l.rope_dim, 2, max_width);
  c.range("latent.value_dim", "model.latent", l.value_dim, 1, max_width);
  if (!c.good()) return;
  if (l.rope_dim % 2 != 0) {
    c.fail("latent.rope_dim", "model.latent", "rope_dim is odd: features rotate in pairs",
           {fmt::format("It is {}.", l.rope_dim)});
  }
  if (m.positions != PositionEncoding::rotary || m.norm != Norm::rms_norm || m.biases.in_layers() ||
      m.kv_heads != m.heads) {
    c.fail("latent", "model.latent",
           "latent attention needs rotary positions, rms_norm, no biases, and as many kv_heads as heads",
           {"Set positions to rotary, norm to rms_norm, bias to false, and leave kv_heads out."});
  }
  if (m.heads * std::max({m.head_dim + l.rope_dim, m.head_dim + l.value_dim}) > max_width) {
    c.fail("heads", "model.range", "the heads together are too wide",
           {fmt::format("{} heads of {} + {} and {} features; at most {} are allowed.", m.heads, m.head_dim, l.rope_dim,
                        l.value_dim, max_width)});
  }
}

void check_architecture(Checker& c, const ModelSpec& m) {
  if (m.counted) return;  // its layers are of another kind
  switch (m.architecture) {
    case Architecture::decoder: break;
    case Architecture::bert:
      check_fixed(c, m, "BERT");
      c.range("segments", "model.range", m.segments, 0, max_width);
      break;
    case Architecture::vit:
      check_fixed(c, m, "a vision transformer");
      check_image(c, m);
      break;
  }
  if (m.latent) check_latent(c, m);
}

}  // namespace

bool check_model(const ModelSpec& m, Diagnostics& diagnostics) {
  Checker c(m.origin, "model", diagnostics);
  c.range("layers", "model.range", m.layers, 1, max_layers);
  c.range("hidden", "model.range", m.hidden, 1, max_width);
  c.range("heads", "model.range", m.heads, 1, max_width);
  c.range("kv_heads", "model.range", m.kv_heads, 1, max_width);
  c.range("head_dim", "model.range", m.head_dim, 1, max_width);
  c.range("ffn", "model.range", m.ffn, 1, max_width);
  c.range("vocabulary", "model.range", m.vocabulary, 1, max_vocabulary);
  c.range("max_positions", "model.range", m.max_positions, 1, max_sequence);
  c.number("norm_epsilon", "model.range", m.norm_epsilon, 0.0, 1.0);
  c.number("rope_theta", "model.range", m.rope_theta, 1.0, 1e12);
  if (!c.good()) return false;
  if (m.heads * m.head_dim > max_width) {
    c.fail(
        "heads", "model.range", "heads times head_dim is out of range",
        {fmt::format("{} x {} is {}; at most {} is allowed.", m.heads, m.head_dim, m.heads * m.head_dim, max_width)});
    return false;
  }
  if (m.heads % m.kv_heads != 0) {
    c.fail("kv_heads", "model.kv-heads", "kv_heads does not divide heads",
           {fmt::format("heads is {}, and {} / {} leaves {}.", m.heads, m.heads, m.kv_heads, m.heads % m.kv_heads),
            fmt::format("Nearest divisors: {}.", divisors_near(m.heads, m.kv_heads))});
  }
  check_architecture(c, m);
  if (!check_layer_kinds(m, diagnostics) || !check_rope_stretch(m, diagnostics)) return false;
  if (m.mixture && !check_mixture_spec(m, diagnostics)) return false;
  if (m.positions == PositionEncoding::rotary && !m.latent && m.head_dim % 2 != 0) {
    c.fail("head_dim", "model.positions", "rotary positions need an even head_dim",
           {fmt::format("head_dim is {}.", m.head_dim)});
  }
  if (m.positions != PositionEncoding::rotary && !m.rope_scaling.empty()) {
    c.fail("rope_scaling", "model.positions", "rope_scaling needs rotary positions",
           {"This model has none: leave it out, or set positions to rotary."});
  }
  if (m.counted && (m.counted->parameters < 1 || m.counted->parameters > max_parameters ||
                    m.counted->active > m.counted->parameters || m.counted->because.empty())) {
    c.fail("counted", "model.counted", "a model that is only counted needs its parameters and the reason",
           {fmt::format("parameters is {}, active {}; from 1 to {} parameters are allowed, and no more active ones.",
                        m.counted->parameters, m.counted->active, max_parameters)});
  }
  // Widths are at most 2^20, so one layer has less than 2^44 parameters and 10^4 layers less than 2^58. The count below
  // therefore cannot overflow.
  if (c.good() && parameter_count(m) > max_parameters) {
    c.fail("layers", "model.size", "the model is too large",
           {fmt::format("It has {} parameters; at most {} are allowed.", with_commas(parameter_count(m)),
                        with_commas(max_parameters))});
  }
  return c.good();
}

namespace {

void check_masters(const Workload& w, Checker& c) {
  if (w.master_weights) return;
  if (weight_dtype(w) == wide_dtype(w)) {
    c.fail("master_weights", "workload.master-weights", "there are no master weights to leave out",
           {fmt::format("With precision {} the optimizer updates the weights themselves.", name_of(w.precision)),
            "Leave out master_weights, or use bf16 or fp8."});
  } else if (w.precision == Precision::fp16) {
    c.fail("master_weights", "workload.master-weights", "fp16 needs master weights",
           {"Squares of gradients leave the range of fp16, and loss scaling takes gradients of fp32 weights.",
            "Leave out master_weights, or use bf16."});
  }
}

void check_moments(const Workload& w, Checker& c) {
  if (!w.moment_dtype) return;
  const bool narrow = (*w.moment_dtype == DType::bf16 || has_scaled_moments(w)) && w.precision != Precision::fp64;
  if (*w.moment_dtype != wide_dtype(w) && !narrow) {
    c.fail("moment_dtype", "workload.moment-dtype", "optimizer moments cannot be kept in this type",
           {w.precision == Precision::fp64
                ? std::string("With precision fp64 they must be f64.")
                : fmt::format("With weights in {} they must be f32, bf16, f8 or u8.", name_of(weight_dtype(w)))});
  } else if (optimizer_moments(w) == 0) {
    c.fail("moment_dtype", "workload.moment-dtype", "the optimizer keeps no moments",
           {has_factored_moments(w) ? "Adafactor keeps sums over rows and columns, always in f32."
                                    : "SGD keeps a moment only with momentum.",
            "Leave out moment_dtype."});
  } else if (narrow && w.optimizer.kind == OptimizerKind::lamb) {
    c.fail("moment_dtype", "workload.moment-dtype", "LAMB cannot keep rounded moments",
           {"Its update reads the moments again after the norms, which would then be those of another update.",
            "Leave out moment_dtype, or use adam."});
  } else if (has_scaled_moments(w) && w.optimizer.kind != OptimizerKind::adam) {
    const bool codes = *w.moment_dtype == DType::u8;
    c.fail("moment_dtype", "workload.moment-dtype",
           fmt::format("only Adam can keep its moments in {}", name_of(*w.moment_dtype)),
           {codes ? "Both moments are codes of a byte, with scales."
                  : "Its first moment is f8 and its second f16, with scales.",
            "Set moment_dtype to bf16, or use adam."});
  }
}

}  // namespace

bool check_workload(const Workload& w, Diagnostics& diagnostics) {
  Checker c(w.origin, "workload", diagnostics);
  c.range("batch", "workload.range", w.global_batch, 1, max_batch);
  c.range("sequence", "workload.range", w.sequence_length, 1, max_sequence);
  if (c.good() && w.global_batch * w.sequence_length > max_step_tokens) {
    c.fail("batch", "workload.range", "batch times sequence is out of range",
           {fmt::format("{} x {} is {} tokens per step; at most {} are allowed.", w.global_batch, w.sequence_length,
                        with_commas(w.global_batch * w.sequence_length), with_commas(max_step_tokens))});
  }
  if (w.gradient_dtype && *w.gradient_dtype != weight_dtype(w) && *w.gradient_dtype != wide_dtype(w)) {
    c.fail("gradient_dtype", "workload.gradient-dtype", "gradients cannot be accumulated in this type",
           {fmt::format("With precision {} it must be {} or {}.", name_of(weight_dtype(w)), name_of(weight_dtype(w)),
                        name_of(wide_dtype(w)))});
  }
  check_masters(w, c);
  check_moments(w, c);
  const Optimizer& o = w.optimizer;
  c.number("optimizer.learning_rate", "workload.range", o.learning_rate, 0.0, 1e3);
  c.share("optimizer.beta1", "workload.range", o.beta1);
  c.share("optimizer.beta2", "workload.range", o.beta2);
  c.number("optimizer.epsilon", "workload.range", o.epsilon, 0.0, 1.0);
  c.number("optimizer.momentum", "workload.range", o.momentum, 0.0, 1.0);
  c.number("optimizer.weight_decay", "workload.range", o.weight_decay, 0.0, 1e3);
  const auto trust = [&](const char* key, double value) {
    if (value > 0.0 && value <= max_trust) return;
    c.fail(key, "workload.range", fmt::format("{} is out of range", key),
           {fmt::format("It is {}; above 0 and at most {:g} is allowed.", value, max_trust)});
  };
  trust("optimizer.trust_coefficient", o.trust_coefficient);
  if (o.trust_clip) trust("optimizer.trust_clip", *o.trust_clip);
  const LearningRateSchedule& s = w.schedule;
  c.range("schedule.warmup_steps", "workload.range", s.warmup_steps, 0, max_steps);
  c.range("schedule.total_steps", "workload.range", s.total_steps, 0, max_steps);
  c.number("schedule.minimum_ratio", "workload.range", s.minimum_ratio, 0.0, 1.0);
  if (s.kind != ScheduleKind::constant && s.total_steps <= s.warmup_steps) {
    c.fail("schedule.total_steps", "workload.schedule", "a falling learning rate needs total_steps above warmup_steps",
           {fmt::format("total_steps is {}, and warmup_steps is {}.", s.total_steps, s.warmup_steps)});
  }
  if (w.clip_norm) {
    if (!(*w.clip_norm > 0.0 && *w.clip_norm <= 1e9)) {
      c.fail(
          "clip_norm", "workload.range", "clip_norm is out of range",
          {fmt::format("It is {}; above 0 and at most 1e+09 is allowed. Leave it out for no clipping.", *w.clip_norm)});
    }
  }
  const auto dropout = [&](const char* key, double rate) {
    if (rate >= 0.0 && rate < 1.0) return;
    c.fail(key, "workload.dropout", fmt::format("{} must be from 0 to below 1", key), {fmt::format("It is {}.", rate)});
  };
  if (w.origin.positions.contains("workload.dropout")) {
    dropout("dropout", w.hidden_dropout);
  } else {
    dropout("hidden_dropout", w.hidden_dropout);
    dropout("attention_dropout", w.attention_dropout);
  }
  c.number("loss_scale", "workload.range", w.loss_scale, 1.0, 0x1p40);
  c.range("loss_scale_window", "workload.range", w.loss_scale_window, 1, max_steps);
  return c.good() && check_routing(w, diagnostics);
}

bool check_device(const DeviceSpec& d, const Origin& origin, const std::string& path, Diagnostics& diagnostics) {
  Checker c(origin, path, diagnostics);
  if (d.peak.empty()) {
    c.fail("peak", "device.peak", "the device has no peak rate in any precision",
           {"Give at least one peak: fp32 = \"15.7 TFLOP/s\"."});
  }
  for (const auto& [precision, rate] : d.peak) {
    if (!(rate.base() >= 1.0 && rate.base() <= 1e24)) {
      c.fail("peak", "device.range", "peak is out of range",
             {fmt::format("It is {} FLOP/s; from 1 to 1e24 is allowed.", rate.base())});
    }
  }
  for (const auto& [precision, rate] : d.reached) {
    const auto peak = d.peak.find(precision);
    if (peak != d.peak.end() && rate.base() >= 1.0 && rate <= peak->second) continue;
    c.fail("reached", "device.reached", fmt::format("{} cannot have been reached", short_text(rate)),
           {peak == d.peak.end() ? fmt::format("The device has no peak in {}.", name_of(precision))
                                 : fmt::format("The peak in {} is {}.", name_of(precision), short_text(peak->second))});
  }
  c.number("memory", "device.range", d.memory.base(), 1.0, 0x1p53);
  c.number("memory_bandwidth", "device.range", d.memory_bandwidth.base(), 1.0, 1e18);
  c.range("cores_shared", "device.range", d.cores_shared, 0, max_devices);
  if (d.links) {
    const DeviceLinks& l = *d.links;
    c.number("links.host", "device.range", l.host.base(), 1.0, 1e18);
    if (!l.name.empty()) {
      c.number("links.peers", "device.range", l.peers.base(), 1.0, 1e18);
      c.range("links.most", "device.range", l.most, 1, max_devices);
      const std::uint32_t node = l.per_node > 0 ? l.per_node : l.most;
      if (node > l.most || l.most % node != 0) {
        c.fail("links.per_node", "device.range", "per_node does not divide most",
               {fmt::format("most is {}, per_node is {}.", l.most, node)});
      }
    }
  }
  return c.good();
}

namespace {

/// Rates grow with the message, but never so fast that more bytes take less time.
void check_rates(Checker& c, const std::string& key, const NetworkLevel& level) {
  for (std::size_t i = 0; i < level.rates.size(); ++i) {
    const SizedRate& r = level.rates[i];
    c.number(key + ".message_sizes", "cluster.range", r.message.base(), 1.0, 0x1p53);
    c.number(key + ".rates", "cluster.range", r.rate.base(), 1.0, 1e18);
    if (!c.good()) return;
    if (r.rate > level.bandwidth) {
      return c.fail(key + ".rates", "cluster.rates", "a message cannot be faster than the link",
                    {fmt::format("Rate {} is {}; the level's bandwidth is {}.", i + 1, exact_text(r.rate),
                                 exact_text(level.bandwidth))});
    }
    if (i == 0) continue;
    const SizedRate& before = level.rates[i - 1];
    if (r.message <= before.message) {
      return c.fail(
          key + ".message_sizes", "cluster.rates", "message sizes do not ascend",
          {fmt::format("Size {} is {}, size {} {}.", i, exact_text(before.message), i + 1, exact_text(r.message))});
    }
    const double growth = r.rate / before.rate, sizes = r.message / before.message;
    if (growth < 1.0 || growth > sizes * (1.0 + 1e-9)) {
      return c.fail(
          key + ".rates", "cluster.rates",
          growth < 1.0 ? "a larger message is at a lower rate" : "a larger message takes less time than a smaller one",
          {fmt::format("{} at {} take {}, {} at {} take {}.", exact_text(before.message), exact_text(before.rate),
                       short_text(before.message / before.rate), exact_text(r.message), exact_text(r.rate),
                       short_text(r.message / r.rate)),
           "From one size to the next the rate may stay, or grow as much as the size."});
    }
  }
}

void check_channels(Checker& c, const ClusterSpec& cluster) {
  for (std::size_t i = 0; i < cluster.channels.size(); ++i) {
    const ChannelGraph& g = cluster.channels[i];
    const std::string key = fmt::format("channels.{}", i);
    c.range(key + ".ranks", "cluster.range", g.ranks, 2, max_devices);
    c.range(key + ".nodes", "cluster.range", g.nodes, 1, max_devices);
    c.range(key + ".channels", "cluster.range", g.channels, 1, 64);
    c.number(key + ".inside", "cluster.range", g.inside.base(), 1.0, 1e18);
    c.number(key + ".between", "cluster.range", g.between.base(), 1.0, 1e18);
    if (!c.good()) return;
    if (g.nodes > g.ranks) {
      c.fail(key + ".nodes", "cluster.channels", "channels join more nodes than ranks",
             {fmt::format("{} ranks lie on at most {} nodes, not on {}.", g.ranks, g.ranks, g.nodes)});
    }
    for (std::size_t j = 0; j < i; ++j) {
      const ChannelGraph& other = cluster.channels[j];
      if (other.kind != g.kind || other.ranks != g.ranks || other.nodes != g.nodes) continue;
      c.fail(
          key, "cluster.channels", "channels of one kind are given twice for the same group",
          {fmt::format("Entries {} and {} are for {} ranks on {}.", j + 1, i + 1, g.ranks, counted(g.nodes, "node"))});
    }
  }
}

/// Other nodes are ranges that lie in the cluster and leave some of it, with devices that run as its own do.
bool check_other_nodes(Checker& c, const ClusterSpec& cluster, Diagnostics& diagnostics) {
  bool devices_good = true;
  std::uint64_t end = 0, nodes = 0;
  if (cluster.other_nodes.size() > ClusterSpec::most_other_nodes) {
    c.fail("other_nodes", "cluster.other-nodes", "there are too many kinds of other nodes",
           {fmt::format("There are {}; at most {} are allowed.", cluster.other_nodes.size(),
                        ClusterSpec::most_other_nodes)});
    return false;
  }
  for (std::size_t i = 0; i < cluster.other_nodes.size(); ++i) {
    const OtherNodes& other = cluster.other_nodes[i];
    const std::string key = fmt::format("other_nodes.{}", i);
    const auto fail = [&](const std::string& at, std::string message, std::string detail) {
      c.fail(at.empty() ? key : key + "." + at, "cluster.other-nodes", std::move(message), {std::move(detail)});
    };
    devices_good =
        check_device(other.device, cluster.origin, "cluster." + key + ".device", diagnostics) && devices_good;
    c.range(key + ".count", "cluster.range", other.count, 1, max_devices);
    for (const Bandwidth b : other.bandwidths) {
      c.number(key + ".bandwidths", "cluster.range", b.base(), 1.0, 1e18);
    }
    const std::uint64_t last = std::uint64_t{other.first} + other.count - 1;
    if (last >= cluster.nodes) {
      fail(
          "first", "other nodes lie outside the cluster",
          fmt::format("They are nodes {} to {}; the cluster has nodes 0 to {}.", other.first, last, cluster.nodes - 1));
    } else if (other.first < end) {
      fail("first", "other nodes overlap those of the entry before, or come before it",
           fmt::format("They begin at node {}; {} is the first that is free.", other.first, end));
    }
    end = last + 1;
    nodes += other.count;
    if (!other.bandwidths.empty() && other.bandwidths.size() != cluster.levels.size()) {
      fail("bandwidths", "other nodes need a bandwidth for each level",
           fmt::format("There are {}; the cluster has {}.", other.bandwidths.size(),
                       counted(cluster.levels.size(), "level")));
    }
    if (other.device.concurrent_lanes != cluster.device.concurrent_lanes || other.device.cores_shared > 0 ||
        cluster.device.cores_shared > 0) {
      fail("device", "devices that share cores, or do one op at a time, cannot be mixed with others",
           fmt::format("{} stands beside {}.", other.device.name, cluster.device.name));
    }
  }
  if (c.good() && !cluster.other_nodes.empty() && nodes >= cluster.nodes) {
    c.fail("other_nodes", "cluster.other-nodes", "the cluster's own device has no node left",
           {fmt::format("All {} nodes are other nodes; name their device as the cluster's.", cluster.nodes)});
  }
  if (c.good() && !cluster.other_nodes.empty() && !cluster.channels.empty()) {
    c.fail("channels", "cluster.other-nodes", "channels that NCCL found hold for equal nodes only",
           {"Leave out cluster.channels, or cluster.other_nodes."});
  }
  return devices_good;
}

}  // namespace

bool check_cluster(const ClusterSpec& cluster, Diagnostics& diagnostics) {
  Checker c(cluster.origin, "cluster", diagnostics);
  c.range("nodes", "cluster.range", cluster.nodes, 1, max_devices);
  c.range("devices_per_node", "cluster.range", cluster.devices_per_node, 1, max_devices);
  c.number("host_memory", "cluster.range", cluster.host_memory.base(), 0.0, 0x1p53);
  if (cluster.host_link) c.number("host_link", "cluster.range", cluster.host_link->base(), 1.0, 1e18);
  if (cluster.host_bandwidth) c.number("host_bandwidth", "cluster.range", cluster.host_bandwidth->base(), 1.0, 1e18);
  if (cluster.disk) {
    c.number("disk.capacity", "cluster.range", cluster.disk->capacity.base(), 1.0, 0x1p53);
    c.number("disk.read", "cluster.range", cluster.disk->read.base(), 1.0, 1e18);
    c.number("disk.write", "cluster.range", cluster.disk->write.base(), 1.0, 1e18);
    c.number("disk.latency", "cluster.range", cluster.disk->latency.base(), 0.0, 1e3);
  }
  if (cluster.price_per_gpu_hour)
    c.number("price_per_gpu_hour", "cluster.range", *cluster.price_per_gpu_hour, 0.0, 1e9);
  if (c.good() && cluster.devices() > max_devices) {
    c.fail("nodes", "cluster.size", "the cluster is too large",
           {fmt::format("{} x {} is {} devices; at most {} are allowed.", cluster.nodes, cluster.devices_per_node,
                        cluster.devices(), max_devices)});
  }
  bool device_good = check_device(cluster.device, cluster.origin, "cluster.device", diagnostics);
  std::uint64_t product = 1;
  bool node_boundary = cluster.devices_per_node == 1;
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const NetworkLevel& level = cluster.levels[i];
    const std::string key = fmt::format("levels.{}", i);
    c.range(key + ".size", "cluster.range", level.size, 1, max_devices);
    c.number(key + ".bandwidth", "cluster.range", level.bandwidth.base(), 1.0, 1e18);
    c.number(key + ".latency", "cluster.range", level.latency.base(), 0.0, 1e3);
    check_rates(c, key, level);
    if (!c.good()) return false;
    product *= level.size;
    if (product > max_devices) break;
    node_boundary = node_boundary || product == cluster.devices_per_node;
  }
  check_channels(c, cluster);
  if (c.good()) device_good = check_other_nodes(c, cluster, diagnostics) && device_good;
  if (c.good() && product != cluster.devices()) {
    c.fail("levels", "cluster.levels", "the sizes of the levels do not multiply to the number of devices",
           {fmt::format("They give {}; {} nodes of {} are {}.", product, cluster.nodes, cluster.devices_per_node,
                        cluster.devices())});
  } else if (c.good() && !node_boundary) {
    c.fail("levels", "cluster.levels", "no level ends at the edge of a node",
           {fmt::format("The sizes, multiplied from the innermost level on, must reach {}, the devices of a node.",
                        cluster.devices_per_node)});
  }
  return c.good() && device_good;
}

bool check_sizes(const ModelSpec& m, const Workload& w, Diagnostics& diagnostics) {
  // In double: the products themselves may exceed 64 bits.
  const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.sequence_length);
  const double widest = static_cast<double>(std::max({m.hidden, 2 * m.ffn, 3 * m.heads * m.head_dim, m.vocabulary}));
  const double scores = tokens * static_cast<double>(w.sequence_length) * static_cast<double>(m.heads);
  if (tokens * widest <= max_elements && scores <= max_elements) return true;
  diagnostics.error(w.origin, "workload.sequence", "workload.size", "one step of this model is too large to count",
                    {fmt::format("The largest activation of a step has {:.3g} elements; at most {:.3g} are allowed.",
                                 std::max(tokens * widest, scores), max_elements)});
  return false;
}

}  // namespace orrery
