#include "core/plan/compute_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"

namespace orrery {
namespace {

using Kind = OrderedAction::Kind;

constexpr std::string_view word = "orrery-order";
constexpr std::size_t most_mistakes = 20;

/// An action as it stands in the text.
struct Written {
  char kind = 'F';
  std::uint32_t stage = 0, microbatch = 0;
  std::uint32_t line = 0;  ///< from 1; 0: not from a text
  std::size_t offset = 0;  ///< in the line, in bytes
};
using Rows = std::vector<std::vector<Written>>;

std::string text_of(const Written& a) { return fmt::format("{}{}{}", a.stage, a.kind, a.microbatch); }

/// The place where mistakes go.
class Page {
 public:
  Page(Origin origin, Diagnostics& out) : origin_(std::move(origin)), out_(out), before_(out.size()) {}

  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] bool clean() const { return out_.size() == before_; }
  [[nodiscard]] bool full() const { return out_.size() - before_ >= most_mistakes; }
  [[nodiscard]] Position position(std::uint32_t line, std::size_t offset) const {
    return {line, character_count(origin_.line(line).substr(0, offset)) + 1};
  }
  void wrong(std::uint32_t line, std::size_t offset, const char* code, std::string message,
             std::vector<std::string> details) {
    if (full()) return;
    if (origin_.file.empty()) {
      if (line > 1) details.push_back(fmt::format("It stands in line {} of the order.", line - 1));  // 1: the header
      out_.error(code, std::move(message), std::move(details));
    } else {
      out_.error_at(origin_, position(line, offset), code, std::move(message), std::move(details));
    }
  }
  void wrong(const Written& a, const char* code, std::string message, std::vector<std::string> details) {
    wrong(a.line, a.offset, code, std::move(message), std::move(details));
  }
  /// The action as a text, "0F1", with its place where it has one.
  [[nodiscard]] std::string at(const Written& a) const {
    if (origin_.file.empty()) return text_of(a);
    const Position p = position(a.line, a.offset);
    return fmt::format("{} (line {}, column {})", text_of(a), p.line, p.column);
  }

 private:
  Origin origin_;
  Diagnostics& out_;
  std::size_t before_;
};

/// The number that begins at `at`, if it is below `limit`.
std::optional<std::uint32_t> number(std::string_view text, std::size_t& at, std::uint64_t limit) {
  const std::size_t first = at;
  std::uint64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = std::min<std::uint64_t>(10 * value + static_cast<std::uint64_t>(text[at] - '0'), limit);
    ++at;
  }
  if (at == first || value >= limit) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

std::optional<Written> action_of(std::string_view token) {
  Written a;
  std::size_t at = 0;
  const auto stage = number(token, at, stage_limit);
  if (!stage || at == token.size()) return std::nullopt;
  a.kind = token[at++];
  if (std::string_view("FBIW").find(a.kind) == std::string_view::npos) return std::nullopt;
  const auto microbatch = number(token, at, plan_size_limit);
  if (!microbatch || at != token.size()) return std::nullopt;
  a.stage = *stage;
  a.microbatch = *microbatch;
  return a;
}

/// Whether the line begins an order of a known version.
bool read_header(std::string_view line, std::uint32_t number_of_line, Page& page) {
  const std::vector<std::string> form{fmt::format("Its first line is: {} {}", word, order_schema)};
  if (!line.starts_with(word) || line.size() == word.size() ||
      (line[word.size()] != ' ' && line[word.size()] != '\t')) {
    page.wrong(number_of_line, 0, "order.schema", "this is not an order of actions", form);
    return false;
  }
  std::size_t at = line.find_first_not_of(" \t", word.size());
  const std::size_t from = std::min(at, line.size());
  const auto version = at == std::string_view::npos ? std::nullopt : number(line, at, 1U << 20);
  if (version == order_schema && line.find_first_not_of(" \t", at) == std::string_view::npos) return true;
  page.wrong(number_of_line, from, "order.schema", "the version of this order is not known", form);
  return false;
}

std::optional<Rows> read_rows(Page& page) {
  Rows rows;
  bool header = false;
  const std::string_view text = page.origin().text;
  std::uint32_t number_of_line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number_of_line;
    line = line.substr(0, line.find('#'));
    constexpr std::string_view gaps = " \t\r,";
    const std::size_t last = line.find_last_not_of(gaps);
    if (last == std::string_view::npos) continue;
    line = line.substr(0, last + 1);
    if (!header) {
      if (!read_header(line, number_of_line, page)) return std::nullopt;
      header = true;
      continue;
    }
    std::vector<Written>& row = rows.emplace_back();
    for (std::size_t at = line.find_first_not_of(gaps); at < line.size(); at = line.find_first_not_of(gaps, at)) {
      const std::size_t stop = std::min(line.find_first_of(gaps, at), line.size());
      const std::string_view token = line.substr(at, stop - at);
      if (std::optional<Written> a = action_of(token)) {
        a->line = number_of_line;
        a->offset = at;
        row.push_back(*a);
      } else {
        page.wrong(number_of_line, at, "order.action",
                   fmt::format("\"{}\" is not an action", escaped(token.substr(0, 40))),
                   {fmt::format("An action is a stage, one of F B I W, and a microbatch, such as 0F0; stages are below "
                                "{}, microbatches below {}.",
                                stage_limit, plan_size_limit)});
        if (page.full()) return std::nullopt;
      }
      at = stop;
    }
  }
  if (!header) {
    page.wrong(0, 0, "order.schema", "this is not an order of actions",
               {fmt::format("Its first line is: {} {}", word, order_schema)});
    return std::nullopt;
  }
  if (rows.empty()) page.wrong(0, 0, "order.ranks", "the order has no ranks", {"A line lists the actions of a rank."});
  if (!page.clean()) return std::nullopt;
  return rows;
}

/// The pipe that runs a microbatch: where there are two, each has half of the microbatches.
std::uint32_t pipe_of(const StageMap& map, std::uint32_t microbatch, std::uint32_t microbatches) {
  return map.two_way() && microbatch >= microbatches / 2 ? 1 : 0;
}

std::uint32_t count_microbatches(const Rows& rows) {
  std::uint32_t count = 0;
  for (const auto& row : rows) {
    for (const Written& a : row) count = std::max(count, a.microbatch + 1);
  }
  return count;
}

/// A stage that some placement would put on another rank.
struct Misplaced {
  std::size_t count = 0;
  const Written* first = nullptr;
};
Misplaced misplaced(const Rows& rows, const StageMap& map) {
  const std::uint32_t microbatches = count_microbatches(rows);
  Misplaced out;
  for (std::uint32_t r = 0; r < rows.size(); ++r) {
    for (const Written& a : rows[r]) {
      if (map.rank(a.stage, pipe_of(map, a.microbatch, microbatches)) == r) continue;
      if (out.count++ == 0) out.first = &a;
    }
  }
  return out;
}

/// Finds ranks and stages, and how the stages lie on the ranks.
std::optional<StageMap> map_of(const Rows& rows, Page& page) {
  const auto ranks = static_cast<std::uint32_t>(rows.size());
  std::uint32_t stages = 0;
  const Written* highest = nullptr;
  for (const auto& row : rows) {
    for (const Written& a : row) {
      if (a.stage < stages) continue;
      stages = a.stage + 1;
      highest = &a;
    }
  }
  if (stages == 0 || stages % ranks != 0) {
    page.wrong(highest != nullptr ? highest->line : 0, highest != nullptr ? highest->offset : 0, "order.stages",
               "the stages do not divide equally among the ranks",
               {fmt::format("The order has {} and {}; every rank needs the same number of stages.",
                            counted(stages, "stage"), counted(ranks, "rank"))});
    return std::nullopt;
  }
  const StageMap loop{ranks, stages / ranks, StagePlacement::loop}, v{ranks, stages / ranks, StagePlacement::v};
  const Misplaced off_loop = misplaced(rows, loop), off_v = misplaced(rows, v);
  if (off_loop.count == 0) return loop;
  if (off_v.count == 0) return v;
  const StageMap both{ranks, 2, StagePlacement::two_way};
  if (stages == ranks && ranks % 2 == 0 && count_microbatches(rows) % 2 == 0 && misplaced(rows, both).count == 0) {
    return both;
  }
  const Written& a = off_loop.count <= off_v.count ? *off_loop.first : *off_v.first;
  page.wrong(
      a, "order.placement", fmt::format("stage {} does not belong to this rank", a.stage),
      {stages == ranks ? fmt::format("With one stage on each rank, stage {} belongs to rank {}.", a.stage, a.stage)
                       : fmt::format("With {} stages on {} ranks, stage {} belongs to rank {} on a loop (stage s on "
                                     "rank s mod {}), and to rank {} on a V (down the ranks and up again).",
                                     stages, ranks, a.stage, loop.rank(a.stage), ranks, v.rank(a.stage))});
  return std::nullopt;
}

/// How far a microbatch has come in a stage.
enum class Done : std::uint8_t { nothing, forward, backward, weight, wrong };
using Progress = std::map<std::pair<std::uint32_t, std::uint32_t>, Done>;

std::string subject(const Written& a) { return fmt::format("microbatch {} of stage {}", a.microbatch, a.stage); }

/// Takes one action further. Only the first mistake about a microbatch in a stage is reported.
void advance(const Written& a, bool split, Done& now, Page& page) {
  const auto wrong = [&](const char* code, const char* what, std::string detail) {
    page.wrong(a, code, fmt::format("{} {}", subject(a), what), {std::move(detail)});
    now = Done::wrong;
  };
  const auto behind = [&](char kind) {
    return fmt::format("Put {}{}{} before {}.", a.stage, kind, a.microbatch, text_of(a));
  };
  if (now == Done::wrong) return;
  switch (a.kind) {
    case 'F':
      if (now != Done::nothing) {
        wrong("order.repeated", "runs forward twice", "Each microbatch passes a stage once.");
      } else {
        now = Done::forward;
      }
      return;
    case 'W':
      if (now == Done::weight) {
        wrong("order.repeated", "has its weight gradient twice", "An action B includes the weight gradient.");
      } else if (now != Done::backward) {
        wrong("order.weight-first", "has its weight gradient before its input gradient", behind('I'));
      } else {
        now = Done::weight;
      }
      return;
    default:  // B, I
      if (now == Done::nothing) {
        wrong("order.backward-first", "runs backward before it runs forward", behind('F'));
      } else if (now != Done::forward) {
        wrong("order.repeated", "runs backward twice", "Each microbatch passes a stage once.");
      } else {
        now = a.kind == 'I' || !split ? Done::backward : Done::weight;
      }
  }
}

/// Every microbatch forward, backward and its weight gradient once in each stage, in this order on its rank.
bool check_rows(const Rows& rows, const StageMap& map, std::uint32_t microbatches, bool split, Page& page) {
  Progress progress;
  for (const auto& row : rows) {
    for (const Written& a : row) advance(a, split, progress[{a.stage, a.microbatch}], page);
  }
  if (!page.clean()) return false;
  auto found = progress.begin();
  for (std::uint32_t stage = 0; stage < map.stages(); ++stage) {
    for (std::uint32_t m = 0; m < microbatches; ++m) {
      Done done = Done::nothing;
      if (found != progress.end() && found->first == std::pair(stage, m)) done = (found++)->second;
      const Done all = split ? Done::weight : Done::backward;
      if (done == all) continue;
      const std::uint32_t rank = map.rank(stage, pipe_of(map, m, microbatches));
      const auto& row = rows[rank];
      const char* what = done == Done::nothing   ? "runs forward"
                         : done == Done::forward ? "runs backward"
                                                 : "has its weight gradient";
      page.wrong(row.empty() ? 0 : row.back().line, 0, "order.missing",
                 fmt::format("microbatch {} of stage {} never {}", m, stage, what),
                 {fmt::format("Rank {} lacks {}{}{}; microbatches are 0 to {}.", rank, stage,
                              done == Done::nothing   ? 'F'
                              : done == Done::forward ? (split ? 'I' : 'B')
                                                      : 'W',
                              m, microbatches - 1)});
      if (page.full()) return false;
    }
  }
  return page.clean();
}

/// Runs the lists as if messages took no time; actions that are left wait in a ring.
void check_progress(const Rows& rows, const StageMap& map, std::uint32_t microbatches, Page& page) {
  // Bits: forward, backward.
  std::vector<std::uint8_t> done(std::size_t{map.stages()} * microbatches);
  const auto bit = [](char kind) -> std::uint8_t { return kind == 'F' ? 1 : 2; };
  const auto needs = [&](const Written& a) -> std::optional<Written> {
    if (a.kind == 'W') return std::nullopt;
    if (a.kind == 'F' ? a.stage == 0 : a.stage + 1 == map.stages()) return std::nullopt;
    Written other = a;
    other.stage = a.kind == 'F' ? a.stage - 1 : a.stage + 1;
    if ((done[std::size_t{other.stage} * microbatches + a.microbatch] & bit(a.kind)) != 0) return std::nullopt;
    return other;
  };
  std::vector<std::size_t> at(rows.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (; at[r] < rows[r].size() && !needs(rows[r][at[r]]); ++at[r], moved = true) {
        const Written& a = rows[r][at[r]];
        if (a.kind != 'W') done[std::size_t{a.stage} * microbatches + a.microbatch] |= bit(a.kind);
      }
    }
  }
  std::uint32_t rank = 0;
  while (rank < rows.size() && at[rank] == rows[rank].size()) ++rank;
  if (rank == rows.size()) return;
  // Every rank that is left waits for another rank or for itself, so after as many steps as there are ranks the walk is
  // in the ring.
  const auto rank_of = [&](const Written& a) { return map.rank(a.stage, pipe_of(map, a.microbatch, microbatches)); };
  const auto next = [&](std::uint32_t r) { return rank_of(*needs(rows[r][at[r]])); };
  for (std::size_t i = 0; i < rows.size(); ++i) rank = next(rank);
  const std::uint32_t first = rank;
  std::vector<std::string> details;
  do {
    const Written& a = rows[rank][at[rank]];
    const Written other = *needs(a);
    const std::uint32_t to = rank_of(other);
    const auto same = [&](const Written& w) {
      return w.stage == other.stage && w.microbatch == other.microbatch && (w.kind == 'F') == (a.kind == 'F') &&
             w.kind != 'W';
    };
    const Written& theirs = *std::find_if(rows[to].begin(), rows[to].end(), same);
    details.push_back(to == rank ? fmt::format("Rank {} waits at {} for its own {}, which comes later.", rank,
                                               page.at(a), page.at(theirs))
                                 : fmt::format("Rank {} waits at {} for {} of rank {}, which comes after {}.", rank,
                                               page.at(a), page.at(theirs), to, page.at(rows[to][at[to]])));
    rank = to;
  } while (rank != first);
  const char* message = details.size() == 1 ? "a rank waits for itself" : "ranks wait for each other";
  page.wrong(rows[first][at[first]], "order.deadlock", message, std::move(details));
}

/// The order that the rows describe, checked; empty after mistakes.
std::optional<ComputeOrder> order_of(const Rows& rows, Page& page) {
  const std::optional<StageMap> map = map_of(rows, page);
  if (!map) return std::nullopt;
  ComputeOrder order;
  order.placement = map->placement;
  order.chunks = map->chunks / map->pipes();
  order.microbatches = count_microbatches(rows);
  bool split = false;
  std::size_t actions = 0;
  for (const auto& row : rows) {
    actions += row.size();
    for (const Written& a : row) {
      split = split || a.kind == 'I' || a.kind == 'W';
    }
  }
  if (!check_rows(rows, *map, order.microbatches, split, page)) return std::nullopt;
  ORRERY_ASSERT(std::size_t{map->stages()} * order.microbatches <= actions, actions);
  check_progress(rows, *map, order.microbatches, page);
  if (!page.clean()) return std::nullopt;
  for (const auto& row : rows) {
    std::vector<OrderedAction>& rank = order.ranks.emplace_back();
    for (const Written& a : row) {
      const std::uint32_t chunk = map->chunk(a.stage, pipe_of(*map, a.microbatch, order.microbatches));
      if (a.kind == 'F') rank.push_back({Kind::forward, chunk, a.microbatch});
      if (a.kind == 'B' || a.kind == 'I') rank.push_back({Kind::backward, chunk, a.microbatch});
      if (a.kind == 'W' || (a.kind == 'B' && split)) rank.push_back({Kind::weight, chunk, a.microbatch});
    }
  }
  return order;
}

bool is_split(const ComputeOrder& order) {
  return std::any_of(order.ranks.begin(), order.ranks.end(), [](const auto& rank) {
    return std::any_of(rank.begin(), rank.end(), [](const OrderedAction& a) { return a.kind == Kind::weight; });
  });
}

Rows rows_of(const ComputeOrder& order) {
  const std::uint32_t pipes = order.placement == StagePlacement::two_way ? 2 : 1;
  const StageMap map{static_cast<std::uint32_t>(order.ranks.size()), order.chunks * pipes, order.placement};
  const char backward = is_split(order) ? 'I' : 'B';
  Rows rows;
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    std::vector<Written>& row = rows.emplace_back();
    for (const OrderedAction& a : order.ranks[r]) {
      const char kind = a.kind == Kind::forward ? 'F' : a.kind == Kind::backward ? backward : 'W';
      row.push_back({kind, map.stage(r, a.chunk), a.microbatch, 0, 0});
    }
  }
  return rows;
}

}  // namespace

std::optional<ComputeOrder> read_order(std::string text, const std::string& file, Diagnostics& diagnostics) {
  Page page({file, std::move(text), {}}, diagnostics);
  const std::optional<Rows> rows = read_rows(page);
  if (!rows) return std::nullopt;
  return order_of(*rows, page);
}

std::vector<std::string> order_lines(const ComputeOrder& order) {
  std::vector<std::string> lines;
  for (const auto& row : rows_of(order)) {
    std::string& line = lines.emplace_back();
    for (const Written& a : row) {
      if (!line.empty()) line += ' ';
      line += text_of(a);
    }
  }
  return lines;
}

std::string write_order(const ComputeOrder& order) {
  std::string text = fmt::format("{} {}\n", word, order_schema);
  for (const std::string& line : order_lines(order)) text += line + "\n";
  return text;
}

Diagnostics mistakes_of(const ComputeOrder& order) {
  Diagnostics found;
  Page page({}, found);
  if (order.ranks.empty()) {
    page.wrong(0, 0, "order.ranks", "the order has no ranks", {"A line lists the actions of a rank."});
    return found;
  }
  const std::uint32_t pipes = order.placement == StagePlacement::two_way ? 2 : 1;
  for (const auto& rank : order.ranks) {
    for (const OrderedAction& a : rank) {
      if (a.chunk < pipes * order.chunks && order.chunks <= stage_limit / order.ranks.size() &&
          a.microbatch < plan_size_limit) {
        continue;
      }
      page.wrong(
          0, 0, "order.stages", "the chunk or the microbatch of an action is out of range",
          {fmt::format("It has chunk {} and microbatch {}; chunks is {}.", a.chunk, a.microbatch, order.chunks)});
      return found;
    }
  }
  static_cast<void>(order_of(rows_of(order), page));
  return found;
}

}  // namespace orrery
