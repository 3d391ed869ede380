#pragma once

#include "exec/kernels/device/tensor_attention.hpp"

/// Gradients of attention on tensor cores. Queries' gradients and those of keys and values come from two kernels, each
/// of which makes the scores again: so no two blocks add to one element, and a run repeats bit for bit.
namespace orrery::device {

/// Row sums of dC C, [batch, heads, length], with a thread for each.
template <DType type>
struct ContextDots {
  FlashShape s;
  const std::uint16_t *context, *dcontext;
  float* dots;
  struct alignas(16) Chunk {
    std::uint16_t x[8];
  };
  [[nodiscard]] static ORRERY_ON_DEVICE float number(std::uint16_t bits) {
    return type == DType::bf16 ? from_bf16(bits) : from_f16(bits);
  }
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t position = i % s.length, head = i / s.length % s.heads, sequence = i / s.length / s.heads;
    const std::uint64_t first = s.context_at(position, sequence, head);
    float sum = 0.0F;
    for (std::uint64_t c = 0; c < s.value; c += 8) {
      const Chunk x = *reinterpret_cast<const Chunk*>(context + first + c);
      const Chunk d = *reinterpret_cast<const Chunk*>(dcontext + first + c);
      ORRERY_UNROLL for (int e = 0; e < 8; ++e) sum += number(x.x[e]) * number(d.x[e]);
    }
    dots[i] = sum;
  }
};

/// What both kernels read.
template <DType type_, int width_, bool general_>
struct TensorGradients : TensorAttention<type_, width_, general_> {
  const std::uint16_t* dcontext;
  const float *lse, *dots;
  std::uint16_t* dqkv;
  float* accumulator;

  struct Score {
    float kept;      ///< probability after dropout
    float gradient;  ///< of the score
  };
  /// By the product of query and key, that of the context's gradient and the value, and the query's row values.
  [[nodiscard]] ORRERY_ON_DEVICE Score score(float product, float dp, float lse_of_row, float dot, float slope,
                                             std::uint64_t sequence, std::uint64_t head, std::uint32_t query,
                                             std::uint32_t key, bool seen) const {
    const float scaled = product * this->scale;
    if constexpr (!general_) {
      const float p = seen ? std::exp2(scaled * log2_of_e - lse_of_row * log2_of_e) : 0.0F;
      return {p, p * (dp - dot)};
    } else {
      if (!seen) return {0.0F, 0.0F};
      const float capped = this->rule.capped(scaled);
      const float p = std::exp2((capped + this->rule.fall(slope, query, key) - lse_of_row) * log2_of_e);
      const float kept = this->dropout.keeps(sequence, head, query, key) ? this->inverse : 0.0F;
      return {p * kept, p * (dp * kept - dot) * this->rule.derivative(capped)};
    }
  }
};

/// Makes dq, with a block for each (sequence, head, 128 queries).
template <class Base>
struct TensorFlashQueries : Base {
  using Base::rows, Base::width, Base::general, Base::s;
  using typename Base::Tile;
  static constexpr DType type = Base::type;
  static constexpr int next_rows = 64, tiles = next_rows / 8;

  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    using Scores = typename Block::template PerLane<Sums<tiles>>;
    const QueryBlock at = this->query_block(number);
    const std::uint32_t i0 = at.first;
    const std::uint64_t head = at.head, sequence = at.sequence, kv_head = head / s.group;
    const std::uint64_t of_head = (sequence * s.heads + head) * s.length;
    const std::uint32_t own = 16 * b.warp();
    auto* memory = b.template shared<std::uint16_t>();
    const Tile q{memory}, dc{memory + width * rows};
    const auto tile_at = [&](std::uint32_t n) { return Tile{memory + width * (2 * rows + next_rows * n)}; };

    const float slope = general ? this->rule.slope(head) : 0.0F;
    typename Block::template PerLane<SeenPair> seen;
    typename Block::template PerLane<RowPair> own_lse, own_dots;
    typename Block::template PerLane<Sums<width / 8>> dq;
    b.each_lane([&](std::uint32_t lane) {
      seen[lane] = seen_by_queries(s, i0 + own, lane);
      ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
        const std::uint64_t query = i0 + own + row_of(lane, half);
        own_lse[lane].x[half] = query < s.length ? this->lse[of_head + query] : 0.0F;
        own_dots[lane].x[half] = query < s.length ? this->dots[of_head + query] : 0.0F;
      }
      dq[lane].clear();
    });

    const auto first = static_cast<std::uint32_t>(s.seen.first(i0)) / next_rows * next_rows;
    const std::uint64_t last = i0 + rows < s.length ? i0 + rows - 1 : s.length - 1;
    const auto end = static_cast<std::uint32_t>(s.seen.end(last, s.length));
    bring_tile<rows>(b, q, this->queries(sequence, head, i0));
    bring_tile<rows>(b, dc, this->contexts(this->dcontext, sequence, head, i0));
    const auto bring = [&](std::uint32_t n, std::uint32_t place) {
      const std::uint32_t j0 = first + n * next_rows;
      bring_tile<next_rows>(b, tile_at(2 * place), this->keys(sequence, kv_head, j0));
      bring_tile<next_rows>(b, tile_at(2 * place + 1), this->values(sequence, kv_head, j0));
    };
    const auto use = [&](std::uint32_t n, std::uint32_t place) {
      const std::uint32_t j0 = first + n * next_rows;
      const bool whole = this->all_seen(i0, rows, j0, next_rows);
      Scores products, dp;
      b.each_lane([&](std::uint32_t lane) {
        products[lane].clear();
        dp[lane].clear();
      });
      add_products<type, next_rows>(b, products, q, own, tile_at(2 * place));
      add_products<type, next_rows>(b, dp, dc, own, tile_at(2 * place + 1));
      b.each_lane([&](std::uint32_t lane) {
        ORRERY_UNROLL for (int tile = 0; tile < tiles; ++tile) {
          ORRERY_UNROLL for (int i = 0; i < 4; ++i) {
            const std::uint32_t query = i0 + own + row_of(lane, i / 2), key = j0 + column_of(lane, tile, i);
            dp[lane].x[tile][i] = this->score(products[lane].x[tile][i], dp[lane].x[tile][i], own_lse[lane].x[i / 2],
                                              own_dots[lane].x[i / 2], slope, sequence, head, query, key,
                                              whole || seen[lane].has(i / 2, key))
                                      .gradient;
          }
        }
      });
      add_weighted<type, next_rows>(b, dq, dp, tile_at(2 * place));
    };
    stream_tiles(b, (end - first + next_rows - 1) / next_rows, this->places, bring, use);

    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int tile = 0; tile < width / 8; ++tile) {
        ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
          const std::uint64_t query = i0 + own + row_of(lane, half);
          const std::uint32_t column = column_of(lane, tile, 0);
          if (query >= s.length || column >= s.dim) continue;
          float* to = this->accumulator + (of_head + query) * s.dim + column;
          to[0] = dq[lane].x[tile][2 * half];
          to[1] = dq[lane].x[tile][2 * half + 1];
        }
      }
    });
    Rows<std::uint16_t> to{this->dqkv + s.qkv_row(i0, sequence) + s.query_column(head), s.batch * s.qkv_width,
                           this->rows_from(i0), static_cast<std::uint32_t>(s.dim)};
    put_rows<type>(
        b, dq, [&](std::uint32_t, int) { return this->scale; }, q, own, to);
  }
};

/// Makes dk and dv, summed over the heads that share them, with a block for each (sequence, key head, 128 keys). Rows
/// of its scores are keys.
template <class Base>
struct TensorFlashKeys : Base {
  using Base::rows, Base::width, Base::general, Base::s;
  using typename Base::Tile;
  static constexpr DType type = Base::type;
  /// Two sums of the width stay in registers; with more rows beside them the widest would spill.
  static constexpr int next_rows = width > 96 ? 16 : 32, tiles = next_rows / 8;

  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    using Scores = typename Block::template PerLane<Sums<tiles>>;
    const std::uint64_t blocks = this->blocks_per_head();
    const auto j0 = static_cast<std::uint32_t>(number % blocks * rows);
    const std::uint64_t kv_head = number / blocks % s.kv_heads;
    const std::uint64_t sequence = number / blocks / s.kv_heads;
    const std::uint32_t own = 16 * b.warp();
    auto* memory = b.template shared<std::uint16_t>();
    const Tile k{memory}, v{memory + width * rows};
    const auto tile_at = [&](std::uint32_t n) { return Tile{memory + width * (2 * rows + next_rows * n)}; };

    typename Block::template PerLane<SeenPair> seen;
    typename Block::template PerLane<Sums<width / 8>> dk, dv;
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
        const std::uint64_t key = j0 + own + row_of(lane, half);
        const bool there = key < s.length;
        seen[lane].low[half] = there ? static_cast<std::uint32_t>(s.seen.first_query(key)) : 0;
        seen[lane].end[half] = there ? static_cast<std::uint32_t>(s.seen.end_query(key, s.length)) : 0;
      }
      dk[lane].clear();
      dv[lane].clear();
    });

    const auto first = static_cast<std::uint32_t>(s.seen.first_query(j0)) / next_rows * next_rows;
    const std::uint64_t last = j0 + rows < s.length ? j0 + rows - 1 : s.length - 1;
    const auto end = static_cast<std::uint32_t>(s.seen.end_query(last, s.length));
    const std::uint32_t per_head = (end - first + next_rows - 1) / next_rows;
    const auto head_at = [&](std::uint32_t n) { return kv_head * s.group + n / per_head; };
    const auto query_at = [&](std::uint32_t n) { return first + n % per_head * next_rows; };
    bring_tile<rows>(b, k, this->keys(sequence, kv_head, j0));
    bring_tile<rows>(b, v, this->values(sequence, kv_head, j0));
    const auto bring = [&](std::uint32_t n, std::uint32_t place) {
      bring_tile<next_rows>(b, tile_at(2 * place), this->queries(sequence, head_at(n), query_at(n)));
      bring_tile<next_rows>(b, tile_at(2 * place + 1),
                            this->contexts(this->dcontext, sequence, head_at(n), query_at(n)));
    };
    const auto use = [&](std::uint32_t n, std::uint32_t place) {
      const std::uint64_t head = head_at(n);
      const std::uint32_t i0 = query_at(n);
      const std::uint64_t of_head = (sequence * s.heads + head) * s.length;
      const float slope = general ? this->rule.slope(head) : 0.0F;
      const bool whole = this->all_seen(i0, next_rows, j0, rows);
      Scores p, ds;
      b.each_lane([&](std::uint32_t lane) {
        p[lane].clear();
        ds[lane].clear();
      });
      add_products<type, next_rows>(b, p, k, own, tile_at(2 * place));
      add_products<type, next_rows>(b, ds, v, own, tile_at(2 * place + 1));
      b.each_lane([&](std::uint32_t lane) {
        ORRERY_UNROLL for (int tile = 0; tile < tiles; ++tile) {
          ORRERY_UNROLL for (int side = 0; side < 2; ++side) {
            const std::uint32_t query = i0 + column_of(lane, tile, side);
            const bool there = query < this->length();
            const float of_row = there ? this->lse[of_head + query] : 0.0F;
            const float dot = there ? this->dots[of_head + query] : 0.0F;
            ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
              float& x = p[lane].x[tile][2 * half + side];
              float& d = ds[lane].x[tile][2 * half + side];
              const auto score = this->score(x, d, of_row, dot, slope, sequence, head, query,
                                             j0 + own + row_of(lane, half), whole || seen[lane].has(half, query));
              x = score.kept;
              d = score.gradient;
            }
          }
        }
      });
      add_weighted<type, next_rows>(b, dv, p, tile_at(2 * place + 1));
      add_weighted<type, next_rows>(b, dk, ds, tile_at(2 * place));
    };
    stream_tiles(b, per_head * static_cast<std::uint32_t>(s.group), this->places, bring, use);

    const std::uint64_t row = s.qkv_row(j0, sequence) + s.key_column(kv_head);
    const std::uint64_t step = s.batch * s.qkv_width;
    put_rows<type>(
        b, dk, [&](std::uint32_t, int) { return this->scale; }, k, own,
        Rows<std::uint16_t>{this->dqkv + row, step, this->rows_from(j0), static_cast<std::uint32_t>(s.dim)});
    put_rows<type>(
        b, dv, [](std::uint32_t, int) { return 1.0F; }, v, own,
        Rows<std::uint16_t>{this->dqkv + row + s.dim, step, this->rows_from(j0), static_cast<std::uint32_t>(s.value)});
  }
};

}  // namespace orrery::device
