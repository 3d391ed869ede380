#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "jobs/job_workload_file.hpp"
#include "jobs/recorded_time.hpp"

// The tables of published clusters. What their columns mean is read in the repositories that docs/jobs.md names.

namespace orrery {
namespace {

/// A number of GPUs from 1 on; otherwise says why not.
std::optional<std::uint32_t> gpus_in(std::string_view text, std::string& why) {
  const auto gpus = count_in(text);
  if (!gpus) why = "has no whole number of GPUs";
  if (gpus && *gpus == 0) why = "uses no GPU";
  if (gpus && *gpus > 1'000'000) why = "wants more than a million GPUs";
  return why.empty() ? gpus : std::nullopt;
}

std::string text_or(std::string_view text, const WorkloadRow& row) {
  return text.empty() ? fmt::format("line {}", row.at().line) : std::string(text);
}

/// The end that a word says, of Helios, Acme and Slurm. "CANCELLED by 1000" counts by its first word.
std::optional<JobEnd> end_in(std::string_view state) {
  const std::string_view word = state.substr(0, state.find(' '));
  for (const char* done : {"COMPLETED", "Completed", "Pass", "DONE"}) {
    if (word == done) return JobEnd::completed;
  }
  for (const char* gone : {"CANCELLED", "CANCELED", "Cancelled", "Killed", "PREEMPTED", "REVOKED", "REQUEUED"}) {
    if (word == gone) return JobEnd::cancelled;
  }
  for (const char* failed : {"FAILED", "Failed", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}) {
    if (word == failed) return JobEnd::failed;
  }
  return std::nullopt;
}

ReadRow read_tiresias(const WorkloadRow& row) {
  std::string why;
  ClusterJob job;
  job.name = text_or(row["job_id"], row);
  const auto gpus = gpus_in(row["num_gpu"], why);
  if (!gpus) return left_out(why);
  const auto submit = seconds_in(row["submit_time"]);
  if (!submit || *submit < 0) return left_out("submit_time is no time");
  const auto run = seconds_in(row["duration"]);
  if (!run || *run < 0) return left_out("duration is no time");
  job.gpus = *gpus;
  job.submit = *submit;
  job.run = *run;
  return {job, {}};
}

ReadRow read_philly(const WorkloadRow& row) {
  std::string why;
  ClusterJob job;
  job.name = fmt::format("{}{}{}", row["cluster"], row["cluster"].empty() ? "line " : ":", row.at().line);
  const auto gpus = gpus_in(row["num_gpus"], why);
  if (!gpus) return left_out(why);
  const auto submit = date_in(row["timestamp"]);
  if (!submit) return left_out("timestamp is no date");
  const auto run = seconds_in(row["duration"]);
  if (!run || *run < 0) return left_out("duration is no time");
  job.gpus = *gpus;
  job.submit = *submit;
  job.run = *run;
  if (const auto gpu_time = seconds_in(row["gpu_time"])) {
    // Both are rounded to a tenth of a second in some files, and a second is little beside a wrong column.
    const GpuMicroseconds off = *gpu_time - GpuMicroseconds{*run} * *gpus;
    if ((off < 0 ? -off : off) > GpuMicroseconds{*gpus} * microseconds_per_second) {
      return {job, "gpu_time is not duration x num_gpus; the duration counts"};
    }
  }
  return {job, {}};
}

/// Submission, start and end of a row; otherwise says why it has no run.
ReadRow timed(ClusterJob job, std::string_view submit, std::string_view start, std::string_view end) {
  const auto submitted = instant_in(submit), started = instant_in(start), ended = instant_in(end);
  if (!submitted) return left_out("its submission is no date");
  if (!started) return left_out("never started");
  if (!ended) return left_out("has no end");
  if (*ended < *started) return left_out("ends before it starts");
  if (*ended - *started > longest_time) return left_out("runs longer than three years");
  job.submit = *submitted;
  job.run = *ended - *started;
  if (*started < *submitted) return {job, "starts before its submission; both count"};
  return {job, {}};
}

ReadRow read_helios(const WorkloadRow& row) {
  std::string why;
  ClusterJob job;
  job.name = text_or(row["job_id"], row);
  const auto gpus = gpus_in(row["gpu_num"], why);
  if (!gpus) return left_out(why);
  job.gpus = *gpus;
  const auto end = end_in(row["state"]);
  ReadRow read = timed(job, row["submit_time"], row["start_time"], row["end_time"]);
  if (!read.job) return read;
  if (!end) read.doubt = "has a state that is not known; it counts as failed";
  read.job->end = end.value_or(JobEnd::failed);
  const auto duration = seconds_in(row["duration"]);
  // The times of these tables are whole seconds.
  if (read.doubt.empty() && duration && std::abs(*duration - read.job->run) > microseconds_per_second) {
    read.doubt = "duration is not end_time - start_time; the times count";
  }
  return read;
}

/// GPUs of a list of resources. Trackable ones say gres/gpu=8, or gres/gpu:TYPE=N for each type, which are added where
/// no total is given. Generic ones say gpu:8 or gpu:TYPE:8 for each node, which is multiplied by `nodes`.
std::uint64_t gpus_of_resources(std::string_view list, std::uint32_t nodes) {
  std::uint64_t all = 0, typed = 0;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (item.rfind("gpu:", 0) == 0)
      typed += std::uint64_t{nodes} * count_in(item.substr(item.rfind(':') + 1)).value_or(0);
    if (equals == std::string_view::npos || item.rfind("gres/gpu", 0) != 0) continue;
    const std::uint32_t count = count_in(item.substr(equals + 1)).value_or(0);
    const std::string_view key = item.substr(0, equals);
    if (key == "gres/gpu") {
      all = count;
    } else if (key.rfind("gres/gpu:", 0) == 0) {
      typed += count;
    }
  }
  return all > 0 ? all : typed;
}

ReadRow read_slurm(const WorkloadRow& row) {
  const std::string_view id = row["JobID"];
  if (id.find('.') != std::string_view::npos) return left_out("is a step of a job, which has its own row");
  ClusterJob job;
  job.name = text_or(id, row);
  const std::uint32_t nodes = count_in(row["NNodes"]).value_or(1);
  std::uint64_t gpus = 0;
  for (const char* column : {"AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"}) {
    if (gpus == 0) gpus = gpus_of_resources(row[column], nodes);
  }
  if (gpus == 0) return left_out("uses no GPU");
  if (gpus > 1'000'000) return left_out("wants more than a million GPUs");
  job.gpus = static_cast<std::uint32_t>(gpus);
  const auto end = end_in(row["State"]);
  ReadRow read = timed(job, row["Submit"], row["Start"], row["End"]);
  if (!read.job) return read;
  if (!end) read.doubt = "has a state that is not known; it counts as failed";
  read.job->end = end.value_or(JobEnd::failed);
  return read;
}

ReadRow read_sia(const WorkloadRow& row) {
  std::string why;
  ClusterJob job;
  job.name = text_or(row["name"], row);
  job.application = row["application"];
  const auto gpus = gpus_in(row["num_replicas"], why);
  if (!gpus) return left_out(why);
  const auto submit = seconds_in(row["time"]);
  if (!submit || *submit < 0) return left_out("time is no time");
  job.gpus = *gpus;
  job.submit = *submit;
  return {job, {}};
}

}  // namespace

const WorkloadForm& sia_form() {
  static const WorkloadForm form{"sia", {"application", "num_replicas", "time", "name"}, 2, false, read_sia};
  return form;
}

const WorkloadForm& tiresias_form() {
  static const WorkloadForm form{"tiresias", {"num_gpu", "submit_time", "duration"}, 1, false, read_tiresias};
  return form;
}

const WorkloadForm& philly_form() {
  static const WorkloadForm form{"philly", {"num_gpus", "timestamp", "duration"}, 2, true, read_philly};
  return form;
}

const WorkloadForm& helios_form() {
  static const WorkloadForm form{
      "helios", {"gpu_num", "submit_time", "start_time", "end_time", "state"}, 1, true, read_helios};
  return form;
}

const WorkloadForm& slurm_form() {
  static const WorkloadForm form{"slurm", {"JobID", "Submit", "Start", "End", "State"}, 1, true, read_slurm};
  return form;
}

}  // namespace orrery
