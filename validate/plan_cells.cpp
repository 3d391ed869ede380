#include "validate/plan_cells.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "validate/cell_words.hpp"

namespace orrery {
namespace {

bool is_recipe(std::string_view word) {
  constexpr std::array known = {"hybrid", "tensorwise", "rowwise", "blockwise", "delayed", "cs", "ds", "mx", "linear"};
  return std::find(known.begin(), known.end(), word) != known.end();
}
/// Whether the remark lists recipes of fp8, separated by commas: "rowwise, bf16 all-gather".
bool are_recipes(std::string_view remark) {
  while (!remark.empty()) {
    const std::size_t comma = std::min(remark.find(", "), remark.size());
    const std::string_view one = remark.substr(0, comma);
    if (!is_recipe(one) && one != "float8" && one != "recipe per footnote" && one != "float8 all-gather" &&
        one != "bf16 all-gather") {
      return false;
    }
    remark.remove_prefix(std::min(comma + 2, remark.size()));
  }
  return true;
}

bool is_mixed(std::string_view text) { return text == "amp" || text == "mixed"; }

/// The number 3 for "zero-3" or "zero3".
std::optional<std::uint32_t> zero_stage(std::string_view word) {
  if (!word.starts_with("zero")) return std::nullopt;
  word.remove_prefix(word.starts_with("zero-") ? 5 : 4);
  if (word.size() != 1 || word[0] < '0' || word[0] > '3') return std::nullopt;
  return static_cast<std::uint32_t>(word[0] - '0');
}

/// Reads the words after FSDP: which part is sharded, its ZeRO stage again, and among how many ranks.
std::optional<ShardingCell> fsdp(CellWords& words) {
  ShardingCell out{ShardingCell::Kind::stage, 3, 0};
  if (words.take("shard_grad_op")) {
    out.stage = 2;
  } else {
    words.take("full_shard");
  }
  words.take_remarks([&](std::string_view remark) { return zero_stage(remark) == out.stage; });
  if (words.take("+")) return words.take("dp") ? std::optional(out) : std::nullopt;
  const bool named = words.take("degree") || (words.take("sharding") && words.take("group"));
  out.group = number_of_word(words.next());
  if (out.group > 0) words.take(words.next());
  return named && out.group == 0 ? std::nullopt : std::optional(out);
}

std::optional<ShardingCell> sharding(CellWords& words) {
  using Kind = ShardingCell::Kind;
  if (words.done()) return ShardingCell{};
  if (words.take("none")) return ShardingCell{Kind::stage, 0, 0};
  if (words.take("ddp")) {
    words.take_remarks([](std::string_view remark) { return remark == "fsdp=0"; });
    return ShardingCell{Kind::plain, 0, 0};
  }
  if (words.take("distributed")) {
    words.take_remarks([](std::string_view remark) { return zero_stage(remark) == 1U; });
    return words.take("optimizer") ? std::optional(ShardingCell{Kind::stage, 1, 0}) : std::nullopt;
  }
  if (words.take("fsdp") || words.take("fsdp2")) return fsdp(words);
  // "ZeRO-1", "zero 1" and "1".
  const bool apart = words.take("zero");
  std::string word(words.next());
  if (apart || word.size() == 1) word = "zero" + word;
  const std::optional<std::uint32_t> stage = zero_stage(word);
  if (!stage) return std::nullopt;
  words.take(words.next());
  ShardingCell out{Kind::stage, *stage, 0};
  if (words.take("within")) {
    out.group = number_of_word(words.next());
    words.take(words.next());
    if (out.group == 0 || !words.take("ranks")) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<PrecisionCell> read_precision(std::string_view cell) {
  CellWords words(cell, "-");
  PrecisionCell out;
  if (words.take("bf16") || words.take("amp_bf16") || words.take("fp16")) {
    if (lower_case(cell).starts_with("fp16")) out.precision = Precision::fp16;
    words.take_if(is_mixed);
    words.take_remarks(is_mixed);
  } else {
    out.precision = Precision::fp8;
    out.four_bits = words.take("nvfp4");
    out.blocks = out.four_bits || words.take("mxfp8");
    if (!out.blocks && !words.take("fp8") && !words.take("float8") && !words.take("amp_fp8")) return std::nullopt;
    while (is_recipe(words.next())) {
      out.blocks = out.blocks || words.next() == "mx";
      words.take(words.next());
    }
    words.take_remarks(are_recipes);
  }
  return words.done() ? std::optional(out) : std::nullopt;
}

std::optional<ShardingCell> read_sharding(std::string_view cell) {
  CellWords words(cell);
  const std::optional<ShardingCell> out = sharding(words);
  return words.done() ? out : std::nullopt;
}

std::optional<RecomputeCell> read_recompute(std::string_view cell) {
  CellWords words(cell);
  RecomputeCell out = RecomputeCell::unstated;
  if (words.take("none")) {
    out = RecomputeCell::none;
  } else if (words.take("full")) {
    out = RecomputeCell::full;
  } else if (words.take("selective")) {
    out = RecomputeCell::selective;
    words.take_remarks([&](std::string_view remark) {
      const bool attention = remark == "attention core" || remark == "core attention" || remark == "core_attn";
      if (attention) out = RecomputeCell::attention;
      if (remark == "per-op sac") out = RecomputeCell::by_operation;
      const bool minimal = remark == "remat minimal" || remark == "remat minimal_flash";
      if (minimal) out = RecomputeCell::none;
      return attention || minimal || remark == "per-op sac";
    });
  }
  return words.done() ? std::optional(out) : std::nullopt;
}

}  // namespace orrery
