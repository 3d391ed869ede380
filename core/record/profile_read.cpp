#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"
#include "core/record/json_fields.hpp"
#include "core/record/profile.hpp"

namespace orrery {
namespace {

using nlohmann::json;

constexpr const char* code = "profile.json";
constexpr std::string_view step_mark = "ProfilerStep#";

/// Categories' names are lower case since PyTorch 1.12; before, words with capitals.
enum class Category : std::uint8_t { kernel, copy, fill, device_mark, host_mark, memory, other };
Category category_of(const json& e) {
  const auto at = e.find("cat");
  if (at == e.end() || !at->is_string()) return Category::other;
  const auto& name = at->get_ref<const std::string&>();
  if (name == "kernel" || name == "Kernel") return Category::kernel;
  if (name == "gpu_memcpy" || name == "Memcpy") return Category::copy;
  if (name == "gpu_memset" || name == "Memset") return Category::fill;
  if (name == "gpu_user_annotation") return Category::device_mark;
  if (name == "user_annotation" || name == "cpu_op" || name == "Operator") return Category::host_mark;
  if (name == "cpu_instant_event") return Category::memory;
  return Category::other;
}

/// No event of a step lasts longer than this: 11 days, in ns. Times of a profile lie at most that far before its base.
constexpr std::int64_t longest = 1'000'000'000'000'000;

/// A time in microseconds as nanoseconds: exact for every time that a double can tell, up to the year 2096.
std::optional<std::int64_t> nanoseconds(const json& e, const char* key) {
  const auto at = e.find(key);
  constexpr double most = 4e15;
  if (at == e.end() || !at->is_number() || !(std::abs(at->get<double>()) < most)) return std::nullopt;
  // Whole microseconds are split off, because their product with a thousand has more digits than a double.
  const double whole = std::floor(at->get<double>());
  return static_cast<std::int64_t>(whole) * 1000 + std::llround((at->get<double>() - whole) * 1e3);
}

bool is_length(std::optional<std::int64_t> ns) { return ns && *ns >= 0 && *ns <= longest; }

template <class T>
std::optional<T> whole(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned() || at->get<std::uint64_t>() > UINT32_MAX) return std::nullopt;
  return static_cast<T>(at->get<std::uint64_t>());
}

std::string text(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

class ProfileReading {
 public:
  ProfileReading(std::string_view text, const std::string& file, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {
    out_.file = file;
  }

  std::optional<ProfiledRank> read(const WorkProgress& progress) {
    json root;
    JsonReading reading;
    reading.keys_once = false;
    reading.at = &at_;
    reading.progress = progress;
    reading.keep = [this](int depth, const json& value) {
      if (depth != 2) return true;
      if (value.is_object()) take(value);
      return false;
    };
    const std::size_t before = diagnostics_.size();
    if (!parse_json(text_, out_.file, code, diagnostics_, root, reading)) return std::nullopt;
    if (diagnostics_.size() != before) return std::nullopt;
    return finish(root);
  }

 private:
  void take(const json& e) {
    const Category category = category_of(e);
    if (category == Category::other) return;
    if (category == Category::memory) return take_memory(e);
    if (text(e, "ph") != "X") return;
    switch (category) {
      case Category::kernel:
      case Category::copy:
      case Category::fill: return take_run(e, category);
      case Category::device_mark:
      case Category::host_mark: return take_mark(e, category == Category::device_mark);
      case Category::memory:
      case Category::other: return;
    }
  }

  void take_run(const json& e, Category category) {
    const auto start = nanoseconds(e, "ts");
    const auto length = nanoseconds(e, "dur");
    const auto name = e.find("name");
    const auto device = whole<std::uint32_t>(e, "pid");
    const auto stream = whole<std::uint32_t>(e, "tid");
    const char* missing = !start || *start < -longest             ? "ts, microseconds,"
                          : !is_length(length)                    ? "dur, microseconds from 0,"
                          : name == e.end() || !name->is_string() ? "name"
                          : !device                               ? "pid, the number of the device,"
                          : !stream                               ? "tid, the number of the stream,"
                                                                  : nullptr;
    if (missing != nullptr) return mistake(missing);
    const auto args = e.find("args");
    const bool has_args = args != e.end() && args->is_object();
    const std::string collective =
        category == Category::kernel && has_args ? text(*args, "Collective name") : std::string();
    const std::uint32_t ranks = has_args ? whole<std::uint32_t>(*args, "Group size").value_or(0) : 0;
    auto [kernel, is_new] = kernels_.try_emplace({name->get_ref<const std::string&>(), collective, ranks},
                                                 static_cast<std::uint32_t>(out_.kernels.size()));
    if (is_new) {
      const auto& n = std::get<0>(kernel->first);
      const WorkKind kind = category == Category::copy   ? WorkKind::copy
                            : category == Category::fill ? WorkKind::elementwise
                                                         : work_kind_of_kernel(n, collective);
      out_.kernels.push_back({n, kind, is_collective(kind) ? ranks : 0});
    }
    const auto at = streams_.try_emplace({*device, *stream}, static_cast<std::uint32_t>(streams_.size())).first;
    out_.runs.push_back({*start, *start + *length, kernel->second, at->second});
  }

  void take_mark(const json& e, bool device) {
    const auto name = e.find("name");
    if (name == e.end() || !name->is_string()) return;
    const std::string_view n = name->get_ref<const std::string&>();
    if (!n.starts_with(step_mark)) return;
    const std::string_view digits = n.substr(step_mark.size());
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return;
    const auto start = nanoseconds(e, "ts");
    const auto length = nanoseconds(e, "dur");
    if (!start || *start < -longest || !is_length(length)) return mistake("ts and dur, microseconds,");
    // On the device a mark stands on every stream that the step used: together they are the step.
    auto& marks = device ? device_marks_ : host_marks_;
    const auto [mark, is_new] = marks.try_emplace(number, ProfiledMark{number, *start, *start + *length});
    if (is_new) return;
    mark->second.start = std::min(mark->second.start, *start);
    mark->second.end = std::max(mark->second.end, *start + *length);
  }

  void take_memory(const json& e) {
    const auto args = e.find("args");
    if (args == e.end() || !args->is_object() || whole<std::uint32_t>(*args, "Device Type") != 1U) return;  // CUDA
    const auto total = args->find("Total Allocated");
    if (total == args->end() || !total->is_number_unsigned()) return;
    out_.peak_bytes = std::max(out_.peak_bytes.value_or(0), total->get<std::uint64_t>());
  }

  /// Reports a mistake at the end of the event that was just read; only the first ten are reported.
  void mistake(const char* missing) {
    if (++mistakes_ > 10) return;
    Diagnostic m;
    m.file = out_.file;
    m.position = position_at(text_, at_ == 0 ? 0 : at_ - 1);
    m.code = code;
    m.message = std::string("the event that ends here lacks ") + missing + " or it is out of range";
    const std::size_t line = text_.substr(0, at_ - 1).rfind('\n') + 1;  // 0 where there is none
    Excerpt shown = excerpt(text_.substr(line, text_.find('\n', line) - line), m.position.column);
    m.source_line = std::move(shown.line);
    m.caret_pad = std::move(shown.pad);
    diagnostics_.add(std::move(m));
  }

  void error(std::string message, std::vector<std::string> details = {}) {
    Diagnostic m;
    m.file = out_.file;
    m.code = code;
    m.message = std::move(message);
    m.details = std::move(details);
    diagnostics_.add(std::move(m));
  }

  std::optional<ProfiledRank> finish(const json& root) {
    if (!root.is_object() || !root.contains("traceEvents") || !root["traceEvents"].is_array()) {
      error("this is not a trace of PyTorch's profiler: the list \"traceEvents\" is missing");
      return std::nullopt;
    }
    if (root.contains("schemaVersion") && root["schemaVersion"] != 1) {
      error("schemaVersion is " + root["schemaVersion"].dump().substr(0, 40) + ", but this program reads version 1");
      return std::nullopt;
    }
    if (out_.runs.empty()) {
      error("the profile holds no kernel of a device",
            {"Profile with activities=[ProfilerActivity.CPU, "
             "ProfilerActivity.CUDA], and steps marked by profiler.step()."});
      return std::nullopt;
    }
    std::int64_t base = 0;
    if (const auto at = root.find("baseTimeNanoseconds");
        at != root.end() && at->is_number_unsigned() && at->get<std::uint64_t>() < 4'000'000'000'000'000'000U) {
      base = at->get<std::int64_t>();
    }
    // Without a base the times themselves count from the epoch: PyTorch before 2.4.
    constexpr std::int64_t year_2001 = 1'000'000'000'000'000'000;
    out_.common_clock = base + out_.runs.front().start > year_2001;
    if (const auto info = root.find("distributedInfo"); info != root.end() && info->is_object()) {
      out_.rank = whole<std::uint32_t>(*info, "rank");
      out_.ranks = whole<std::uint32_t>(*info, "world_size");
      if (out_.rank && out_.ranks && *out_.rank >= *out_.ranks) {
        error("distributedInfo.rank is " + std::to_string(*out_.rank) + " of " + std::to_string(*out_.ranks) + " ranks",
              {"Ranks count from 0."});
        return std::nullopt;
      }
    }
    out_.device_marks = !device_marks_.empty();
    for (const auto& [number, mark] : out_.device_marks ? device_marks_ : host_marks_) out_.steps.push_back(mark);
    for (ProfiledMark& m : out_.steps) {
      m.start += base;
      m.end += base;
    }
    for (ProfiledRun& r : out_.runs) {
      r.start += base;
      r.end += base;
    }
    std::stable_sort(out_.runs.begin(), out_.runs.end(),
                     [](const ProfiledRun& a, const ProfiledRun& b) { return a.start < b.start; });
    name_streams();
    return std::move(out_);
  }

  void name_streams() {
    const bool one_device = std::all_of(streams_.begin(), streams_.end(),
                                        [&](const auto& s) { return s.first.first == streams_.begin()->first.first; });
    out_.streams.resize(streams_.size());
    for (const auto& [place, number] : streams_) {
      out_.streams[number] =
          (one_device ? "" : "device " + std::to_string(place.first) + " ") + "stream " + std::to_string(place.second);
    }
  }

  std::string_view text_;
  Diagnostics& diagnostics_;
  std::size_t at_ = 0, mistakes_ = 0;
  ProfiledRank out_;
  std::map<std::tuple<std::string, std::string, std::uint32_t>, std::uint32_t> kernels_;  ///< name, collective, ranks
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> streams_;              ///< device, stream
  std::map<std::uint64_t, ProfiledMark> device_marks_, host_marks_;
};

}  // namespace

std::string name_of(WorkKind kind, std::uint32_t ranks) {
  std::string out(name_of(kind));
  if (ranks > 0) out += " over " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  return out;
}

bool looks_like_profile(std::string_view text) {
  const std::string_view start = text.substr(0, 4096);
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || start[first] != '{') return false;
  return start.find("\"schemaVersion\"") != std::string_view::npos ||
         start.find("\"deviceProperties\"") != std::string_view::npos ||
         start.find("\"distributedInfo\"") != std::string_view::npos;
}

std::optional<ProfiledRank> read_profile(std::string_view text, const std::string& file, Diagnostics& diagnostics,
                                         const WorkProgress& progress) {
  return ProfileReading(text, file, diagnostics).read(progress);
}

}  // namespace orrery
