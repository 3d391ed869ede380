#include "exec/kernels/cuda/cudnn/part_attention.hpp"

#include <algorithm>
#include <utility>

#include "exec/kernels/cpu/heads.hpp"

namespace orrery::cudnn {
namespace {

using N = OperandName;

std::uint64_t number(std::int64_t x) { return static_cast<std::uint64_t>(x); }

/// Takes so many bytes of the memory.
std::uint64_t take(std::uint64_t& bytes, std::uint64_t more) {
  const std::uint64_t first = bytes;
  bytes += (more + 255) / 256 * 256;
  return first;
}

}  // namespace

PartAttention::PartAttention(const Kernel& k, const NamedOperands& o, AttentionBands bands)
    : kernel_(k),
      operands_(o),
      bands_(std::move(bands)),
      type_(o[N::qkv].dtype),
      backward_(k.kind == KernelKind::attention_part_backward) {
  const cpu::Heads s(k);
  positions_ = static_cast<std::int64_t>(s.length);
  keys_ = static_cast<std::int64_t>(k.depth / k.batch);
  heads_ = s.batch * s.heads;
  query_row_ = s.batch * s.qkv_width();
  key_row_ = s.batch * s.kv_heads * (s.dim + s.value);
  context_row_ = s.batch * s.context_width();
  if (!bands_.in_order()) ordered_ = take(bytes_, number(keys_) * key_row_ * size_of(type_));
  if (!std::all_of(bands_.bands.begin(), bands_.bands.end(), [&](const Band& b) { return is_whole(b); })) {
    sums_ = take(bytes_, heads_ * number(positions_) * sizeof(float));
  }
  if (!backward_) {
    of_queries_ = result(N::context, number(positions_), context_row_, true);
    return;
  }
  of_queries_ = result(N::dq, number(positions_), s.batch * s.heads * s.dim, true);
  of_keys_ = result(N::dkv, number(keys_), key_row_, bands_.in_order() && bands_.bands.size() == 1);
}

PartAttention::Result PartAttention::result(OperandName name, std::uint64_t positions, std::uint64_t row, bool direct) {
  const Operand& o = operands_[name];
  const bool takes = o.dtype == type_ && !o.accumulate && reinterpret_cast<std::uintptr_t>(o.data) % 16 == 0;
  Result r{&o, row, direct && takes};
  if (!r.direct) r.offset = take(bytes_, positions * row * size_of(type_));
  return r;
}

std::uint64_t PartAttention::memory_bytes() const { return bytes_; }

std::byte* PartAttention::at(const Result& r, std::byte* memory, std::int64_t position) const {
  std::byte* const first = r.direct ? static_cast<std::byte*>(r.operand->data) : memory + r.offset;
  return first + number(position) * r.row * size_of(type_);
}

device::Elements PartAttention::rows(const Result& r, std::int64_t position) const {
  return device::at(device::Elements(*r.operand), number(position) * r.row);
}

void PartAttention::run(const Attend& attend, device::AroundLibrary& work, std::byte* memory) const {
  if (!bands_.in_order()) order_keys(work, memory);
  const bool some_keys = bands_.bands.size() != 1 || !bands_.in_order() || bands_.bands[0].keys < keys_;
  if (backward_ && some_keys && !of_keys_.operand->accumulate)
    work.move(device::MovedElements{{}, rows(of_keys_, 0), number(keys_) * key_row_});
  for (const Band& b : bands_.bands) {
    const auto move_sums = [&](const device::MovedSums::Rows& from, const device::MovedSums::Rows& to) {
      if (!is_whole(b)) work.move(device::MovedSums{from, to, heads_, number(b.queries)});
    };
    if (backward_) move_sums(sums(b.first), sums_of(b, memory));
    attend(shape(b), operands(b, memory));
    if (backward_) {
      add_keys(work, b, memory);
    } else {
      move_sums(sums_of(b, memory), sums(b.first));
    }
  }
  finish_queries(work, memory);
}

device::MovedSums::Rows PartAttention::sums(std::int64_t position) const {
  return {device::at(device::Elements(operands_[N::lse]), number(position)), number(positions_)};
}
device::MovedSums::Rows PartAttention::sums_of(const Band& b, std::byte* memory) const {
  if (is_whole(b)) return sums(0);
  return {{memory + sums_, DType::f32}, number(b.queries)};
}

void PartAttention::order_keys(device::AroundLibrary& work, std::byte* memory) const {
  const device::Elements lie(operands_[N::kv]), stand(memory + ordered_, type_);
  for (const KeyRun& r : bands_.keys) {
    work.move(device::MovedElements{device::at(lie, number(r.lies) * key_row_),
                                    device::at(stand, number(r.stands) * key_row_), number(r.count) * key_row_});
  }
}

AttentionOperands PartAttention::operands(const Band& b, std::byte* memory) const {
  const auto read = [&](N name, std::int64_t position, std::uint64_t row) {
    return static_cast<std::byte*>(operands_[name].data) + number(position) * row * size_of(type_);
  };
  AttentionOperands o;
  o.queries = read(N::qkv, b.first, query_row_);
  o.keys = bands_.in_order() ? read(N::kv, b.first_key, key_row_)
                             : memory + ordered_ + number(b.first_key) * key_row_ * size_of(type_);
  o.row_sums = static_cast<std::byte*>(sums_of(b, memory).x.data);
  if (backward_) {
    o.context = read(N::context, b.first, context_row_);
    o.dcontext = read(N::dcontext, b.first, context_row_);
    o.dqueries = at(of_queries_, memory, b.first);
    o.dkeys = at(of_keys_, memory, b.first_key);
  } else {
    o.context = at(of_queries_, memory, b.first);
  }
  return o;
}

void PartAttention::finish_queries(device::AroundLibrary& work, std::byte* memory) const {
  const Result& r = of_queries_;
  const bool add = r.operand->accumulate;
  const auto without_keys = [&](std::int64_t first, std::int64_t end) {
    if (first == end) return;
    if (!add) work.move(device::MovedElements{{}, rows(r, first), number(end - first) * r.row});
    if (backward_) return;
    work.move(device::MovedSums{{}, sums(first), heads_, number(end - first)});
  };
  std::int64_t done = 0;
  for (const Band& b : bands_.bands) {
    without_keys(done, b.first);
    if (!r.direct) {
      work.move(
          device::MovedElements{{at(r, memory, b.first), type_}, rows(r, b.first), number(b.queries) * r.row, add});
    }
    done = b.first + b.queries;
  }
  without_keys(done, positions_);
}

void PartAttention::add_keys(device::AroundLibrary& work, const Band& b, std::byte* memory) const {
  if (of_keys_.direct) return;
  const bool add = bands_.bands.size() > 1 || of_keys_.operand->accumulate;
  for (const KeyRun& r : bands_.keys) {
    const std::int64_t first = std::max(r.stands, b.first_key),
                       end = std::min(r.stands + r.count, b.first_key + b.keys);
    if (first >= end) continue;
    work.move(device::MovedElements{{at(of_keys_, memory, first), type_},
                                    rows(of_keys_, r.lies + first - r.stands),
                                    number(end - first) * key_row_,
                                    add});
  }
}

}  // namespace orrery::cudnn
