#include "core/record/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "core/record/live_memory.hpp"
#include "core/record/operation.hpp"

namespace orrery {

namespace {

constexpr std::array<const char*, LiveMemory::share_count> share_names = {"weights", "gradients", "optimizer",
                                                                          "activations", "workspace"};

/// Microseconds with six decimals: whole picoseconds.
std::string micros(std::int64_t ps) {
  const char* sign = ps < 0 ? "-" : "";
  const auto magnitude = static_cast<std::uint64_t>(ps < 0 ? -ps : ps);
  return fmt::format("{}{}.{:06}", sign, magnitude / 1000000, magnitude % 1000000);
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// A slice that an arrow may start or end at.
struct Place {
  std::uint32_t rank = 0;
  std::size_t lane = 0;
  Span span;
};

/// Where a step stands in a timeline of several jobs.
struct Standing {
  std::string job;                  ///< name, before that of the rank
  std::uint32_t first_process = 0;  ///< that of rank 0
  std::int64_t begin = 0;           ///< picoseconds
  bool named = true;                ///< processes and threads get their names
};

class Writer {
 public:
  Writer(const Trace& trace, const Program& program, const ChromeTraceOptions& options, const ChromeTraceSink& sink,
         Standing standing = {})
      : trace_(trace), program_(program), options_(options), sink_(sink), standing_(std::move(standing)) {
    for (const RankTrace& r : trace.ranks) {
      if (options.ranks.empty() ||
          std::find(options.ranks.begin(), options.ranks.end(), r.rank) != options.ranks.end()) {
        ranks_.push_back(&r);
      }
    }
  }

  /// Returns the number of ranks written.
  std::size_t write() {
    for (const RankTrace* r : ranks_) total_ += (options_.flows ? 2 : 1) * r->spans.size();
    // The first words tell what this is (looks_like_trace); the contents are known only at the end.
    out_ =
        "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"writer\":\"orrery\",\"kind\":\"trace\"},\n\"traceEvents\":[\n";
    std::size_t written = 0;
    for (; written < ranks_.size() && !stopped(); ++written) {
      rank(*ranks_[written]);
      advance(ranks_[written]->spans.size());
    }
    if (options_.flows) flows();
    const std::string origin = written == ranks_.size() ? trace_.origin
                                                        : fmt::format("{} (stopped after {} of {} ranks)",
                                                                      trace_.origin, written, ranks_.size());
    out_ += "\n],\n\"orrery\":{\"trace\":1,\"origin\":" + quoted(origin) +
            ",\"lanes\":" + (trace_.concurrent_lanes ? "\"concurrent\"" : "\"serial\"") +
            ",\"plan\":" + quoted(options_.plan) + ",\"ranks\":[";
    for (std::size_t i = 0; i < written; ++i) {
      if (i > 0) out_ += ",";
      metadata(*ranks_[i]);
      pass_on(false);
    }
    out_ += "]}}\n";
    pass_on(true);
    return written;
  }

  /// Writes only the events, after others. `first`: no events stand before; `flow`: number of the next arrow.
  void write_events(bool& first, std::uint64_t& flow) {
    first_ = first;
    next_flow_ = flow;
    for (const RankTrace* r : ranks_) rank(*r);
    if (options_.flows) flows();
    first = first_;
    flow = next_flow_;
    pass_on(true);
  }

 private:
  [[nodiscard]] std::uint32_t process(std::uint32_t rank) const { return standing_.first_process + rank; }
  [[nodiscard]] std::string time(std::int64_t ps) const { return micros(standing_.begin + ps); }
  [[nodiscard]] bool stopped() const { return sink_.cancelled != nullptr && sink_.cancelled->load(); }

  void advance(std::uint64_t ops) {
    done_ += ops;
    if (sink_.progress) sink_.progress(done_, total_);
  }

  /// Gives the sink the text so far, in pieces of a size that suits files.
  void pass_on(bool all) {
    constexpr std::size_t piece = std::size_t{1} << 20;
    if (out_.empty() || (!all && out_.size() < piece)) return;
    sink_.write(out_);
    out_.clear();
  }

  template <class... T>
  void event(fmt::format_string<T...> format, T&&... values) {
    if (!first_) out_ += ",\n";
    first_ = false;
    pass_on(false);
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
  }

  const std::vector<Slot>& step_of(const RankTrace& r) const {
    return program_.classes[class_of(program_, r.rank)].step;
  }

  void metadata(const RankTrace& r) {
    fmt::format_to(std::back_inserter(out_),
                   "\n{{\"rank\":{},\"ops\":{},\"peak_bytes\":{},\"sent_bytes\":{},\"untimed\":[", index(r.rank),
                   r.spans.size(), r.peak_bytes, r.sent_bytes);
    // Alloc and Free have no slice; pairs of op and picosecond.
    bool first = true;
    for_each_op(program_, step_of(r), [&](const OpRun& run) {
      if (is_timed(*run.op)) return;
      fmt::format_to(std::back_inserter(out_), "{}{},{}", first ? "" : ",", index(run.id),
                     r.spans[index(run.id)].start);
      first = false;
    });
    out_ += "]}";
  }

  void rank(const RankTrace& r) {
    if (standing_.named) names(r);
    blocks(r);
    for_each_op(program_, step_of(r), [&](const OpRun& run) {
      if (is_timed(*run.op)) slice(r, run);
    });
    if (options_.memory) memory(r);
  }

  void names(const RankTrace& r) {
    const std::uint32_t pid = process(index(r.rank));
    std::string where;
    for (const MeshAxis& a : program_.mesh.axes) {
      if (!where.empty()) where += ", ";
      where += fmt::format("{} {}", name_of(a.axis), program_.mesh.coordinate(r.rank, a.axis));
    }
    const std::string name = fmt::format("{}{}rank {}{}{}{}", standing_.job, standing_.job.empty() ? "" : " ",
                                         index(r.rank), where.empty() ? "" : " (", where, where.empty() ? "" : ")");
    event(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid, quoted(name));
    event(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", pid, pid);
    std::array<bool, lane_count> used{};
    for_each_op(program_, step_of(r), [&](const OpRun& run) {
      if (!is_timed(*run.op)) return;
      const std::size_t lane = lane_number(run.op->lane);
      if (used[lane]) return;
      used[lane] = true;
      event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})", pid, lane,
            name_of(run.op->lane));
      event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", pid, lane, lane);
    });
  }

  /// A slice around the compute ops of each block run, which nest in it.
  void blocks(const RankTrace& r) {
    struct {
      OpRun run{};
      std::uint32_t ops = 0;
      Span span;
    } now;
    const auto flush = [&] {
      if (now.ops < 2) return;
      event(
          R"({{"ph":"X","pid":{},"tid":0,"ts":{},"dur":{},"name":{},"cat":"block","args":{{"layer":{},"microbatch":{}}}}})",
          process(index(r.rank)), time(now.span.start), micros(now.span.end - now.span.start),
          quoted(now.run.block->name), now.run.layer, now.run.microbatch);
    };
    now.run.block_run = UINT32_MAX;
    for_each_op(program_, step_of(r), [&](const OpRun& run) {
      if (!is_timed(*run.op) || lane_number(run.op->lane) != 0) return;
      const Span& span = r.spans[index(run.id)];
      if (run.block_run != now.run.block_run) {
        flush();
        now = {run, 0, span};
      }
      ++now.ops;
      now.span.end = span.end;
    });
    flush();
  }

  std::string slice_name(const RankTrace& r, const OpRun& run) const {
    const auto* exchange = std::get_if<Exchange>(&run.op->action);
    if (exchange == nullptr) return name_of(operation_of(program_, *run.block, *run.op));
    std::string name;
    for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count; ++t) {
      const Transfer& transfer = run.block->transfers[t];
      if (!name.empty()) name += ", ";
      name += fmt::format("{} rank {}", transfer.send ? "send to" : "receive from",
                          index(group_ranks(program_[transfer.group], program_.mesh, r.rank)[index(transfer.peer)]));
    }
    return name;
  }

  Pass pass_of(const OpRun& run) const {
    const auto* compute = std::get_if<Compute>(&run.op->action);
    return compute != nullptr ? run.block->kernels[compute->kernel].pass : run.block->pass;
  }

  void slice(const RankTrace& r, const OpRun& run) {
    const Span& span = r.spans[index(run.id)];
    event(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{"op":{},"layer":{},"microbatch":{},"block":{}}}}})",
        process(index(r.rank)), lane_number(run.op->lane), time(span.start), micros(span.end - span.start),
        quoted(slice_name(r, run)), name_of(pass_of(run)), index(run.id), run.layer, run.microbatch,
        quoted(run.block->name));
  }

  void memory(const RankTrace& r) {
    std::array<std::int64_t, LiveMemory::share_count> live{};
    const auto apply = [&](const OpRun& run) {
      const auto* alloc = std::get_if<Alloc>(&run.op->action);
      const auto* free = std::get_if<Free>(&run.op->action);
      if (alloc == nullptr && free == nullptr) return false;
      const Buffer& buffer = program_[alloc != nullptr ? alloc->what : free->what];
      if (buffer.tier != Tier::device) return false;
      live[LiveMemory::share_of(buffer.role)] +=
          static_cast<std::int64_t>(bytes_of(buffer)) * (alloc != nullptr ? 1 : -1);
      return true;
    };
    const auto count = [&](std::int64_t at) {
      event(R"--({{"ph":"C","pid":{},"ts":{},"name":"memory (MiB)","args":{{)--", process(index(r.rank)), time(at));
      for (std::size_t s = 0; s < live.size(); ++s) {
        fmt::format_to(std::back_inserter(out_), "{}\"{}\":{:.3f}", s > 0 ? "," : "", share_names[s],
                       static_cast<double>(live[s]) / mebibyte.base());
      }
      out_ += "}}";
    };
    for_each_op(program_, program_.classes[class_of(program_, r.rank)].setup, apply);
    std::int64_t at = 0;
    std::int64_t end = 0;
    bool changed = true;
    for_each_op(program_, step_of(r), [&](const OpRun& run) {
      const Span& span = r.spans[index(run.id)];
      end = std::max(end, span.end);
      // One event stands for all changes of one instant.
      if (is_timed(*run.op)) return;
      if (span.start != at && changed) {
        count(at);
        changed = false;
      }
      at = span.start;
      changed = apply(run) || changed;
    });
    if (changed) count(at);
    if (end != at) count(end);
  }

  void arrow(const std::vector<Place>& places) {
    const std::uint64_t id = next_flow_++;
    std::int64_t latest = INT64_MIN;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& p = places[i];
      // Arrows run forward in time and stay inside their slices.
      latest = std::max(latest, p.span.start);
      const std::int64_t at = std::min(latest, p.span.end);
      const char* phase = i == 0 ? "s" : (i + 1 == places.size() ? "f" : "t");
      event(R"({{"ph":"{}","pid":{},"tid":{},"ts":{},"id":{},"name":"message","cat":"flow"{}}})", phase,
            process(p.rank), p.lane, time(at), id, i + 1 == places.size() ? ",\"bp\":\"e\"" : "");
    }
  }

  void flows() {
    // Pairs the k-th send with the k-th receive on (from, to, channel), and counts the k-th collective of a group's
    // first rank.
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::vector<Place>> sends;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::vector<Place>> receives;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::vector<Place>> meetings;
    for (const RankTrace* r : ranks_) {
      if (stopped()) return;
      std::vector<std::uint32_t> ordinal(program_.groups.size(), 0);
      for_each_op(program_, step_of(*r), [&](const OpRun& run) {
        const Place place{index(r->rank), is_timed(*run.op) ? lane_number(run.op->lane) : 0, r->spans[index(run.id)]};
        if (const auto* exchange = std::get_if<Exchange>(&run.op->action)) {
          for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
               ++t) {
            const Transfer& transfer = run.block->transfers[t];
            const std::uint32_t peer =
                index(group_ranks(program_[transfer.group], program_.mesh, r->rank)[index(transfer.peer)]);
            if (transfer.send) {
              sends[{place.rank, peer, transfer.channel}].push_back(place);
            } else {
              receives[{peer, place.rank, transfer.channel}].push_back(place);
            }
          }
        } else if (const auto* collective = std::get_if<Collective>(&run.op->action)) {
          const std::uint32_t g = index(collective->group);
          const std::uint32_t leader = index(group_ranks(program_[collective->group], program_.mesh, r->rank).front());
          meetings[{g, leader, ordinal[g]++}].push_back(place);
        }
      });
      advance(r->spans.size());
    }
    for (const auto& [key, from] : sends) {
      const auto to = receives.find(key);
      if (to == receives.end()) continue;
      if (stopped()) return;
      for (std::size_t i = 0; i < std::min(from.size(), to->second.size()); ++i) arrow({from[i], to->second[i]});
    }
    for (auto& [key, members] : meetings) {
      if (members.size() < 2) continue;
      if (stopped()) return;
      std::stable_sort(members.begin(), members.end(),
                       [](const Place& a, const Place& b) { return a.span.start < b.span.start; });
      arrow(members);
    }
  }

  const Trace& trace_;
  const Program& program_;
  const ChromeTraceOptions& options_;
  const ChromeTraceSink& sink_;
  Standing standing_;
  std::vector<const RankTrace*> ranks_;
  std::uint64_t done_ = 0, total_ = 0;  ///< ops
  std::string out_;
  bool first_ = true;
  std::uint64_t next_flow_ = 1;
};

}  // namespace

std::string write_chrome_trace(const Trace& trace, const Program& program, const ChromeTraceOptions& options) {
  std::string text;
  ChromeTraceSink sink;
  sink.write = [&](std::string_view piece) { text += piece; };
  Writer(trace, program, options, sink).write();
  return text;
}

std::size_t write_chrome_trace(const Trace& trace, const Program& program, const ChromeTraceOptions& options,
                               const ChromeTraceSink& sink) {
  return Writer(trace, program, options, sink).write();
}

void write_job_timelines(const std::vector<JobTimeline>& jobs, const ChromeTraceSink& sink) {
  sink.write(
      "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"writer\":\"orrery\",\"kind\":\"jobs\"},\n\"traceEvents\":[\n");
  std::uint64_t done = 0, total = 0;
  for (const JobTimeline& job : jobs) total += job.steps.size();
  bool first = true;
  std::uint64_t flow = 1;
  std::uint32_t processes = 0;
  const ChromeTraceOptions options;
  ChromeTraceSink text;
  text.write = sink.write;
  for (const JobTimeline& job : jobs) {
    bool named = true;
    for (const JobTimeline::Step& step : job.steps) {
      Writer(*step.trace, *job.program, options, text, {job.name, processes, step.begin, named})
          .write_events(first, flow);
      named = false;
      if (sink.progress) sink.progress(++done, total);
    }
    processes += static_cast<std::uint32_t>(job.program->mesh.size());
  }
  sink.write("\n]}\n");
}

double chrome_trace_size(const Program& program, bool all_ranks) {
  // Characters of one event above with numbers of usual length: the format's own, and some 37 digits.
  constexpr double slice = 107 + 37;
  constexpr double around_block = 95 + 30;
  constexpr double counter = 165 + 17;
  constexpr double arrow_end = 70 + 25;
  constexpr double instant = 20;  // of an op that takes no time
  std::vector<double> of_block;
  for (const Block& block : program.blocks) {
    double bytes = 0.0;
    std::uint32_t computes = 0;
    bool counted = false;
    for (const Op& op : block.ops) {
      if (!is_timed(op)) {
        bytes += instant + (counted ? 0.0 : counter);  // one for all that changes at one instant
        counted = true;
        continue;
      }
      // Memory changes only at instants of the compute lane.
      counted = counted && lane_number(op.lane) != 0;
      computes += lane_number(op.lane) == 0 ? 1 : 0;
      const auto* compute = std::get_if<Compute>(&op.action);
      const Pass pass = compute != nullptr ? block.kernels[compute->kernel].pass : block.pass;
      bytes += slice + static_cast<double>(name_of(pass).size() + block.name.size());
      if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
        bytes += (arrow_end + 22) * exchange->transfers.count;  // 22: "receive from rank 123, "
      } else {
        bytes += static_cast<double>(std::string_view(name_of(operation_of(program, block, op))).size());
      }
      if (std::holds_alternative<Collective>(op.action)) bytes += arrow_end;
    }
    if (computes > 1) bytes += around_block + static_cast<double>(block.name.size());
    of_block.push_back(bytes);
  }
  double size = 0.0;
  for (const RankClass& ranks : program.classes) {
    for (const Slot& slot : ranks.step) size += of_block[index(slot.block)] * slot.repeat;
  }
  return size * (all_ranks ? static_cast<double>(program.mesh.size() / program.classes.size()) : 1.0);
}

}  // namespace orrery
