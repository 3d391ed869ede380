#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/kernels/cpu/dropout_key.hpp"
#include "exec/kernels/cpu/operand_access.hpp"

namespace orrery::cpu {

/// Shapes of packed qkv[T, kv_heads, group + 2, head_dim], and the way to take one head of one sequence out of it. Rows
/// of a sequence lie `batch` rows apart. A value, the last of its group, is `value` wide.
struct Heads {
  std::uint64_t batch, length, heads, kv_heads, group, dim, value;
  double scale;  ///< of scores

  explicit Heads(const Kernel& k)
      : batch(k.batch),
        length(k.rows / k.batch),
        heads(k.heads),
        kv_heads(k.kv_heads),
        group(k.heads / k.kv_heads),
        dim(k.head_dim),
        value(k.value_dim > 0 ? k.value_dim : k.head_dim),
        scale(k.scale > 0.0 ? k.scale : 1.0 / std::sqrt(static_cast<double>(k.head_dim))) {}

  [[nodiscard]] std::uint64_t group_width() const { return (group + 1) * dim + value; }
  [[nodiscard]] std::uint64_t qkv_width() const { return kv_heads * group_width(); }
  [[nodiscard]] std::uint64_t context_width() const { return heads * value; }
  /// Column of local head h's query; column of kv head g's key and value.
  [[nodiscard]] std::uint64_t query_column(std::uint64_t h) const {
    return h / group * group_width() + h % group * dim;
  }
  [[nodiscard]] std::uint64_t key_column(std::uint64_t g) const { return g * group_width() + group * dim; }
  [[nodiscard]] std::uint64_t value_column(std::uint64_t g) const { return key_column(g) + dim; }

  /// out[length, dim] = x[rows of `sequence`, column ..] times `factor`; with `wide` in place of dim.
  template <class T>
  void take(const Operand& x, std::uint64_t width, std::uint64_t sequence, std::uint64_t column, T factor,
            T* out) const {
    take(x, width, sequence, column, factor, out, dim);
  }
  template <class T>
  void take(const Operand& x, std::uint64_t width, std::uint64_t sequence, std::uint64_t column, T factor, T* out,
            std::uint64_t wide) const {
    for (std::uint64_t position = 0; position < length; ++position) {
      const std::uint64_t at = (position * batch + sequence) * width + column;
      T* row = out + position * wide;
      const T* in = read(x, at, wide, row);
      for (std::uint64_t i = 0; i < wide; ++i) row[i] = in[i] * factor;
    }
  }
  /// The reverse: x = in * factor.
  template <class T>
  void put(const Operand& x, std::uint64_t width, std::uint64_t sequence, std::uint64_t column, T factor, T* in) const {
    put(x, width, sequence, column, factor, in, dim);
  }
  template <class T>
  void put(const Operand& x, std::uint64_t width, std::uint64_t sequence, std::uint64_t column, T factor, T* in,
           std::uint64_t wide) const {
    for (std::uint64_t position = 0; position < length; ++position) {
      const std::uint64_t at = (position * batch + sequence) * width + column;
      T* row = in + position * wide;
      T* out = target(x, at, row);
      for (std::uint64_t i = 0; i < wide; ++i) out[i] = row[i] * factor;
      finish(x, at, wide, out);
    }
  }
};

/// Scratch places of attention kernels; their own begin at `first_own`.
enum HeadScratch : std::size_t {
  queries,
  keys,
  values,
  outputs,
  context_gradients,
  key_gradients,
  value_gradients,
  first_own
};

/// One head of one sequence as matrices [length, dim] without gaps.
template <class T>
class PackedHead {
 public:
  PackedHead(const Heads& shape, KernelScratch& scratch)
      : q(scratch.get<T>(queries, shape.length * shape.dim)),
        k(scratch.get<T>(keys, shape.length * shape.dim)),
        v(scratch.get<T>(values, shape.length * shape.value)),
        shape_(shape) {}

  /// Loads a local head, with its queries times the scale of scores. Heads come in order: a group's keys and values are
  /// taken with its first.
  void load(const Operand& qkv, std::uint64_t sequence, std::uint64_t head) {
    const std::uint64_t group = head / shape_.group;
    if (head % shape_.group == 0) {
      shape_.take(qkv, shape_.qkv_width(), sequence, shape_.key_column(group), T{1}, k);
      shape_.take(qkv, shape_.qkv_width(), sequence, shape_.value_column(group), T{1}, v, shape_.value);
    }
    shape_.take(qkv, shape_.qkv_width(), sequence, shape_.query_column(head), static_cast<T>(shape_.scale), q);
  }

  T* q;
  T* k;
  T* v;

 private:
  const Heads& shape_;
};

/// The same for gradients: dc comes in; dq, dk and dv go out, summed over a group's heads where they share a key and a
/// value.
template <class T>
class PackedGradients {
 public:
  PackedGradients(const Heads& shape, KernelScratch& scratch)
      : dc(scratch.get<T>(context_gradients, shape.length * shape.value)),
        dk(scratch.get<T>(key_gradients, shape.length * shape.dim)),
        dv(scratch.get<T>(value_gradients, shape.length * shape.value)),
        shape_(shape) {}

  void load(const Operand& dcontext, std::uint64_t sequence, std::uint64_t head) {
    if (head % shape_.group == 0) {
      std::fill_n(dk, shape_.length * shape_.dim, T{0});
      std::fill_n(dv, shape_.length * shape_.value, T{0});
    }
    shape_.take(dcontext, shape_.context_width(), sequence, head * shape_.value, T{1}, dc, shape_.value);
  }
  /// Writes `dq`, from the scaled queries' scores, and after a group's last head its dk and dv.
  void store(const Operand& dqkv, std::uint64_t sequence, std::uint64_t head, T* dq) {
    const std::uint64_t group = head / shape_.group;
    shape_.put(dqkv, shape_.qkv_width(), sequence, shape_.query_column(head), static_cast<T>(shape_.scale), dq);
    if (head % shape_.group + 1 != shape_.group) return;
    shape_.put(dqkv, shape_.qkv_width(), sequence, shape_.key_column(group), T{1}, dk);  // q was scaled already
    shape_.put(dqkv, shape_.qkv_width(), sequence, shape_.value_column(group), T{1}, dv, shape_.value);
  }

  T* dc;
  T* dk;
  T* dv;

 private:
  const Heads& shape_;
};

/// Which of the model's heads a rank has, by the place of its packed qkv; all where that has none.
struct GlobalHeads {
  GlobalHeads(const Place& qkv, const Heads& local) : all(local.heads) {
    if (qkv.shard == nullptr) return;
    first = qkv.box.offset[2] * local.group;
    all = qkv.shard->dims[2].extent * local.group;
  }
  std::uint64_t first = 0, all;
};

/// Attention dropout by element ((sequence * heads + head) * length + query) * length + key, all global: the place of
/// qkv gives sequence, head and length. So every cut of sequences, heads and positions drops the same.
class ProbabilityDropout {
 public:
  ProbabilityDropout(const Kernel& k, const KernelContext& context, const Place& qkv, const Heads& heads)
      : key_(k, context), length_(heads.length), heads_(qkv, heads) {
    if (qkv.shard == nullptr) return;
    length_ = qkv.shard->dims[0].extent;
    first_sequence_ = qkv.box.offset[1];
  }
  /// Element of key 0 for the query at a global position, in a local sequence and head.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t row(std::uint64_t sequence, std::uint64_t head,
                                                   std::uint64_t query) const {
    return (((first_sequence_ + sequence) * heads_.all + heads_.first + head) * length_ + query) * length_;
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool keeps(std::uint64_t element) const { return key_.keeps(element); }

 private:
  DropoutKey key_;
  std::uint64_t length_;
  GlobalHeads heads_;
  std::uint64_t first_sequence_ = 0;
};

}  // namespace orrery::cpu
