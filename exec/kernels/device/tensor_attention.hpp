#pragma once

#include "exec/kernels/device/flash_shape.hpp"
#include "exec/kernels/device/shared_tile.hpp"

/// Attention without the matrix of probabilities in memory, on tensor cores, for elements of 16 bits and head sizes up
/// to 128. Sources: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", ICLR 2024
/// (a warp has rows of its own, and divides by their sums once); cp.async, ldmatrix and mma of NVIDIA's PTX ISA. Sums
/// are in f32. Probabilities and gradients of scores round to the elements' type before they are multiplied, as other
/// programs round them.
namespace orrery::device {

inline constexpr float log2_of_e = 1.44269504088896340736F;
/// Largest score of a row of which no key has been seen: finite, so that differences are numbers.
inline constexpr float nothing_seen = -1e30F;
inline constexpr float never = -std::numeric_limits<float>::infinity();

/// 128 queries of a head of a sequence.
struct QueryBlock {
  std::uint32_t first;
  std::uint64_t head, sequence;
};

/// What the kernels on tensor cores share. `general` serves soft caps, ALiBi and dropout too.
template <DType type_, int width_, bool general_>
struct TensorAttention {
  static constexpr DType type = type_;
  static constexpr int width = width_;
  static constexpr bool general = general_;
  static constexpr std::uint32_t warps = 8, rows = 16 * warps;  ///< of a block
  using Tile = SharedTile<width>;

  FlashShape s;
  const std::uint16_t* qkv;
  ProbabilityMask dropout;
  cpu::ScoreRule<float> rule;
  float scale, inverse;
  std::uint32_t places;  ///< for tiles that come one after another: 2, or 1 where shared memory is small

  [[nodiscard]] static std::uint64_t shared_bytes(std::uint64_t tiles_of_block, std::uint64_t rows_of_next,
                                                  std::uint64_t places) {
    return 2 * width * (tiles_of_block * rows + 2 * rows_of_next * places);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint32_t length() const { return static_cast<std::uint32_t>(s.length); }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint32_t rows_from(std::uint32_t first) const {
    return first < length() ? length() - first : 0;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t blocks_per_head() const { return (s.length + rows - 1) / rows; }
  /// The block of queries with this number; those with the most keys come first.
  [[nodiscard]] ORRERY_ON_DEVICE QueryBlock query_block(std::uint64_t number) const {
    const std::uint64_t blocks = blocks_per_head();
    return {static_cast<std::uint32_t>((blocks - 1 - number % blocks) * rows), number / blocks % s.heads,
            number / blocks / s.heads};
  }
  /// Elements from a position's row to the next position's.
  [[nodiscard]] ORRERY_ON_DEVICE Rows<const std::uint16_t> queries(std::uint64_t sequence, std::uint64_t head,
                                                                   std::uint32_t first) const {
    return packed(sequence, s.query_column(head), first, s.dim);
  }
  [[nodiscard]] ORRERY_ON_DEVICE Rows<const std::uint16_t> keys(std::uint64_t sequence, std::uint64_t kv_head,
                                                                std::uint32_t first) const {
    return packed(sequence, s.key_column(kv_head), first, s.dim);
  }
  [[nodiscard]] ORRERY_ON_DEVICE Rows<const std::uint16_t> values(std::uint64_t sequence, std::uint64_t kv_head,
                                                                  std::uint32_t first) const {
    return packed(sequence, s.key_column(kv_head) + s.dim, first, s.value);
  }
  [[nodiscard]] ORRERY_ON_DEVICE Rows<const std::uint16_t> packed(std::uint64_t sequence, std::uint64_t column,
                                                                  std::uint32_t first, std::uint64_t columns) const {
    return {qkv + s.qkv_row(first, sequence) + column, s.batch * s.qkv_width, rows_from(first),
            static_cast<std::uint32_t>(columns)};
  }
  /// Rows of contexts, or of their gradients.
  template <class Element>
  [[nodiscard]] ORRERY_ON_DEVICE Rows<Element> contexts(Element* x, std::uint64_t sequence, std::uint64_t head,
                                                        std::uint32_t first) const {
    return {x + s.context_at(first, sequence, head), s.batch * s.context_width, rows_from(first),
            static_cast<std::uint32_t>(s.value)};
  }
  /// Whether each of so many queries from i0 on sees each of so many keys from j0 on, and all are there.
  [[nodiscard]] ORRERY_ON_DEVICE bool all_seen(std::uint64_t i0, std::uint64_t queries, std::uint64_t j0,
                                               std::uint64_t keys) const {
    return i0 + queries <= s.length && j0 + keys <= s.length && s.seen.end(i0, s.length) >= j0 + keys &&
           s.seen.first(i0 + queries - 1) <= j0;
  }
};

/// What is seen of a lane's two rows: [low, end) of the other side.
struct SeenPair {
  std::uint32_t low[2], end[2];
  [[nodiscard]] ORRERY_ON_DEVICE bool has(int half, std::uint32_t other) const {
    return low[half] <= other && other < end[half];
  }
};
/// The keys that a query sees; none behind the sequence's end.
[[nodiscard]] ORRERY_ON_DEVICE inline SeenPair seen_by_queries(const FlashShape& s, std::uint32_t first,
                                                               std::uint32_t lane) {
  SeenPair p{};
  ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
    const std::uint64_t query = first + row_of(lane, half);
    if (query >= s.length) continue;
    p.low[half] = static_cast<std::uint32_t>(s.seen.first(query));
    p.end[half] = static_cast<std::uint32_t>(s.seen.end(query, s.length));
  }
  return p;
}

template <class Base>
struct TensorFlashForward : Base {
  using Base::rows, Base::width, Base::general, Base::s;
  using typename Base::Tile;
  static constexpr DType type = Base::type;
  static constexpr int keys_of_tile = 64, tiles = keys_of_tile / 8;

  std::uint16_t* context;
  float* lse;
  Elements sinks;  ///< none where data is null

  struct Row {
    float most[2], total[2];
  };
  /// There is a block for each (sequence, head, 128 queries); those with the most keys come first.
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    using Scores = typename Block::template PerLane<Sums<tiles>>;
    const QueryBlock at = this->query_block(number);
    const std::uint32_t i0 = at.first;
    const std::uint64_t head = at.head, sequence = at.sequence, kv_head = head / s.group;
    const std::uint32_t own = 16 * b.warp();  // the warp's first row
    auto* memory = b.template shared<std::uint16_t>();
    const Tile q{memory};
    const auto tile_at = [&](std::uint32_t n) { return Tile{memory + width * (rows + keys_of_tile * n)}; };

    const bool has_sink = sinks.data != nullptr;
    const float sink = has_sink ? sinks.load<float>(head) : 0.0F;
    const float slope = general ? this->rule.slope(head) : 0.0F;
    typename Block::template PerLane<Row> row;
    typename Block::template PerLane<SeenPair> seen;
    typename Block::template PerLane<Sums<width / 8>> sums;
    b.each_lane([&](std::uint32_t lane) {
      seen[lane] = seen_by_queries(s, i0 + own, lane);
      ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
        // A sink is a key without a value, which every query meets first; one lane of a quad counts it.
        row[lane].most[half] = has_sink ? sink : nothing_seen;
        row[lane].total[half] = has_sink && lane % 4 == 0 ? 1.0F : 0.0F;
      }
      sums[lane].clear();
    });

    const auto first = static_cast<std::uint32_t>(s.seen.first(i0)) / keys_of_tile * keys_of_tile;
    const std::uint64_t last = i0 + rows < s.length ? i0 + rows - 1 : s.length - 1;
    const auto end = static_cast<std::uint32_t>(s.seen.end(last, s.length));
    bring_tile<rows>(b, q, this->queries(sequence, head, i0));
    const auto bring = [&](std::uint32_t n, std::uint32_t place) {
      const std::uint32_t j0 = first + n * keys_of_tile;
      bring_tile<keys_of_tile>(b, tile_at(2 * place), this->keys(sequence, kv_head, j0));
      bring_tile<keys_of_tile>(b, tile_at(2 * place + 1), this->values(sequence, kv_head, j0));
    };
    const auto use = [&](std::uint32_t n, std::uint32_t place) {
      const std::uint32_t j0 = first + n * keys_of_tile;
      const bool whole = this->all_seen(i0, rows, j0, keys_of_tile);
      Scores p;
      typename Block::template PerLane<RowPair> high;
      b.each_lane([&](std::uint32_t lane) { p[lane].clear(); });
      add_products<type, keys_of_tile>(b, p, q, own, tile_at(2 * place));
      b.each_lane([&](std::uint32_t lane) {
        high[lane] = {{row[lane].most[0], row[lane].most[1]}};
        ORRERY_UNROLL for (int tile = 0; tile < tiles; ++tile) {
          ORRERY_UNROLL for (int i = 0; i < 4; ++i) {
            const std::uint32_t key = j0 + column_of(lane, tile, i);
            float score = p[lane].x[tile][i] * this->scale;
            if constexpr (general) score = this->rule.score(score, slope, i0 + own + row_of(lane, i / 2), key);
            if (!whole && !seen[lane].has(i / 2, key)) score = never;
            p[lane].x[tile][i] = score;
            high[lane].x[i / 2] = score > high[lane].x[i / 2] ? score : high[lane].x[i / 2];
          }
        }
      });
      b.over_quad(high, [](float a, float c) { return a < c ? c : a; });
      b.each_lane([&](std::uint32_t lane) {
        Row& r = row[lane];
        ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
          // Earlier sums were counted from the old maximum.
          const float shrink = std::exp2((r.most[half] - high[lane].x[half]) * log2_of_e);
          r.most[half] = high[lane].x[half];
          r.total[half] *= shrink;
          ORRERY_UNROLL for (int tile = 0; tile < width / 8; ++tile) {
            sums[lane].x[tile][2 * half] *= shrink;
            sums[lane].x[tile][2 * half + 1] *= shrink;
          }
        }
        const float base[2] = {r.most[0] * log2_of_e, r.most[1] * log2_of_e};
        ORRERY_UNROLL for (int tile = 0; tile < tiles; ++tile) {
          ORRERY_UNROLL for (int i = 0; i < 4; ++i) {
            float& x = p[lane].x[tile][i];
            x = std::exp2(x * log2_of_e - base[i / 2]);
            r.total[i / 2] += x;
            if constexpr (general) {
              const std::uint64_t query = i0 + own + row_of(lane, i / 2);
              x = this->dropout.keeps(sequence, head, query, j0 + column_of(lane, tile, i)) ? x * this->inverse : 0.0F;
            }
          }
        }
      });
      add_weighted<type, keys_of_tile>(b, sums, p, tile_at(2 * place + 1));
    };
    stream_tiles(b, (end - first + keys_of_tile - 1) / keys_of_tile, this->places, bring, use);

    typename Block::template PerLane<RowPair> total;
    b.each_lane([&](std::uint32_t lane) { total[lane] = {{row[lane].total[0], row[lane].total[1]}}; });
    b.over_quad(total, [](float a, float c) { return a + c; });
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
        const std::uint64_t query = i0 + own + row_of(lane, half);
        if (lane % 4 != 0 || query >= s.length) continue;
        lse[(sequence * s.heads + head) * s.length + query] = row[lane].most[half] + std::log(total[lane].x[half]);
      }
    });
    // Each warp has read its own rows of q alone. Rows behind the end have no sum, and are not written.
    put_rows<type>(
        b, sums, [&](std::uint32_t lane, int half) { return 1.0F / total[lane].x[half]; }, q, own,
        this->contexts(context, sequence, head, i0));
  }
};

}  // namespace orrery::device
