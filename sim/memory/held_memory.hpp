#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/framework_memory.hpp"

namespace orrery {

/// A tensor that a rank holds: an instance of a Program's buffer, or one that
/// the training program adds.
struct TensorId {
  Instance instance;                 ///< of a buffer
  std::optional<std::uint32_t> own;  ///< of a tensor of the training program: index into HeldMemory::own()
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};

/// Device memory that a rank's list asks for and gives back, in issue order.
///
/// The Program's Allocs and Frees, and between them what the training program
/// holds beside them (FrameworkMemory).  Buffers in host memory or on disk, and
/// those that take over the memory of others, are left out.
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
  /// Of a tensor: what its buffer needs, or, of logits, what the training program holds them in.
  [[nodiscard]] std::uint64_t bytes_of(const TensorId&) const;
  /// A number of the tensor's own.
  [[nodiscard]] static std::uint64_t name_of(const TensorId&);

  /// Calls `visit(bool alloc, const TensorId&, std::uint64_t bytes)` for all that lives as long as the process.
  template <class Visit>
  void process(Visit&& visit) const {
    if (workspace_) visit(true, TensorId{{}, workspace_}, own_[*workspace_].bytes);
  }
  /// The same for the slots of a setup or step.  `kept` remembers, from one call to the next, which shared tensors
  /// are there already.
  template <class Visit>
  void walk(const std::vector<Slot>& slots, std::vector<bool>& kept, Visit&& visit) const {
    kept.resize(own_.size());
    for (const Slot& slot : slots) {
      for (std::uint32_t r = 0; r < slot.repeat; ++r) {
        const auto layer = static_cast<std::uint32_t>(static_cast<std::int64_t>(slot.layer) +
                                                      static_cast<std::int64_t>(r) * slot.layer_step);
        for (const Step& s : blocks_[index(slot.block)]) {
          TensorId id;
          if (s.own) {
            if (s.stays && kept[*s.own]) continue;
            if (s.stays) kept[*s.own] = true;
            id.own = s.own;
          } else {
            id.instance = instance_of(program_, s.buffer, s.layer_shift, layer, slot.microbatch);
          }
          visit(s.alloc, id, s.bytes);
        }
      }
    }
  }

 private:
  struct Step {
    bool alloc = true;
    bool stays = false;  ///< shared, and never freed
    BufferId buffer{};
    std::int8_t layer_shift = 0;
    std::optional<std::uint32_t> own;
    std::uint64_t bytes = 0;
  };

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
  std::vector<Own> own_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> placeholders_;  ///< by rows and columns
  std::optional<std::uint32_t> workspace_;
  std::vector<std::uint64_t> logits_;  ///< of each buffer: bytes in the weights' type where it holds logits, else 0
  bool shares_vocabulary_ = false;     ///< among tensor ranks
  bool fused_ = false;
};

}  // namespace orrery
