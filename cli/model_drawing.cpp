#include <fmt/format.h>

#include "cli/dot_text.hpp"
#include "cli/drawing.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

using dot::in_quotes;
using dot::label;

/// What queries see, where some do not see all.
std::string seen_by(const ModelSpec& m) {
  if (!m.local) return "";
  std::uint64_t local = 0;
  for (std::uint64_t l = 0; l < m.layers; ++l) local += is_local(m, l) ? 1 : 0;
  return fmt::format("{} of {} positions in {} of {} layers",
                     m.local->span == LocalAttention::Span::window ? "a window" : "a chunk", m.local->size, local,
                     m.layers);
}

std::string norms_of_heads(const ModelSpec& m) {
  return m.query_key_norm == QueryKeyNorm::none ? "" : "norms of query and key";
}

const char* drawn_name(Activation a) {
  switch (a) {
    case Activation::gelu: return "GELU";
    case Activation::swiglu: return "SwiGLU";
    case Activation::geglu: return "GEGLU";
    case Activation::relu: return "ReLU";
    case Activation::squared_relu: return "squared ReLU";
    case Activation::quick_gelu: return "quick GELU";
  }
  return "";
}

/// The boxes of a layer's two branches; norms and sums apart.
std::string branch_boxes(const ModelSpec& m) {
  std::string out;
  if (m.latent) {
    out += fmt::format("    qkv {};\n",
                       label({"query, key, value",
                              fmt::format("by {} and {} latent features", m.latent->query_rank, m.latent->kv_rank)}));
  } else {
    out += fmt::format(
        "    qkv {};\n",
        label({"query, key, value", fmt::format("{} x {}", m.hidden, (m.heads + 2 * m.kv_heads) * m.head_dim),
               norms_of_heads(m)}));
  }
  out += fmt::format(
      "    attention {};\n",
      label({"attention", fmt::format("{} heads of {}, {} of keys", m.heads, key_width(m), m.kv_heads), seen_by(m)}));
  out += fmt::format("    out {};\n", label({"out", fmt::format("{} x {}", m.heads * value_width(m), m.hidden)}));
  // A mixture shows one of its experts.
  const std::uint64_t ffn = m.mixture ? m.mixture->ffn : m.ffn;
  const std::string experts =
      m.mixture ? fmt::format("{} of {} experts: ", m.mixture->per_token, m.mixture->experts) : "";
  const bool gated = is_gated(m.activation);
  out += fmt::format("    up {};\n", label({gated ? "gate, up" : "up",
                                            fmt::format("{}{} x {}{}", experts, m.hidden, gated ? "2 x " : "", ffn)}));
  out += fmt::format("    act {};\n", label({drawn_name(m.activation)}));
  return out + fmt::format("    down {};\n", label({"down", fmt::format("{}{} x {}", experts, ffn, m.hidden)}));
}

constexpr const char* attention = "qkv -> attention -> out";
constexpr const char* feed_forward = "up -> act -> down";

/// Norms, sums and arrows of a layer, and the arrows that enter it. Its last sum is add2, in BERT norm2.
struct Layer {
  std::string inside, entry;
};
Layer layer_of(const ModelSpec& m, const std::string& norm) {
  const auto norms = [&](int count) {
    std::string out;
    for (int i = 1; i <= count; ++i) out += fmt::format("    norm{} {};\n", i, label({norm}));
    return out;
  };
  const std::string sums = "    add1 [label=\"+\", shape=circle];\n    add2 [label=\"+\", shape=circle];\n";
  const std::string last_sum = "    add2 [label=\"+\", shape=circle];\n";
  if (m.architecture == Architecture::bert) {
    return {norms(2) + sums +
                fmt::format("    {} -> add1 -> norm1 -> {} -> add2 -> norm2;\n    norm1 -> add2 [style=dashed];\n",
                            attention, feed_forward),
            ""};
  }
  if (m.parallel != ParallelBranches::none) {
    const bool two = m.parallel == ParallelBranches::two_norms;
    return {norms(two ? 2 : 1) + last_sum +
                fmt::format("    norm1 -> {} -> add2;\n    {} -> {} -> add2;\n", attention, two ? "norm2" : "norm1",
                            feed_forward),
            std::string("  embedding -> norm1;\n") + (two ? "  embedding -> norm2;\n" : "") +
                "  embedding -> add2 [style=dashed];\n"};
  }
  std::string in = "norm1", first, second;
  switch (m.branch_norms) {
    case BranchNorms::before:
      first = fmt::format("norm1 -> {} -> add1", attention);
      second = fmt::format("add1 -> norm2 -> {} -> add2", feed_forward);
      break;
    case BranchNorms::after:
      in = "qkv";
      first = fmt::format("{} -> norm1 -> add1", attention);
      second = fmt::format("add1 -> {} -> norm2 -> add2", feed_forward);
      break;
    case BranchNorms::both:
      first = fmt::format("norm1 -> {} -> norm2 -> add1", attention);
      second = fmt::format("add1 -> norm3 -> {} -> norm4 -> add2", feed_forward);
      break;
  }
  return {norms(m.branch_norms == BranchNorms::both ? 4 : 2) + sums +
              fmt::format("    {};\n    {};\n    add1 -> add2 [style=dashed];\n", first, second),
          fmt::format("  embedding -> {};\n  embedding -> add1 [style=dashed];\n", in)};
}

}  // namespace

std::string dot_of(const ModelSpec& m) {
  std::string out = fmt::format("digraph {} {{\n  rankdir=TB;\n{}", in_quotes(m.name), dot::head);
  if (m.image) {
    out += fmt::format(
        "  embedding {};\n",
        label({fmt::format("{} patches{}", patch_count(*m.image), m.image->class_token ? ", class token" : ""),
               fmt::format("{} x {}", patch_width(*m.image), m.hidden)}));
  } else {
    out += fmt::format("  embedding {};\n", label({"embedding", fmt::format("{} x {}", m.vocabulary, m.hidden)}));
  }
  const std::string norm = m.norm == Norm::layer_norm ? "layer norm" : "RMS norm";
  const Layer layer = layer_of(m, norm);
  out += fmt::format("  subgraph cluster_layer {{\n    label=\"layer, x {}\";\n{}{}  }}\n", m.layers, branch_boxes(m),
                     layer.inside);
  if (m.architecture == Architecture::bert) {
    out += fmt::format("  norm0 {};\n  dense {};\n  norm {};\n  head {};\n", label({norm}),
                       label({"dense, GELU", fmt::format("{0} x {0}", m.hidden)}), label({norm}),
                       label({"head (tied)", fmt::format("{} x {}", m.hidden, m.vocabulary)}));
    return out +
           "  embedding -> norm0 -> qkv;\n  norm0 -> add1 [style=dashed];\n  norm2 -> dense -> norm -> head;\n}\n";
  }
  out +=
      fmt::format("  norm {};\n  head {};\n", label({norm}),
                  label({m.tied_embeddings ? "head (tied)" : "head", fmt::format("{} x {}", m.hidden, m.vocabulary)}));
  return out + layer.entry + "  add2 -> norm -> head;\n}\n";
}

}  // namespace orrery
