#include <fmt/format.h>

#include "core/base/diagnostics.hpp"
#include "sim/net/topology.hpp"

namespace orrery {
namespace {

/// A switch of level l stands above the ends that share e / m_l, where m_l is the product of `down` up to l. It is one
/// of w_l such switches, where w_l is the product of `up`.
class FatTree final : public Topology {
 public:
  FatTree(std::uint32_t ends, std::vector<TreeLevel> levels) : ends_(ends) {
    rows_.push_back({.first_vertex = 0, .first_link = 0, .below = 1, .copies = 1, .count = ends, .level = {}});
    for (TreeLevel& level : levels) {
      const Row& under = rows_.back();
      Row row{.first_vertex = under.first_vertex + under.count,
              .first_link = links_,
              .below = under.below * level.down,
              .copies = under.copies * level.up,
              .count = 0,
              .level = level};
      row.count = static_cast<std::uint32_t>((ends + row.below - 1) / row.below * row.copies);
      links_ += 2 * under.count * level.up;
      rows_.push_back(row);
    }
    ORRERY_ASSERT(rows_.back().below >= ends, rows_.back().below, ends);
  }

  std::uint32_t ends() const override { return ends_; }
  std::uint32_t vertices() const override { return rows_.back().first_vertex + rows_.back().count; }
  std::uint32_t links() const override { return links_; }
  Link link(std::uint32_t l) const override { return rows_[row_of(l)].level.link; }

  Sides sides(std::uint32_t l) const override {
    const std::size_t i = row_of(l);
    const Row& row = rows_[i];
    const Row& under = rows_[i - 1];
    const std::uint32_t cable = (l - row.first_link) / 2;
    const std::uint32_t lower = cable / row.level.up, branch = cable % row.level.up;
    const std::uint64_t group = lower / under.copies / row.level.down, copy = lower % under.copies;
    const auto upper = static_cast<std::uint32_t>(group * row.copies + copy + branch * under.copies);
    const Sides up{under.first_vertex + lower, row.first_vertex + upper};
    return (l - row.first_link) % 2 == 0 ? up : Sides{up.to, up.from};
  }

  std::string vertex_name(std::uint32_t v) const override {
    if (v < ends_) return fmt::format("end {}", v);
    std::size_t i = rows_.size() - 1;
    while (v < rows_[i].first_vertex) --i;
    const char* kind = i == 1 ? "leaf" : i == 2 ? "spine" : "core";
    return i > 3 ? fmt::format("{} {}.{}", kind, i - 2, v - rows_[i].first_vertex)
                 : fmt::format("{} {}", kind, v - rows_[i].first_vertex);
  }

  void route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
             std::vector<std::uint32_t>& into) const override {
    if (from == to) return;
    std::size_t top = 1;
    while (from / rows_[top].below != to / rows_[top].below) ++top;
    const std::size_t first = into.size();
    into.resize(first + 2 * top);
    std::uint64_t copy = 0;  // which of the switches that stand above the same ends
    for (std::size_t i = 1; i <= top; ++i) {
      const Row& row = rows_[i];
      const Row& under = rows_[i - 1];
      const std::uint32_t branch = choice.pick(i, row.level.up, to / under.copies);
      const auto cable = [&](std::uint32_t end) {
        const std::uint64_t lower = end / under.below * under.copies + copy;
        return row.first_link + 2 * static_cast<std::uint32_t>(lower * row.level.up + branch);
      };
      into[first + i - 1] = cable(from);
      into[first + 2 * top - i] = cable(to) + 1;
      copy += branch * under.copies;
    }
  }

 private:
  struct Row {
    std::uint32_t first_vertex, first_link;  ///< links to the row below
    std::uint64_t below, copies;             ///< m_l, w_l
    std::uint32_t count;
    TreeLevel level;
  };
  std::size_t row_of(std::uint32_t l) const {
    std::size_t i = rows_.size() - 1;
    while (l < rows_[i].first_link) --i;
    return i;
  }

  std::uint32_t ends_, links_ = 0;
  std::vector<Row> rows_;  ///< rows_[0]: the ends
};

}  // namespace

std::unique_ptr<Topology> fat_tree(std::uint32_t ends, std::vector<TreeLevel> levels) {
  return std::make_unique<FatTree>(ends, std::move(levels));
}

}  // namespace orrery
