#include <fmt/format.h>

#include "sim/net/topology.hpp"

namespace orrery {
namespace {

/// The number of a link is end * (links out of an end) + first of the dimension + 1 for the way down.
class Torus final : public Topology {
 public:
  Torus(std::vector<std::uint32_t> sizes, Link link) : link_(link) {
    for (const std::uint32_t n : sizes) {
      dimensions_.push_back({n, ends_, out_});
      ends_ *= n;
      out_ += n == 1 ? 0 : n == 2 ? 1 : 2;
    }
  }

  std::uint32_t ends() const override { return ends_; }
  bool ends_pass_on() const override { return true; }
  std::uint32_t vertices() const override { return ends_; }
  std::uint32_t links() const override { return ends_ * out_; }
  Link link(std::uint32_t) const override { return link_; }

  Sides sides(std::uint32_t l) const override {
    const std::uint32_t from = l / out_, which = l % out_;
    std::size_t d = dimensions_.size() - 1;
    while (dimensions_[d].size == 1 || which < dimensions_[d].first) --d;
    return {from, step(from, dimensions_[d], which == dimensions_[d].first)};
  }

  std::string vertex_name(std::uint32_t v) const override {
    std::string out = "end";
    for (const Dimension& d : dimensions_)
      out += fmt::format("{}{}", out.size() == 3 ? " " : ".", v / d.stride % d.size);
    return out;
  }

  void route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
             std::vector<std::uint32_t>& into) const override {
    std::uint32_t at = from;
    for (const Dimension& d : dimensions_) {
      const std::uint32_t ahead = (to / d.stride % d.size + d.size - from / d.stride % d.size) % d.size;
      if (ahead == 0) continue;
      bool up = 2 * ahead < d.size || d.size == 2;
      if (2 * ahead == d.size && d.size > 2) up = choice.pick(d.first, 2, to / d.stride) == 0;  // either way is as far
      for (std::uint32_t n = up ? ahead : d.size - ahead; n > 0; --n) {
        into.push_back(at * out_ + d.first + (up ? 0 : 1));
        at = step(at, d, up);
      }
    }
  }

 private:
  struct Dimension {
    std::uint32_t size, stride, first;
  };
  static std::uint32_t step(std::uint32_t v, const Dimension& d, bool up) {
    const std::uint32_t x = v / d.stride % d.size;
    return v - x * d.stride + (up ? x + 1 : x + d.size - 1) % d.size * d.stride;
  }

  std::uint32_t ends_ = 1, out_ = 0;
  std::vector<Dimension> dimensions_;
  Link link_;
};

}  // namespace

std::unique_ptr<Topology> torus(std::vector<std::uint32_t> sizes, Link link) {
  return std::make_unique<Torus>(std::move(sizes), link);
}

}  // namespace orrery
