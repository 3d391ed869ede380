#pragma once

#include <limits>

#include "core/spec/hf/config.hpp"

/// What readers share that count a model without describing its layers. In their legends h is the width of the stream,
/// f that of feed-forward layers, L the number of layers, V the vocabulary, a the heads and d the width of one.
namespace orrery::hf {

/// A number of parameters. Where a sum or product is too large it stays at the largest number, which check_model
/// refuses.
class Count {
 public:
  constexpr Count(std::uint64_t value = 0) : value_(value) {}  // NOLINT: formulas mix both
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }
  friend constexpr Count operator+(Count a, Count b) {
    return a.value_ > most - b.value_ ? Count(most) : Count(a.value_ + b.value_);
  }
  friend constexpr Count operator%(Count a, Count b) { return b.value_ == 0 ? Count(0) : Count(a.value_ % b.value_); }
  /// No less than nothing.
  friend constexpr Count operator-(Count a, Count b) { return a.value_ > b.value_ ? Count(a.value_ - b.value_) : 0; }
  friend constexpr Count operator*(Count a, Count b) {
    return b.value_ != 0 && a.value_ > most / b.value_ ? Count(most) : Count(a.value_ * b.value_);
  }
  friend constexpr Count operator/(Count a, Count b) { return b.value_ == 0 ? Count(0) : Count(a.value_ / b.value_); }
  Count& operator+=(Count b) { return *this = *this + b; }
  friend constexpr auto operator<=>(Count, Count) = default;

 private:
  static constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value_;
};

/// A number of at least 0 in the file, and a default for null; a flag, where null means no.
[[nodiscard]] Count number(Config&, const char* key);
[[nodiscard]] Count number(Config&, const char* key, Count absent);
[[nodiscard]] bool truth(Config&, const char* key);
/// Whether the class that the file names, or where it names none the type's first, has this name.
[[nodiscard]] bool is_class(Config&, std::string_view name);
/// Number of classes that a classifier tells apart: id2label's, else num_labels.
[[nodiscard]] Count label_count(Config&);

/// A product: in x out weights, and out biases where it has some.
[[nodiscard]] constexpr Count product(Count in, Count out, bool bias = false) {
  return in * out + (bias ? out : Count(0));
}
/// Queries, keys, values and output of h x h each.
[[nodiscard]] constexpr Count attention(Count h, bool bias = true) { return 4 * product(h, h, bias); }
/// Queries and output of h x a d, keys and values of h x k d.
[[nodiscard]] constexpr Count grouped_attention(Count h, Count a, Count k, Count d, bool qkv_bias, bool out_bias) {
  return product(h, (a + 2 * k) * d, qkv_bias) + product(a * d, h, out_bias);
}
/// Two products, or three where one is a gate.
[[nodiscard]] constexpr Count feed_forward(Count h, Count f, bool gated, bool bias) {
  return (gated ? 2 : 1) * product(h, f, bias) + product(f, h, bias);
}
/// A layer of BERT or ViT: attention, two products, two layer norms; all with biases.
[[nodiscard]] constexpr Count bert_layer(Count h, Count f) {
  return attention(h) + feed_forward(h, f, false, true) + 4 * h;
}

/// The keys that give a model's shape; null: the shape has none.
struct ShapeKeys {
  const char* layers = "num_hidden_layers";
  const char* hidden = "hidden_size";
  const char* heads = "num_attention_heads";
  const char* kv_heads = nullptr;
  const char* head_dim = nullptr;
  const char* ffn = "intermediate_size";
  const char* vocabulary = "vocab_size";
  const char* positions = "max_position_embeddings";
};
[[nodiscard]] ModelSpec shape(Config&, const ShapeKeys& = {});

/// Says that the model is only counted. `head` is the part that a class without its trained head lacks.
void count(Config&, ModelSpec&, Count body, Count head, std::string because, Count active = 0);

/// Keys of encoders' sizes.
[[nodiscard]] Keys encoder_keys();
[[nodiscard]] Keys bert_keys();

}  // namespace orrery::hf
