#include "jobs/job_workload_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/toml_reader.hpp"

namespace orrery {

std::string_view WorkloadRow::operator[](std::string_view column) const {
  for (std::size_t i = 0; i < header_.size() && i < cells_.size(); ++i) {
    if (header_[i].text == column) return cells_[i].text;
  }
  return {};
}

namespace {

/// Lines of cells between bars. `sacct -P` knows no quotes.
std::vector<CsvRow> bar_rows(std::string_view text) {
  std::vector<CsvRow> rows;
  std::uint32_t line = 0;
  while (!text.empty()) {
    ++line;
    std::string_view rest = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), rest.size() + 1));
    if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
    if (rest.empty()) continue;
    CsvRow row;
    for (std::uint32_t column = 1;;) {
      const std::string_view cell = rest.substr(0, rest.find('|'));
      row.push_back({std::string(cell), {line, column}});
      if (cell.size() == rest.size()) break;
      rest.remove_prefix(cell.size() + 1);
      column += static_cast<std::uint32_t>(cell.size()) + 1;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Rows of a table with commas. Where one breaks the form, each line is read as a row, and those that break it are
/// listed.
std::vector<CsvRow> comma_rows(const Origin& origin, std::vector<DoubtfulRow>& doubts, Diagnostics& d) {
  Diagnostics found;
  std::vector<CsvRow> rows = read_csv(origin, found);
  if (found.empty()) return rows;
  rows.clear();
  std::uint32_t number = 0;
  for (std::string_view text = origin.text; !text.empty();) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    Diagnostics broken;
    std::vector<CsvRow> row = read_csv({origin.file, std::string(line) + "\n", {}}, broken);
    if (broken.empty()) {
      if (row.empty()) continue;
      for (CsvCell& cell : row.front()) cell.at.line = number;
      rows.push_back(std::move(row.front()));
    } else if (rows.empty()) {
      // Without its first line a table says nothing.
      for (const Diagnostic& mistake : found.list()) d.add(mistake);
      return {};
    } else {
      doubts.push_back({{number, 1}, broken.list().front().message});
    }
  }
  return rows;
}

bool has_column(const CsvRow& header, std::string_view column) {
  return std::any_of(header.begin(), header.end(), [&](const CsvCell& c) { return c.text == column; });
}

const WorkloadForm* form_of(const CsvRow& header) {
  const auto has = [&](std::string_view column) { return has_column(header, column); };
  for (const WorkloadForm* form : {&tiresias_form(), &philly_form(), &helios_form(), &sia_form(), &slurm_form()}) {
    if (std::all_of(form->columns.begin(), form->columns.begin() + static_cast<std::ptrdiff_t>(form->telling), has)) {
      return form;
    }
  }
  return nullptr;
}

/// The form whose columns the header has; otherwise a diagnostic.
const WorkloadForm* checked_form(const Origin& origin, const CsvRow& header, Diagnostics& d) {
  const WorkloadForm* form = form_of(header);
  if (form == nullptr) {
    d.error_at(origin, header.front().at, "jobs.form", "the first line names the columns of no known workload",
               {"Known: Orrery's TOML ([[job]]), Tiresias (num_gpu, submit_time, duration), Philly (timestamp,",
                "num_gpus), Helios and Acme (gpu_num, submit_time, start_time, end_time), Sia (application,",
                "num_replicas), sacct -P (JobID, AllocTRES)."});
    return nullptr;
  }
  for (const std::string_view column : form->columns) {
    if (!has_column(header, column)) {
      d.error_at(origin, header.front().at, "jobs.column", fmt::format("the column {} is missing", column),
                 {fmt::format("A workload of {} has the columns {}.", form->name, fmt::join(form->columns, ", "))});
      return nullptr;
    }
  }
  return form;
}

void read_rows(const WorkloadForm& form, const std::vector<CsvRow>& rows, JobWorkload& out) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() != rows.front().size()) {
      out.doubts.push_back({rows[i].front().at, "has another number of cells than the first line"});
      continue;
    }
    ReadRow row = form.read(WorkloadRow(rows.front(), rows[i]));
    if (!row.doubt.empty()) out.doubts.push_back({rows[i].front().at, row.doubt, !row.job});
    if (!row.job) continue;
    row.job->at = rows[i].front().at;
    out.jobs.push_back(std::move(*row.job));
  }
}

void sort_by_submission(JobWorkload& w) {
  std::stable_sort(w.jobs.begin(), w.jobs.end(),
                   [](const ClusterJob& a, const ClusterJob& b) { return a.submit < b.submit; });
}

/// Lets dates count from the first, and leaves out jobs that lie outside the `longest_time` in which most were
/// submitted, so that one wrong date costs one row. False where no such span holds more than half of the jobs.
bool count_from_first(JobWorkload& w) {
  std::vector<ClusterJob>& jobs = w.jobs;
  std::size_t begin = 0, end = 0;
  for (std::size_t first = 0, last = 0; last < jobs.size(); ++last) {
    while (jobs[last].submit - jobs[first].submit > longest_time) ++first;
    if (last + 1 - first > end - begin) begin = first, end = last + 1;
  }
  if (2 * (end - begin) <= jobs.size()) return jobs.empty();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (j < begin || j >= end) w.doubts.push_back({jobs[j].at, "was submitted more than three years from most others"});
  }
  jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(end), jobs.end());
  jobs.erase(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(begin));
  const Microseconds first = jobs.front().submit;
  for (ClusterJob& job : jobs) job.submit -= first;
  return true;
}

std::optional<JobWorkload> parse_table(Origin origin, Diagnostics& d) {
  const bool bars = std::string_view(origin.text).substr(0, origin.text.find('\n')).find('|') != std::string::npos;
  JobWorkload out;
  const std::vector<CsvRow> rows = bars ? bar_rows(origin.text) : comma_rows(origin, out.doubts, d);
  if (!d.empty()) return std::nullopt;
  if (rows.empty()) {
    d.error_at(origin, {1, 1}, "jobs.none", "the file is empty", {"A workload has a line for each job."});
    return std::nullopt;
  }
  const WorkloadForm* form = checked_form(origin, rows.front(), d);
  if (form == nullptr) return std::nullopt;
  out.format = form->name;
  read_rows(*form, rows, out);
  sort_by_submission(out);
  if (form->dated && !count_from_first(out)) {
    const ClusterJob& first = out.jobs.front();
    const ClusterJob& last = out.jobs.back();
    d.error_at(origin, first.at, "jobs.dates", "no three years hold more than half of the jobs",
               {fmt::format("The first of {} was submitted here, the last in line {}, {:.1f} years later.",
                            out.jobs.size(), last.at.line, seconds_of(last.submit - first.submit) / 31557600.0)});
    return std::nullopt;
  }
  if (out.jobs.empty()) {
    std::vector<std::string> details;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, out.doubts.size()); ++i) {
      details.push_back(fmt::format("Line {}: {}.", out.doubts[i].at.line, out.doubts[i].why));
    }
    d.error_at(origin, {1, 1}, "jobs.none", fmt::format("none of {} rows is a job that ran on GPUs", rows.size() - 1),
               details);
    return std::nullopt;
  }
  return out;
}

/// TOML begins with a comment, a table or a key; a table of jobs with the names of columns.
bool is_toml(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos) return false;
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  return line.front() == '#' || line.front() == '[' || line.find('=') != std::string_view::npos;
}

}  // namespace

std::optional<JobWorkload> parse_job_workload(std::string text, const std::string& file, Diagnostics& d) {
  if (text.rfind("\xef\xbb\xbf", 0) == 0) text.erase(0, 3);
  if (!is_toml(text)) return parse_table({file, std::move(text), {}}, d);
  std::optional<JobWorkload> out = parse_job_workload_toml(std::move(text), file, d);
  if (out) sort_by_submission(*out);
  return out;
}

std::optional<JobWorkload> read_job_workload(const std::filesystem::path& path, Diagnostics& d) {
  // Helios's largest table has 3.4 million rows of some 150 bytes.
  std::optional<std::string> text = read_text(path, d, std::size_t{1} << 30);
  return text ? parse_job_workload(std::move(*text), path.string(), d) : std::nullopt;
}

}  // namespace orrery
