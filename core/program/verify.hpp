#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/work_progress.hpp"
#include "core/program/program.hpp"

namespace orrery {

/// One broken rule.
struct Violation {
  std::string code;     ///< stable: "program.hazard"
  std::string message;  ///< what is wrong, with the numbers
  std::optional<std::uint32_t> rank_class;
  std::optional<Rank> rank;      ///< a rank on which it shows
  std::optional<BlockId> block;  ///< with `op`: where it shows
  std::uint32_t op = 0;          ///< position in the block
  std::uint32_t layer = 0;       ///< of the run
  std::uint32_t microbatch = 0;  ///< of the run
  std::string listing;           ///< the ops around the broken one, which has `<-- here`
  friend bool operator==(const Violation&, const Violation&) = default;
};

/// The form in which a person sees it.
[[nodiscard]] std::string render(const Violation&);
[[nodiscard]] std::string render(const std::vector<Violation>&);

/// Checks that a Program means something on every rank, whatever wrote it: it shares no code with lowering. An empty
/// result means that every rule holds.
///
///   program.layout         mesh, classes, groups, tables, declarations; ids in bounds; flat arrays dense in op order
///   program.wait           a wait names an earlier timed op of its block, or the tail of a lane that exists
///   program.view           views lie inside their buffers, instances inside the layers and microbatches
///   program.operands       number, use and shape of the operands of each kind (kernel_table.cpp, the
///                          comments of Collective, Exchange and Copy)
///   program.tier           ops work on device memory, those of the host lane on the host's; a Copy goes where it says
///   program.lifetime       no use before Alloc or after Free, no second Alloc or Free; a step leaves live what
///                          setup left
///   program.uninitialized  nothing is read (or accumulated to) that was never written
///   program.hazard         two ops of a rank that touch the same elements, one of them writing, are ordered by
///                          lanes and waits
///   program.gradient       every microbatch contributes to a gradient, and none twice with the same operands
///   program.collective     members of a group issue the same sequence: kind, reduction, root, counts, element types
///   program.transfer       every send has its receive, in order, with as many bytes; of one buffer, of the same
///                          layer and microbatch
///   program.deadlock       under rendezvous all ranks finish, lanes running side by side
///   program.deadlock-serial  and also one op at a time in list order
///   program.repeated       no op runs twice on the same elements while nothing changes them in between
///   program.stale          gradients, losses, norms and factors are made anew in every step before they are used; a
///                          weight's gradient is made from the input of its forward product, a norm takes a
///                          gradient that no other has taken, and no module hands down the gradient that it took
///   program.partial        a sum over ranks of an axis is made before its parts are used
///   program.pairing        what runs forward runs backward, per layer and microbatch; the loss's mean is taken
///   program.update         every gradient that is added to is updated with (and counted in the norm where there is
///                          clipping), after the step was counted; parts that are updated are gathered
///   program.targets        a loss is divided by the number of its own targets, each of which counts once and meets
///                          the logits of its row; prediction modules are given the tokens whose next are asked for,
///                          and the means of all losses are added
///   program.norm           each element of a parameter counts once in a norm: the shares of ranks that hold the same
///                          add up to one, no sum over ranks is made twice, and one copy of a tied table counts
///   program.size           more ops than this check is made for
///
/// Rules stand in this order and a broken one may end the check, because later
/// ones rely on it; at most 20 violations are listed.
///
/// Setup is taken to have ended on all ranks before a step begins, and a step
/// before the next: lanes do not reach across.
///
/// `progress` gets thousandths.
[[nodiscard]] std::vector<Violation> verify(const Program&, const WorkProgress& progress = {});

}  // namespace orrery
