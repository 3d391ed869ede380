#include <fmt/format.h>

#include <numeric>

#include "sim/net/topology.hpp"

namespace orrery {
namespace {

/// Links of one dimension follow each other end by end; a switch has the way up and the way down.
class Product final : public Topology {
 public:
  explicit Product(const std::vector<ProductDimension>& dimensions) {
    for (const ProductDimension& d : dimensions) {
      ends_ *= d.size;
      dimensions_.push_back({d.shape, d.size, ends_ / d.size, d.link, 0, links_each(d), 0});
    }
    vertices_ = ends_;
    for (Dimension& d : dimensions_) {
      d.first = links_;
      links_ += ends_ * d.each;
      d.first_switch = vertices_;
      if (d.shape == ProductDimension::Shape::switched && d.size > 1) vertices_ += ends_ / d.size;
    }
  }

  std::uint32_t ends() const override { return ends_; }
  bool ends_pass_on() const override { return true; }
  std::uint32_t vertices() const override { return vertices_; }
  std::uint32_t links() const override { return links_; }
  Link link(std::uint32_t l) const override { return of_link(l).link; }

  Sides sides(std::uint32_t l) const override {
    const Dimension& d = of_link(l);
    const std::uint32_t end = (l - d.first) / d.each, which = (l - d.first) % d.each;
    const std::uint32_t x = end / d.stride % d.size;
    switch (d.shape) {
      case ProductDimension::Shape::ring: return {end, at(end, d, which == 0 ? x + 1 : x + d.size - 1)};
      case ProductDimension::Shape::full: return {end, at(end, d, x + 1 + which)};
      case ProductDimension::Shape::switched: break;
    }
    return which == 0 ? Sides{end, switch_of(end, d)} : Sides{switch_of(end, d), end};
  }

  std::string vertex_name(std::uint32_t v) const override {
    if (v >= ends_) {
      std::size_t i = dimensions_.size() - 1;
      while (dimensions_[i].first_switch > v || dimensions_[i].shape != ProductDimension::Shape::switched ||
             dimensions_[i].size == 1) {
        --i;
      }
      return fmt::format("switch {}.{}", i + 1, v - dimensions_[i].first_switch);
    }
    std::string out = "end";
    for (const Dimension& d : dimensions_) {
      out += fmt::format("{}{}", out.size() == 3 ? " " : ".", v / d.stride % d.size);
    }
    return out;
  }

  void route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
             std::vector<std::uint32_t>& into) const override {
    std::uint32_t now = from;
    for (const Dimension& d : dimensions_) {
      const std::uint32_t x = now / d.stride % d.size, y = to / d.stride % d.size;
      if (x == y) continue;
      const std::uint32_t next = at(now, d, y);
      const std::uint32_t ahead = (y + d.size - x) % d.size;
      switch (d.shape) {
        case ProductDimension::Shape::full: into.push_back(d.first + now * d.each + ahead - 1); break;
        case ProductDimension::Shape::switched:
          into.push_back(d.first + now * d.each);
          into.push_back(d.first + next * d.each + 1);
          break;
        case ProductDimension::Shape::ring: {
          bool up = 2 * ahead < d.size || d.size == 2;
          if (2 * ahead == d.size && d.size > 2) up = choice.pick(d.first, 2, y) == 0;  // either way is as far
          for (std::uint32_t n = up ? ahead : d.size - ahead, v = now; n > 0; --n) {
            into.push_back(d.first + v * d.each + (up ? 0 : 1));
            v = at(v, d, v / d.stride % d.size + (up ? 1 : d.size - 1));
          }
          break;
        }
      }
      now = next;
    }
  }

 private:
  struct Dimension {
    ProductDimension::Shape shape;
    std::uint32_t size, stride;
    Link link;
    std::uint32_t first;  ///< link
    std::uint32_t each;   ///< links of an end
    std::uint32_t first_switch;
  };
  static std::uint32_t links_each(const ProductDimension& d) {
    if (d.size == 1) return 0;
    if (d.shape == ProductDimension::Shape::full) return d.size - 1;
    return d.shape == ProductDimension::Shape::ring && d.size == 2 ? 1 : 2;
  }
  /// The end at place x (modulo the size) of a dimension, in the line of that dimension through v.
  static std::uint32_t at(std::uint32_t v, const Dimension& d, std::uint32_t x) {
    return v - v / d.stride % d.size * d.stride + x % d.size * d.stride;
  }
  static std::uint32_t switch_of(std::uint32_t end, const Dimension& d) {
    return d.first_switch + end / (d.stride * d.size) * d.stride + end % d.stride;
  }
  const Dimension& of_link(std::uint32_t l) const {
    std::size_t i = dimensions_.size() - 1;
    while (dimensions_[i].first > l || dimensions_[i].each == 0) --i;
    return dimensions_[i];
  }

  std::uint32_t ends_ = 1, links_ = 0, vertices_ = 0;
  std::vector<Dimension> dimensions_;
};

}  // namespace

std::unique_ptr<Topology> product(const std::vector<ProductDimension>& dimensions) {
  return std::make_unique<Product>(dimensions);
}

std::uint64_t links_of(const std::vector<ProductDimension>& dimensions) {
  const double ends = std::accumulate(dimensions.begin(), dimensions.end(), 1.0,
                                      [](double n, const ProductDimension& d) { return n * d.size; });
  double links = 0.0;
  for (const ProductDimension& d : dimensions) {
    links += ends * (d.shape == ProductDimension::Shape::full ? d.size - 1.0 : 2.0);
  }
  return links < 1e18 ? static_cast<std::uint64_t>(links) : std::uint64_t{1} << 60;
}

}  // namespace orrery
