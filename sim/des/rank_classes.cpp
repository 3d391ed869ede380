#include "sim/des/rank_classes.hpp"

#include <unordered_map>

#include "core/base/random.hpp"

namespace orrery {

RankClasses rank_classes(const std::vector<std::uint32_t>& of_rank) {
  RankClasses out;
  out.of_rank.resize(of_rank.size());
  std::unordered_map<std::uint32_t, std::uint32_t> number;
  for (std::uint32_t r = 0; r < of_rank.size(); ++r) {
    const auto [found, is_new] = number.try_emplace(of_rank[r], out.count());
    if (is_new) {
      out.representative.push_back(Rank{r});
      out.ranks.push_back(0);
    }
    out.of_rank[r] = found->second;
    ++out.ranks[found->second];
  }
  return out;
}

RankClasses program_classes(const Program& program) {
  RankClasses out;
  const auto count = static_cast<std::uint32_t>(program.classes.size());
  out.of_rank.resize(program.mesh.size());
  out.ranks.assign(count, 0);
  for (std::uint32_t c = 0; c < count; ++c) out.representative.push_back(representative(program, c));
  for (std::uint32_t r = 0; r < out.of_rank.size(); ++r) ++out.ranks[out.of_rank[r] = class_of(program, Rank{r})];
  return out;
}

RankClasses single_ranks(const Program& program) {
  RankClasses out;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    out.of_rank.push_back(r);
    out.representative.push_back(Rank{r});
  }
  out.ranks.assign(out.of_rank.size(), 1);
  return out;
}

namespace {

/// What a thing sees around it, whatever the order: sums of two hashes of each neighbour.
struct Signature {
  std::uint64_t a = 0, b = 0;
  void add(std::uint64_t neighbour, std::uint64_t label) {
    const std::uint64_t h = mix(neighbour * 0x9e3779b97f4a7c15ULL ^ label);
    a += h;
    b += mix(h ^ 0x2545f4914f6cdd1dULL);
  }
  friend bool operator==(const Signature&, const Signature&) = default;
};
struct SignatureHash {
  std::size_t operator()(const Signature& s) const { return s.a; }
};

/// Things of one kind with their classes.
class Kind {
 public:
  Kind(const std::vector<std::uint64_t>& labels, std::vector<std::uint32_t>& classes) : class_(classes) {
    seen_.resize(labels.size());
    class_.assign(labels.size(), 0);
    for (std::size_t i = 0; i < labels.size(); ++i) seen_[i].add(labels[i], 0);
    number();
  }
  void look_anew() { seen_.assign(seen_.size(), Signature{}); }
  void see(std::uint32_t i, std::uint32_t neighbour, std::uint64_t label) { seen_[i].add(neighbour, label); }
  /// Numbers a class for every pair of old class and neighbourhood.
  void number() {
    classes_.clear();
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      Signature s = seen_[i];
      s.add(class_[i], 0x8000000000000001ULL);
      class_[i] = classes_.try_emplace(s, static_cast<std::uint32_t>(classes_.size())).first->second;
    }
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t i) const { return class_[i]; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(classes_.size()); }

 private:
  std::vector<Signature> seen_;
  std::vector<std::uint32_t>& class_;
  std::unordered_map<Signature, std::uint32_t, SignatureHash> classes_;
};

}  // namespace

GraphClasses stable_classes(const MeetingGraph& graph) {
  GraphClasses out;
  Kind ranks(graph.ranks, out.rank), flows(graph.flows, out.flow), links(graph.links, out.link);
  for (std::uint64_t before = 0;;) {
    const std::uint64_t now = std::uint64_t{ranks.count()} + flows.count() + links.count();
    if (now == before) break;
    before = now;
    ++out.rounds;
    flows.look_anew();
    for (const auto& e : graph.taking_part) flows.see(e.to, ranks.of(e.from), e.label);
    for (const auto& e : graph.crossing) flows.see(e.from, links.of(e.to), ~e.label);
    flows.number();
    ranks.look_anew();
    for (const auto& e : graph.taking_part) ranks.see(e.from, flows.of(e.to), e.label);
    ranks.number();
    links.look_anew();
    for (const auto& e : graph.crossing) links.see(e.to, flows.of(e.from), e.label);
    links.number();
  }
  out.ranks = ranks.count();
  out.flows = flows.count();
  out.links = links.count();
  return out;
}

}  // namespace orrery
