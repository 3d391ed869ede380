#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/cluster_spec.hpp"
#include "core/spec/reliability_spec.hpp"
#include "forecast/checkpoint_size.hpp"

namespace orrery {

/// Whether steps wait for a save to be written.
enum class SaveWay : std::uint8_t {
  blocking,  ///< steps wait until the checkpoint is in storage
  beside,    ///< steps wait for the copy to the host's memory; from there it is written beside them
};

struct CheckpointTime {
  Seconds blocking;                    ///< steps wait
  Seconds until_it_counts;             ///< from then on
  Seconds load;                        ///< at a restart: every rank reads what it holds
  Bandwidth node_rate;                 ///< to and from storage, of one node when all do
  std::optional<Seconds> host_copy{};  ///< of what a rank writes, to its host; unset: the host link is unknown
};

/// Time of a save and of a load.
///
///     rate     min(storage of a node, storage in all / nodes, network of a node)
///     blocking written_by_node / rate
///     beside   written_by_rank / host link; then written_by_node / rate, of which the share rate / network is taken
///              from the steps' own messages: that share of exposed_network (share of a step) counts as blocking
///     host copy written_by_rank / host link, of any way
///     load     held_by_node / rate
///
/// Source: derived. Leaves out: metadata, barriers, allocation at the first save, caches. Empty, with the missing key
/// in `unknown`, where no storage rate, or no host link, is known.
[[nodiscard]] std::optional<CheckpointTime> checkpoint_time(const CheckpointSize&, const ClusterSpec&,
                                                            const ReliabilitySpec&, SaveWay, double exposed_network,
                                                            std::vector<std::string>& unknown);

}  // namespace orrery
