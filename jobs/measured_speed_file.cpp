#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/csv.hpp"
#include "core/base/toml_reader.hpp"
#include "jobs/measured_speed.hpp"

namespace orrery {
namespace {

/// No column but those of gradients has larger numbers, and whole ones below it fit into 64 bits.
constexpr double most_usual = 1e9;

/// The cells of some columns of a table as numbers from 0 to `most`; a mistake is a diagnostic.
std::vector<std::vector<double>> numbers(const std::filesystem::path& file, const std::vector<std::string>& columns,
                                         double most, Diagnostics& d) {
  const std::optional<std::string> text = read_text(file, d);
  if (!text) return {};
  const Origin origin{file.string(), *text, {}};
  const std::size_t before = d.size();
  const std::vector<CsvRow> rows = read_csv(origin, d);
  std::vector<std::vector<double>> out;
  std::vector<std::size_t> at;
  for (const std::string& column : columns) {
    std::size_t i = 0;
    while (!rows.empty() && i < rows.front().size() && rows.front()[i].text != column) ++i;
    if (rows.empty() || i == rows.front().size()) {
      d.error_at(origin, {1, 1}, "jobs.tables", fmt::format("the column {} is missing", column));
      return {};
    }
    at.push_back(i);
  }
  for (std::size_t r = 1; r < rows.size() && d.size() == before; ++r) {
    std::vector<double> values;
    for (const std::size_t i : at) {
      double value = -1.0;
      if (i < rows[r].size()) {
        const std::string& cell = rows[r][i].text;
        const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
        if (read.ec != std::errc{} || read.ptr != cell.data() + cell.size()) value = -1.0;
      }
      if (!(value >= 0.0) || value > most) {
        d.error_at(origin, rows[r].front().at, "jobs.tables", fmt::format("{} is no number", rows.front()[i].text));
        return {};
      }
      values.push_back(value);
    }
    out.push_back(std::move(values));
  }
  return out;
}

/// GPUs of a placement whose nodes are full but for one; 0 for others, and where `node_gpus` is not known yet (0).
std::uint32_t packed_gpus(std::uint64_t placement, std::uint32_t node_gpus) {
  std::uint32_t gpus = 0, parts = 0;
  for (; placement > 0; placement /= 10) {
    const auto here = static_cast<std::uint32_t>(placement % 10);
    gpus += here;
    parts += here == node_gpus ? 0 : 1;
  }
  return parts <= 1 ? gpus : 0;
}

void sort_steps(MeasuredJob& job) {
  for (auto& [gpus, steps] : job.by_gpus) {
    std::sort(steps.begin(), steps.end(),
              [](const MeasuredJob::Step& a, const MeasuredJob::Step& b) { return a.local_batch < b.local_batch; });
    steps.erase(std::unique(steps.begin(), steps.end(),
                            [](const MeasuredJob::Step& a, const MeasuredJob::Step& b) {
                              return a.local_batch == b.local_batch;
                            }),
                steps.end());
  }
}

/// validation-BATCH.csv of a folder, by batch.
std::vector<std::pair<double, std::filesystem::path>> validations(const std::filesystem::path& folder) {
  std::vector<std::pair<double, std::filesystem::path>> out;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    unsigned batch = 0;
    if (name.rfind("validation-", 0) != 0 || entry.path().extension() != ".csv") continue;
    const auto read = std::from_chars(name.data() + 11, name.data() + name.size(), batch);
    if (read.ec == std::errc{} && batch > 0) out.emplace_back(batch, entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::optional<MeasuredJob> read_measured_job(const std::filesystem::path& folder, const std::string& type,
                                             Diagnostics& d) {
  const std::size_t before = d.size();
  MeasuredJob job;
  const auto placed = numbers(folder / fmt::format("placements-{}.csv", type),
                              {"placement", "local_bsz", "step_time", "sync_time"}, most_usual, d);
  const auto scaled = numbers(folder / fmt::format("scalability-{}.csv", type),
                              {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}, most_usual, d);
  for (const auto& row : placed) {
    for (auto p = static_cast<std::uint64_t>(row[0]); p > 0; p /= 10) {
      job.node_gpus = std::max(job.node_gpus, static_cast<std::uint32_t>(p % 10));
    }
  }
  for (const auto& row : placed) {
    const std::uint32_t gpus = packed_gpus(static_cast<std::uint64_t>(row[0]), job.node_gpus);
    if (gpus > 0 && row[1] > 0.0) job.by_gpus[gpus].push_back({row[1], row[2], row[3]});
  }
  for (const auto& row : scaled) {
    const auto gpus = static_cast<std::uint32_t>(row[1]);
    if (gpus > 0 && row[2] > 0.0 && row[0] * job.node_gpus == row[1])
      job.by_gpus[gpus].push_back({row[2], row[3], row[4]});
  }
  sort_steps(job);
  const auto files = validations(folder);
  for (const auto& [batch, file] : files) {
    std::vector<MeasuredJob::Gradient> rows;
    for (const auto& row : numbers(file, {"progress", "grad_sqr", "grad_var"}, 1e30, d)) {
      rows.push_back({row[0], row[1], row[2]});
    }
    job.gradients.emplace_back(batch, std::move(rows));
  }
  std::size_t rows = job.gradients.empty() ? 0 : job.gradients.front().second.size();
  for (const auto& entry : job.gradients) rows = std::min(rows, entry.second.size());
  for (auto& entry : job.gradients) entry.second.resize(rows);
  if (d.size() == before && (rows == 0 || job.by_gpus.empty())) {
    d.error("jobs.tables", fmt::format("{} has no measured speeds or no noise", folder.string()),
            {"Wanted: placements-TYPE.csv, scalability-TYPE.csv and validation-BATCH.csv (docs/jobs.md)."});
  }
  if (d.size() > before) return std::nullopt;
  return job;
}

}  // namespace orrery
