#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/framework_memory.hpp"
#include "sim/memory/tensor_name.hpp"

namespace orrery {

/// A tensor that a rank holds: an instance of a Program's buffer, or one that
/// the training program adds.
struct TensorId {
  Instance instance;                 ///< of a buffer
  std::optional<std::uint32_t> own;  ///< set for a tensor of the training program: index into HeldMemory::own()
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};

/// The layer of a slot's run number `run`.
[[nodiscard]] inline std::uint32_t layer_of(const Slot& slot, std::uint32_t run) {
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(slot.layer) +
                                    static_cast<std::int64_t>(run) * slot.layer_step);
}

/// Device memory that a rank's list requests and returns, in issue order.
///
/// It has the Program's Allocs and Frees, and between them the tensors that the training program holds besides
/// (FrameworkMemory). Buffers in host memory or on disk, and those that take over the memory of others, are left out.
class HeldMemory {
 public:
  /// A tensor of the training program.
  struct Own {
    std::string name;
    std::uint64_t rows = 0, columns = 0;  ///< of a matrix; 0 and 0: bytes alone
    std::uint64_t bytes = 0;
    friend bool operator==(const Own&, const Own&) = default;
  };

  explicit HeldMemory(const Program&, const FrameworkMemory& = {});

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const std::vector<Own>& own() const { return own_; }
  /// Bytes of a tensor: what its buffer needs, or, for logits, what the training program holds them in.
  [[nodiscard]] std::uint64_t bytes_of(const TensorId&) const;
  /// The tensor that a name belongs to.
  [[nodiscard]] TensorId tensor_of(std::uint64_t name) const;
  /// Bytes that a block adds to live memory, once shared tensors are there.
  [[nodiscard]] std::int64_t growth(BlockId block) const { return growth_[index(block)]; }

  /// Calls `visit(bool alloc, std::uint64_t name, std::uint64_t bytes)` for all tensors that live as long as the
  /// process.
  template <class Visit>
  void process(Visit&& visit) const {
    if (workspace_) visit(true, name_of_own(*workspace_), own_[*workspace_].bytes);
  }
  /// The same for the slots of a setup or step. `kept` remembers from one call to the next which shared tensors are
  /// there already.
  template <class Visit>
  void walk(const std::vector<Slot>& slots, std::vector<bool>& kept, Visit&& visit) const {
    for (const Slot& slot : slots) walk(slot, kept, visit);
  }
  template <class Visit>
  void walk(const Slot& slot, std::vector<bool>& kept, Visit&& visit) const {
    for (std::uint32_t r = 0; r < slot.repeat; ++r) walk(slot.block, layer_of(slot, r), slot.microbatch, kept, visit);
  }
  template <class Visit>
  void walk(BlockId block, std::uint32_t layer, std::uint32_t microbatch, std::vector<bool>& kept,
            Visit&& visit) const {
    kept.resize(own_.size());
    for (const Step& s : blocks_[index(block)]) {
      if (s.stays) {
        if (kept[s.own]) continue;
        kept[s.own] = true;
      }
      visit(s.alloc, s.name + layer * s.each_layer + microbatch * s.each_microbatch, s.bytes);
    }
  }

 private:
  struct Step {
    std::uint64_t name = 0;             ///< in layer and microbatch 0
    std::uint64_t each_layer = 0;       ///< what a layer adds to it
    std::uint32_t each_microbatch = 0;  ///< the same of a microbatch
    std::uint32_t own = 0;              ///< of what stays
    std::uint64_t bytes = 0;
    bool alloc = true;
    bool stays = false;  ///< shared, and never freed
  };

  [[nodiscard]] Step step_of(bool alloc, BufferId, std::int8_t layer_shift, std::uint64_t bytes) const;
  [[nodiscard]] Step step_of(bool alloc, std::uint32_t own) const;
  [[nodiscard]] static std::uint64_t name_of_own(std::uint32_t own) { return tensor_name(NameOwner::framework, own); }
  void read_logits(const FrameworkMemory&);
  void read_block(const Block&, const FrameworkMemory&, std::vector<Step>& into);
  std::uint32_t own_tensor(std::string name, std::uint64_t rows, std::uint64_t columns, std::uint64_t bytes);
  void begin_logits(const Buffer&, std::uint64_t product, CrossEntropy, std::vector<Step>& into,
                    std::vector<Step>& at_end);
  void turn_into_gradient(const View& logits, CrossEntropy, std::vector<Step>& into, std::vector<Step>& at_end);
  std::uint32_t hold(std::string name, std::uint64_t bytes, std::vector<Step>& into);
  void hold_during(std::uint32_t own, std::vector<Step>& into) const;

  const Program& program_;
  std::vector<std::vector<Step>> blocks_;
  std::vector<std::int64_t> growth_;  ///< of each block
  std::vector<Own> own_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> placeholders_;  ///< by rows and columns
  std::optional<std::uint32_t> workspace_;
  std::vector<std::uint64_t> logits_;  ///< for each buffer: bytes in the weights' type where it holds logits, otherwise
                                       ///< 0
  bool shares_vocabulary_ = false;     ///< among tensor ranks
  bool fused_ = false;
};

}  // namespace orrery
