#include <cmath>

#include "core/base/toml_reader.hpp"
#include "jobs/job_workload_file.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view> ends = {"completed", "failed", "cancelled"};
constexpr std::size_t most_jobs = 1'000'000;

Microseconds whole(Seconds t) { return std::llround(t.base() * static_cast<double>(microseconds_per_second)); }

}  // namespace

std::optional<JobWorkload> parse_job_workload_toml(std::string text, const std::string& file, Diagnostics& d) {
  const std::size_t before = d.size();
  std::optional<TomlTable> root = parse_toml(std::move(text), file, d);
  if (!root || !read_schema(*root, "a workload of jobs", 1)) return std::nullopt;
  JobWorkload out;
  out.format = "orrery";
  const Seconds longest = Seconds::of(static_cast<double>(longest_time / microseconds_per_second));
  for (TomlTable& table : root->tables("job", most_jobs, Need::required)) {
    ClusterJob job;
    Seconds submit, run;
    table.read("name", job.name);
    table.read("submit", submit, {Seconds{}, longest});
    table.read("run", run, {Seconds{}, longest});
    table.read("gpus", job.gpus, {1, 1'000'000});
    table.read_enum("end", ends, job.end, Need::optional);
    table.finish();
    job.submit = whole(submit);
    job.run = whole(run);
    job.at = table.origin().position(table.path("name"));
    out.jobs.push_back(std::move(job));
  }
  root->finish();
  if (d.size() > before) return std::nullopt;
  return out;
}

}  // namespace orrery
