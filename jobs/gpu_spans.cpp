#include "jobs/gpu_spans.hpp"

#include <algorithm>

namespace orrery {

std::vector<GpuSpan> gpu_spans(const std::vector<JobStretch>& stretches,
                               const std::vector<std::uint32_t>& gpus_of_nodes) {
  std::vector<const JobStretch*> order;
  for (const JobStretch& s : stretches) order.push_back(&s);
  std::sort(order.begin(), order.end(), [](const JobStretch* a, const JobStretch* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->job < b->job;
  });
  std::vector<std::vector<Microseconds>> busy_until;  // of each GPU
  for (const std::uint32_t gpus : gpus_of_nodes) busy_until.emplace_back(gpus, 0);
  std::vector<GpuSpan> out;
  for (const JobStretch* s : order) {
    std::uint32_t all = 0;
    for (const NodeShare& share : s->places) all += share.gpus;
    for (const NodeShare& share : s->places) {
      std::vector<Microseconds>& gpus = busy_until[share.node];
      std::uint32_t left = share.gpus;
      bool joined = false;
      for (std::uint32_t g = 0; g < gpus.size() && left > 0; ++g) {
        const bool free = gpus[g] <= s->begin;
        if (free && joined) ++out.back().gpus;
        if (free && !joined) out.push_back({share.node, g, 1, s->job, s->begin, s->end, all});
        if (free) {
          gpus[g] = s->end;
          --left;
        }
        joined = free;
      }
      ORRERY_ASSERT(left == 0, s->job, share.node);
    }
  }
  return out;
}

}  // namespace orrery
