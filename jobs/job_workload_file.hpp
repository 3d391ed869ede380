#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/csv.hpp"
#include "core/base/diagnostics.hpp"
#include "jobs/cluster_job.hpp"

namespace orrery {

/// Reads the jobs of a workload file. Its form is known by its first line (docs/jobs.md): Orrery's own TOML, the CSV of
/// Tiresias, of Philly, or of Helios and Acme, Sia's, or what `sacct -P` prints.
///
/// A file that is not of a known form, or breaks it, gives diagnostics. A row that cannot be used is listed in `doubts`
/// and left out, also one with a wrong quote. Times count from the first submission where the file has dates, otherwise
/// they are the file's. Dates more than three years from most others are left out.
///
/// Codes: jobs.form  jobs.column  jobs.none  jobs.dates  jobs.speeds  csv.quote, and those of TOML files
[[nodiscard]] std::optional<JobWorkload> parse_job_workload(std::string text, const std::string& file, Diagnostics&);
[[nodiscard]] std::optional<JobWorkload> read_job_workload(const std::filesystem::path&, Diagnostics&);

/// A row of a table: cells by the names of their columns.
class WorkloadRow {
 public:
  WorkloadRow(const CsvRow& header, const CsvRow& cells) : header_(header), cells_(cells) {}
  /// Empty where the table has no such column.
  [[nodiscard]] std::string_view operator[](std::string_view column) const;
  [[nodiscard]] Position at() const { return cells_.front().at; }

 private:
  const CsvRow& header_;
  const CsvRow& cells_;
};

/// What a reader makes of a row: a job, or why there is none. A job may have a doubt, too.
struct ReadRow {
  std::optional<ClusterJob> job;
  std::string doubt;
};
inline ReadRow left_out(std::string why) { return {std::nullopt, std::move(why)}; }

/// A form of tables.
struct WorkloadForm {
  std::string_view name;
  std::vector<std::string_view> columns;  ///< that it must have, the ones that tell it from others first
  std::size_t telling = 1;                ///< how many of them tell
  bool dated = false;                     ///< submissions are dates
  ReadRow (*read)(const WorkloadRow&);
};
[[nodiscard]] const WorkloadForm& tiresias_form();
[[nodiscard]] const WorkloadForm& philly_form();
[[nodiscard]] const WorkloadForm& helios_form();
[[nodiscard]] const WorkloadForm& sia_form();  ///< its jobs have no run (add_measured_speeds)
[[nodiscard]] const WorkloadForm& slurm_form();

/// Orrery's own form. Codes: those of TOML files.
[[nodiscard]] std::optional<JobWorkload> parse_job_workload_toml(std::string text, const std::string& file,
                                                                 Diagnostics&);

}  // namespace orrery
