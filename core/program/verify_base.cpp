#include <fmt/format.h>

#include <map>
#include <tuple>

#include "core/program/verify_parts.hpp"

// Matrices that are kept in few bits come back as what they were: from the codes and scales that setup made of them, in
// the same format and of the same layer. Nothing but setup writes codes or scales.
namespace orrery::verifying {
namespace {

constexpr const char* code = "program.base";

class Base {
 public:
  explicit Base(Findings& f) : f_(f), p_(f.program()) {}

  void check() {
    for (std::uint32_t b = 0; b < p_.blocks.size(); ++b) {
      for_each_kernel(BlockId{b}, [&](const Block& block, const Op& op, const Kernel& k, std::uint32_t) {
        if (k.kind != KernelKind::quantize_weight) return;
        for (std::uint32_t i = 1; i < op.views.count; ++i)
          made_[index(view(block, op, i).buffer)] = of(block, op, k, 0);
      });
    }
    for (std::uint32_t b = 0; b < p_.blocks.size(); ++b) {
      for_each_kernel(BlockId{b}, [&](const Block& block, const Op& op, const Kernel& k, std::uint32_t at) {
        if (k.kind == KernelKind::dequantize_weight) brought_back(BlockId{b}, block, op, k, at);
      });
      if (!made_.empty()) kept(BlockId{b});
    }
  }

 private:
  /// The matrix and the format of what is made or brought back.
  using What = std::tuple<std::optional<std::uint32_t>, std::uint64_t, std::uint64_t, std::uint8_t, bool>;

  static const View& view(const Block& block, const Op& op, std::uint32_t i) { return block.views[op.views.first + i]; }
  [[nodiscard]] What of(const Block& block, const Op& op, const Kernel& k, std::uint32_t full) const {
    return {p_[view(block, op, full).buffer].parameters, k.rows, k.columns, k.site, k.options.scaled};
  }
  template <class Visit>
  void for_each_kernel(BlockId id, Visit&& visit) {
    const Block& block = p_[id];
    for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&block.ops[i].action);
      if (compute != nullptr) visit(block, block.ops[i], block.kernels[compute->kernel], i);
    }
  }
  /// No operation but setup's own kernel writes codes or scales.
  void kept(BlockId id) {
    const Block& block = p_[id];
    for (std::uint32_t at = 0; at < block.ops.size(); ++at) {
      const Op& op = block.ops[at];
      const auto* compute = std::get_if<Compute>(&op.action);
      const Kernel* k = compute == nullptr ? nullptr : &block.kernels[compute->kernel];
      if (k != nullptr && k->kind == KernelKind::quantize_weight && k->pass == Pass::setup) continue;
      for (std::uint32_t i = 0; i < op.views.count; ++i) {
        const View& v = view(block, op, i);
        if (v.use == View::Use::read || !made_.contains(index(v.buffer))) continue;
        f_.add_at(code,
                  fmt::format("{} is written by {}, but stays as setup makes it", p_[v.buffer].name,
                              k != nullptr ? name_of(k->kind) : "a message or copy"),
                  id, at);
      }
    }
  }
  void brought_back(BlockId id, const Block& block, const Op& op, const Kernel& k, std::uint32_t at) {
    const std::uint32_t full = op.views.count - 1;
    const What what = of(block, op, k, full);
    for (std::uint32_t i = 0; i < full; ++i) {
      const View& v = view(block, op, i);
      const auto made = made_.find(index(v.buffer));
      const bool same_layer = v.layer_shift == view(block, op, full).layer_shift;
      if (made != made_.end() && made->second == what && same_layer) continue;
      f_.add_at(code,
                fmt::format("{} is not what setup made of the matrix in {}", p_[v.buffer].name,
                            p_[view(block, op, full).buffer].name),
                id, at);
    }
  }

  Findings& f_;
  const Program& p_;
  std::map<std::uint32_t, What> made_;  ///< by buffer of codes or scales
};

}  // namespace

void check_base(Findings& f) { Base(f).check(); }

}  // namespace orrery::verifying
