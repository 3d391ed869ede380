#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/calibrate_fit.hpp"
#include "cli/collectives.hpp"
#include "cli/common.hpp"
#include "cli/gpu_ranks.hpp"
#include "cli/interrupt.hpp"
#include "cli/job.hpp"
#include "cli/own_gpu_calibration.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/record/calibration_file.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/calibrate/device_rates.hpp"
#include "exec/calibrate/disk_rates.hpp"
#include "exec/device/cuda_load.hpp"
#include "validate/measured_links.hpp"

namespace orrery {
namespace {

/// The file of --log: a line for every hundredth of the work, {"event":"progress","share":0.25}, written at once.
class ProgressLog {
 public:
  explicit ProgressLog(const std::optional<std::string>& file) {
    if (file) out_.open(*file);
    if (file && !out_) throw Error(fmt::format("cannot write {}", *file));
  }
  void tell(double share) {
    const int hundredths = static_cast<int>(100.0 * share);
    if (!out_.is_open() || hundredths <= told_) return;
    told_ = hundredths;
    out_ << fmt::format("{{\"event\":\"progress\",\"share\":{:.2f}}}\n", hundredths / 100.0) << std::flush;
  }

 private:
  std::ofstream out_;
  int told_ = -1;
};

nlohmann::ordered_json disk_json(const DiskRate& d) {
  return {{"read_bytes_per_s", d.read.base()}, {"write_bytes_per_s", d.write.base()}, {"latency_s", d.latency.base()}};
}
std::string disk_text(const Calibration& c) {
  if (!c.disk) return "";
  return fmt::format("  the disk reads {}, writes {}, and begins after {}\n", short_text(c.disk->read),
                     short_text(c.disk->write), short_text(c.disk->latency));
}

/// Fastest matrix product measured in one type.
double best_gemm(const Calibration& c, DType type) {
  double best = 0.0;
  for (const KernelRate& k : c.kernels) {
    if (k.kind != KernelKind::gemm || k.compute != type || k.rate.values.empty()) continue;
    best = std::max(best, *std::max_element(k.rate.values.begin(), k.rate.values.end()));
  }
  return best;
}

class CalibrateVerb final : public Verb {
 public:
  const char* name() const override { return "calibrate"; }
  const char* summary() const override { return "measure this machine, so that predictions for it hold"; }

  void declare(Command& c) override {
    c.option("--from", from_,
             "fit the costs of training programs to published, measured runs: a table as validate reads it");
    c.option("--collectives", collectives_,
             "fit the constants that NCCL's model of links lacks to measured collectives: a table as validate "
             "--collectives reads it");
    c.choice("--backend", backend_, {"threads", "cuda"}, "what is measured: this machine's cores, or a GPU");
    c.option("--gpu", gpu_, "--backend cuda: number of the GPU, from 0", {0, 1024});
    c.option("--groups", groups_,
             "--backend cuda: collectives measured by run --measure-groups; the links' constants are fitted to them");
    c.option("--disk", disk_, "measure the disk of this folder, too, for clusters that have one");
    c.flag("--force", force_, "write the calibration where the other verbs find it, even if the cores were busy");
    c.option("--log", log_, "write how far the measurement is to this file: a line of JSON for every hundredth");
    declare_output(c, flags_, "write the calibration here; default: where the other verbs find it");
    c.examples(
        "  orrery calibrate                 predictions for local-cpu then use it\n"
        "  orrery calibrate -o quiet.toml   and: orrery estimate plan.toml --calibration quiet.toml\n"
        "  orrery calibrate --backend cuda  plans with for = \"orrery-cuda\" on such GPUs are then priced with it\n"
        "  orrery calibrate --backend cuda -o gpu.toml   and: orrery estimate plan.toml --calibration gpu.toml\n"
        "  orrery calibrate --backend cuda -o gpu.toml --groups groups.csv   with the collectives that run "
        "--measure-groups wrote\n"
        "  orrery calibrate --from traces/measured/runs.csv   constants of training programs, refitted\n"
        "  orrery calibrate --collectives traces/measured/collectives.csv   constants of links, refitted");
  }

  int run() override {
    if (from_ && collectives_) refuse("cli.flags", "--from and --collectives fit different constants: give one");
    if (disk_ && (from_ || collectives_))
      refuse("cli.flags", "--disk is for measurements, not for --from or --collectives");
    if (log_ && (from_ || collectives_))
      refuse("cli.flags", "--log shows how far a measurement is; --from and --collectives measure nothing");
    refuse_standard_output("--log", log_);
    if (log_) require_folder(*log_);
    if (from_) return fit_to_runs(flags_, *from_);
    if (collectives_) return fit_to_collectives(flags_, *collectives_);
    if (disk_ && !std::filesystem::is_directory(*disk_)) {
      refuse("cli.flags", fmt::format("--disk: {} is not a folder", escaped(*disk_)));
    }
    if (groups_ && backend_ != "cuda") refuse("cli.flags", "--groups is for --backend cuda");
    if (gpu_ && backend_ != "cuda") refuse("cli.gpu", "--gpu is for --backend cuda");
    if (backend_ == "cuda") return calibrate_gpu();
    const std::filesystem::path file =
        prints_output(flags_) ? "standard output"
                              : (flags_.output ? std::filesystem::path(*flags_.output) : own_calibration_path());
    if (!flags_.output) {  // the place of our own, which may be missing
      std::error_code failure;
      std::filesystem::create_directories(file.parent_path(), failure);
    }
    if (!prints_output(flags_)) require_folder(file);
    CalibrateOptions options;
    ProgressLog log(log_);
    catch_interrupt();
    std::optional<Ticker> ticker(std::in_place, "calibrate");
    options.progress = [&](double share) {
      if (interrupted().load()) throw Interrupted{};
      ticker->show("calibrate", static_cast<std::uint64_t>(share * 1000.0), 1000);
      log.tell(share);
    };
    MeasuredCalibration made;
    try {
      made = calibrate(options);
      if (disk_) made.calibration.disk = measure_disk(*disk_, disk_bytes, shown_as("disk", *ticker));
    } catch (const Interrupted&) {
      ticker.reset();
      return say_interrupted();
    }
    ticker.reset();
    const Calibration& measured = made.calibration;
    const std::optional<std::string> busy = core_shortage(made.cores);
    // With such a file every later prediction for this machine would be as wrong.
    const bool kept = flags_.output || !busy || force_;
    if (flags_.output) {
      write_output(flags_, calibration_text(measured));
    } else if (kept) {
      write_file(file, calibration_text(measured));
    }
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json json;
      json["file"] = kept ? nlohmann::ordered_json(file.string()) : nlohmann::ordered_json(nullptr);
      json["machine"] = measured.machine;
      json["cores"] = usable_cores();
      json["spread"] = measured.spread;
      for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        json["gemm_flop_per_s"][std::string(name_of(t))] = best_gemm(measured, t);
      }
      json["kernel_tables"] = measured.kernels.size();
      if (measured.disk) json["disk"] = disk_json(*measured.disk);
      json["core_time_needed_s"] = made.cores.needed;
      json["core_time_had_s"] = made.cores.had;
      json["assumptions"] = nlohmann::ordered_json::array();
      if (busy) json["assumptions"].push_back(*busy);
      print_json(json);
    } else {
      Table table({"matrix products", "best rate"});
      for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        const double rate = best_gemm(measured, t);
        if (rate > 0.0) table.row({std::string(name_of(t)), short_text(FlopRate::of(rate))});
      }
      std::string out = measured.machine + "\n" + table.str();
      if (measured.messages)
        out += fmt::format("  a message between ranks takes {} to start\n", short_text(measured.messages->latency));
      out += disk_text(measured);
      out += fmt::format("  {} kernel tables, spread of measurements {}\n", measured.kernels.size(),
                         percent(measured.spread));
      if (busy) out += fmt::format("  Do not rely on these figures: {}.\n", *busy);
      out +=
          kept ? fmt::format("  written to {}\n", file.string())
               : std::string("  Nothing was written: measure again on an idle machine, or give --force or -o FILE.\n");
      print(out);
    }
    return kept ? status_fine : status_no;
  }

 private:
  struct Interrupted {};
  [[nodiscard]] int say_interrupted() const {
    print(flags_.json ? "{\n  \"complete\": false\n}\n" : "Interrupted: nothing was written.\n");
    return status_no;
  }
  static constexpr std::uint64_t disk_bytes = std::uint64_t{1} << 30;
  /// Shows how far a part of the work is, and ends it when the user does.
  static std::function<void(double)> shown_as(const char* what, Ticker& ticker) {
    return [what, &ticker](double share) {
      if (interrupted().load()) throw Interrupted{};
      ticker.show(what, static_cast<std::uint64_t>(share * 1000.0), 1000);
    };
  }
  /// What it measures holds for plans for Orrery's own executor on GPUs: its place is that executor's, one file for
  /// each kind of GPU.
  int calibrate_gpu() {
    // Threads in place of a GPU are measured on small shapes, as an H100: it is all but the figures that is rehearsed.
    const bool rehearsal = cuda_module() == stand_in_module;
    if (rehearsal && !flags_.output) {
      refuse("cli.output", "--backend cuda on threads that stand in for a GPU needs -o: the file to write",
             {"Predictions for a GPU must not come from them."});
    }
    if (flags_.output && !prints_output(flags_)) require_folder(*flags_.output);
    queue_streams_apart();
    const std::unique_ptr<Device> gpu = open_cuda_device(cuda_module(), static_cast<int>(gpu_.value_or(0)));
    const std::optional<std::string> device = rehearsal ? "h100" : device_file_of(gpu->info());
    if (!device) throw Error(fmt::format("models/device has no file for {}", gpu->info().name));
    const std::filesystem::path file =
        flags_.output ? std::filesystem::path(*flags_.output) : own_gpu_calibration_path(*device);
    if (!flags_.output) {  // the place of our own, which may be missing
      std::error_code failure;
      std::filesystem::create_directories(file.parent_path(), failure);
      require_folder(file);
    }
    // Constants that were not measured are as shipped: a box of these GPUs has the same links as others.
    const Calibration shipped = shipped_calibration(*device);
    const std::vector<CurveFile> links = groups_ ? fitted_links(*groups_) : std::vector<CurveFile>{};
    if (!links.empty() && !shipped.nccl) {
      refuse("cli.flags", fmt::format("--groups: models/calibration/{}.toml has no constants of links", *device));
    }
    Calibration measured;
    catch_interrupt();
    try {
      Ticker ticker("calibrate");
      ProgressLog log(log_);
      const DeviceGrid grid = rehearsal ? small_grid() : DeviceGrid{};
      measured = calibrate_device(*gpu, *device, {Precision::bf16, Precision::fp32}, grid, [&](double share) {
        if (interrupted().load()) throw Interrupted{};
        ticker.show("calibrate", static_cast<std::uint64_t>(share * 1000.0), 1000);
        log.tell(share);
      });
      if (disk_) measured.disk = measure_disk(*disk_, disk_bytes, shown_as("disk", ticker));
    } catch (const Interrupted&) {
      return say_interrupted();
    }
    measured = with_links(std::move(measured), shipped, links, groups_.value_or(""));
    if (rehearsal) measured.source = "a rehearsal: threads that stand in for a GPU, small shapes";
    set_context(measured, gpu->info());
    if (flags_.output) {
      write_output(flags_, calibration_text(measured));
    } else {
      write_file(file, calibration_text(measured));
    }
    if (prints_output(flags_)) return status_fine;
    if (flags_.json) {
      nlohmann::ordered_json json{
          {"file", file.string()},
          {"machine", measured.machine},
          {"device", measured.device},
          {"spread", measured.spread},
          {"launch_s", measured.launch.base()},
          {"host_bytes_per_s", measured.host_bandwidth->base()},
          {"gemm_flop_per_s", {{"bf16", best_gemm(measured, DType::bf16)}, {"f32", best_gemm(measured, DType::f32)}}},
          {"kernel_tables", measured.kernels.size()}};
      if (measured.disk) json["disk"] = disk_json(*measured.disk);
      print_json(json);
      return status_fine;
    }
    print(
        fmt::format("{}\n  matrix products: bf16 {}, f32 {}\n  between kernels: {}\n  copies to and from the host: "
                    "{}\n{}  {} kernel "
                    "tables, spread of "
                    "measurements {}\n  written to {}\n",
                    measured.machine, short_text(FlopRate::of(best_gemm(measured, DType::bf16))),
                    short_text(FlopRate::of(best_gemm(measured, DType::f32))), short_text(measured.launch),
                    short_text(*measured.host_bandwidth), disk_text(measured), measured.kernels.size(),
                    percent(measured.spread), file.string()));
    return status_fine;
  }
  /// What was taken of the GPU before anything was measured: the context and the module's kernels, on an idle GPU. The
  /// shipped figure is PyTorch's.
  static void set_context(Calibration& c, const DeviceInfo& gpu) {
    if (!c.memory || gpu.free_bytes >= gpu.memory_bytes) return;
    c.memory->context = Bytes::of(static_cast<double>(gpu.memory_bytes - gpu.free_bytes));
    c.memory->source = "context: measured on this GPU, with what other processes held; the rest: " + c.memory->source;
  }
  [[nodiscard]] Calibration shipped_calibration(const std::string& device) const {
    Diagnostics d;
    std::optional<Calibration> shipped = read_calibration(library_of(flags_).calibration(device), d);
    require_none(d);
    return *std::move(shipped);
  }
  CommonFlags flags_;
  std::optional<std::string> from_, collectives_, groups_, disk_, log_;
  std::string backend_ = "threads";
  std::optional<std::uint32_t> gpu_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Verb> calibrate_verb() { return std::make_unique<CalibrateVerb>(); }

}  // namespace orrery
