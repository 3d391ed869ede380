#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/calibrate_fit.hpp"
#include "cli/collectives.hpp"
#include "cli/common.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/units_text.hpp"
#include "core/record/calibration_file.hpp"
#include "exec/calibrate/calibrate.hpp"

namespace orrery {
namespace {

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
             "fit what training programs add to published, measured runs: a table as validate reads it");
    c.option(
        "--collectives", collectives_,
        "fit what NCCL's model of links lacks to measured collectives: a table as validate --collectives reads it");
    declare_output(c, flags_, "write the calibration here; default: where the other verbs find it");
    c.examples(
        "  orrery calibrate                 predictions for local-cpu then use it\n"
        "  orrery calibrate -o quiet.toml   and: orrery estimate plan.toml --calibration quiet.toml\n"
        "  orrery calibrate --from traces/measured/runs.csv   constants of training programs, refitted\n"
        "  orrery calibrate --collectives traces/measured/collectives.csv   constants of links, refitted");
  }

  int run() override {
    if (from_ && collectives_) refuse("cli.flags", "--from and --collectives fit different constants: give one");
    if (from_) return fit_to_runs(flags_, *from_);
    if (collectives_) return fit_to_collectives(flags_, *collectives_);
    const std::filesystem::path file =
        prints_output(flags_) ? "standard output"
                              : (flags_.output ? std::filesystem::path(*flags_.output) : own_calibration_path());
    if (!flags_.output) {  // the place of our own, which may be missing
      std::error_code failure;
      std::filesystem::create_directories(file.parent_path(), failure);
    }
    if (!prints_output(flags_)) require_folder(file);
    CalibrateOptions options;
    catch_interrupt();
    std::optional<Ticker> ticker(std::in_place, "calibrate");
    options.progress = [&](double share) {
      if (interrupted().load()) throw Interrupted{};
      ticker->show("calibrate", static_cast<std::uint64_t>(share * 1000.0), 1000);
    };
    MeasuredCalibration made;
    try {
      made = calibrate(options);
    } catch (const Interrupted&) {
      ticker.reset();
      print(flags_.json ? "{\n  \"complete\": false\n}\n" : "Interrupted: nothing was written.\n");
      return status_no;
    }
    ticker.reset();
    const Calibration& measured = made.calibration;
    const std::optional<std::string> busy = core_shortage(made.cores);
    if (flags_.output) {
      write_output(flags_, calibration_text(measured));
    } else {
      write_file(file, calibration_text(measured));
    }
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json json;
      json["file"] = file.string();
      json["machine"] = measured.machine;
      json["cores"] = usable_cores();
      json["spread"] = measured.spread;
      for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        json["gemm_flop_per_s"][std::string(name_of(t))] = best_gemm(measured, t);
      }
      json["kernel_tables"] = measured.kernels.size();
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
      out += fmt::format("  {} kernel tables, spread of measurements {}\n  written to {}\n", measured.kernels.size(),
                         percent(measured.spread), file.string());
      if (busy) out += fmt::format("  Not to be relied on: {}.\n", *busy);
      print(out);
    }
    return status_fine;
  }

 private:
  struct Interrupted {};
  CommonFlags flags_;
  std::optional<std::string> from_, collectives_;
};

}  // namespace

std::unique_ptr<Verb> calibrate_verb() { return std::make_unique<CalibrateVerb>(); }

}  // namespace orrery
