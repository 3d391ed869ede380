#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "jobs/job_drawings.hpp"

namespace orrery {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void write_job_trace(const std::vector<DrawnHistory>& histories, const JobWorkload& workload,
                     const std::vector<std::uint32_t>& gpus_of_nodes,
                     const std::function<void(std::string_view)>& write) {
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  const char* between = "\n";
  const auto event = [&](const std::string& text) {
    write(between);
    write(text);
    between = ",\n";
  };
  for (std::size_t h = 0; h < histories.size(); ++h) {
    const std::size_t first = h * gpus_of_nodes.size() + 1;
    for (std::size_t node = 0; node < gpus_of_nodes.size(); ++node) {
      event(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", first + node,
                        quoted(fmt::format("{} node {}", histories[h].policy, node))));
      for (std::uint32_t gpu = 0; gpu < gpus_of_nodes[node]; ++gpu) {
        event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"GPU {}"}}}})",
                          first + node, gpu + 1, gpu));
      }
    }
    for (const GpuSpan& span : gpu_spans(histories[h].history->stretches, gpus_of_nodes)) {
      for (std::uint32_t gpu = span.gpu; gpu < span.gpu + span.gpus; ++gpu) {
        event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{"job":{},"gpus":{}}}}})",
                          first + span.node, gpu + 1, span.begin, span.end - span.begin,
                          quoted(workload.jobs[span.job].name), span.job, span.job_gpus));
      }
    }
  }
  write("\n]}\n");
}

}  // namespace orrery
