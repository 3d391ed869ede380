#include "framework/torchtitan/schedule_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <vector>

namespace orrery {
namespace {

constexpr std::size_t size_limit = 64U << 20;

/// Kinds that say nothing about the order of compute.
constexpr std::array<std::string_view, 7> followed{"UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F",
                                                   "SEND_B",  "RECV_F",  "RECV_B"};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::size_t digits(std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); }

/// Adds the action to a rank's line; false where the cell is no action.
bool add_action(std::string_view cell, std::string& line) {
  const std::size_t stage = digits(cell);
  const std::string_view rest = cell.substr(stage);
  if (stage == 0 || rest.empty()) return false;
  for (const std::string_view kind : followed) {
    if (rest.starts_with(kind) && digits(rest.substr(kind.size())) == rest.size() - kind.size()) return true;
  }
  const bool computes = std::string_view("FBIW").find(rest.front()) != std::string_view::npos;
  if (!computes || rest.size() < 2 || digits(rest.substr(1)) != rest.size() - 1) return false;
  line += (line.empty() ? "" : " ") + std::string(cell);
  return true;
}

bool add_cell(std::string_view cell, std::string& line) {
  if (cell.empty()) return true;
  if (cell.front() != '(') return add_action(cell, line);
  const std::size_t end = cell.find(')');
  if (end == std::string_view::npos || trimmed(cell.substr(end + 1)) != "OVERLAP_F_B") return false;
  std::string_view inner = cell.substr(1, end - 1);
  while (!inner.empty()) {
    const std::size_t stop = std::min(inner.find(';'), inner.size());
    if (!add_action(trimmed(inner.substr(0, stop)), line)) return false;
    inner.remove_prefix(std::min(stop + 1, inner.size()));
  }
  return true;
}

}  // namespace

std::optional<ComputeOrder> read_schedule_csv(const std::string& text, const std::string& file, Diagnostics& d) {
  const Origin origin{file, text, {}};
  std::string order = fmt::format("orrery-order {}\n", order_schema);
  std::uint32_t row = 0;
  bool good = true;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view row_text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++row;
    if (trimmed(row_text).empty()) continue;
    std::string line;
    for (std::size_t at = 0; at <= row_text.size();) {
      const std::size_t comma = std::min(row_text.find(',', at), row_text.size());
      const std::string_view cell = trimmed(row_text.substr(at, comma - at));
      if (!add_cell(cell, line)) {
        good = false;
        d.error_at(origin, {row, static_cast<std::uint32_t>(at) + 1}, "launch.schedule-csv",
                   fmt::format("\"{}\" is no action of a schedule", cell.substr(0, 40)),
                   {"Actions are STAGE KIND MICROBATCH, as 0F0, 1B2, 1I2, 1W2 or (0F1;1B0)OVERLAP_F_B."});
        break;
      }
      at = comma + 1;
    }
    order += line + "\n";
  }
  if (!good) return std::nullopt;
  return read_order(std::move(order), "", d);
}

std::optional<ComputeOrder> read_schedule_csv_file(const std::filesystem::path& path, Diagnostics& d) {
  std::ifstream in(path, std::ios::binary);
  std::error_code failure;
  const bool regular = std::filesystem::is_regular_file(path, failure);
  if (!regular || !in || std::filesystem::file_size(path, failure) > size_limit) {
    d.error("file.open", fmt::format("cannot read the schedule {}", path.string()),
            {fmt::format("It is looked for beside the launch file, and has at most {} MiB.", size_limit >> 20)});
    return std::nullopt;
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return read_schedule_csv(text, path.string(), d);
}

std::string write_schedule_csv(const ComputeOrder& order) {
  ORRERY_ASSERT(order.placement != StagePlacement::two_way, order.chunks);
  std::string out;
  for (std::string line : order_lines(order)) {
    std::replace(line.begin(), line.end(), ' ', ',');
    out += line + "\n";
  }
  return out;
}

}  // namespace orrery
