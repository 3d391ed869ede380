#include "validate/software.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "core/record/calibration_file.hpp"
#include "tests/unit/validate/runs.hpp"
#include "validate/run_table.hpp"
#include "validate/validation.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

Calibration constants(const char* device) {
  Calibration c;
  c.name = device;
  return c;
}

Software chosen(std::string_view name, const char* device, Precision precision = Precision::bf16) {
  Diagnostics d;
  const auto found = software_of(name, shipped_costs(shipped_library()), constants(device), DeviceSpec{}, precision, d);
  CAPTURE(render(d));
  REQUIRE(found);
  return *found;
}

std::string refused(std::string_view name, const Calibration& c, const DeviceSpec& device) {
  Diagnostics d;
  CHECK_FALSE(software_of(name, shipped_costs(shipped_library()), c, device, Precision::bf16, d));
  return render(d);
}

}  // namespace

TEST_CASE("a run priced by its program's name costs what the table's rows of it do", "[unit][validate]") {
  const std::vector<CostFile> files = shipped_costs(shipped_library());
  MeasuredRun run = dense_run();
  const std::tuple<const char*, const char*, const char*, const char*, Precision> rows[] = {
      {"Megatron-LM (2022)", "megatron-lm-2022", "a100-80", "fp16", Precision::fp16},
      {"NeMo 24.07", "nemo", "h100", "bf16", Precision::bf16},
      {"NeMo 24.12", "nemo", "h100", "fp8", Precision::fp8},
      {"NeMo container 25.09 (Megatron-Bridge)", "megatron-bridge-25.09", "h100", "bf16", Precision::bf16},
      {"NeMo container 26.04 (Megatron-Bridge)", "megatron-bridge-25.11", "gb200", "mxfp8", Precision::fp8},
      {"NeMo 25.04 (MLPerf v5.0)", "nemo-mlperf", "h100", "fp8", Precision::fp8},
      {"NeMo container 26.06 (Megatron-Bridge)", "megatron-bridge-26.06", "gb300", "mxfp8", Precision::fp8},
      {"torchtitan 9dec370", "torchtitan", "h100-96", "bf16", Precision::bf16},
      {"llm-foundry/Composer FSDP, mixed_precision=PURE", "llm-foundry", "a100-40", "bf16", Precision::bf16},
  };
  for (const auto& [framework, name, device, precision, ours] : rows) {
    CAPTURE(framework, name);
    run.framework = framework;
    run.precision = precision;
    const CostLabels labels = labels_of(run, device);
    const Software s = chosen(name, device, ours);
    CHECK(s.costs == costs_of(files, labels));
    CHECK(s.name == name);
    CHECK(s.chosen);
    CHECK(s.errors == errors_of(files, labels));
    CHECK(s.runs > 0);
  }
}

// The table says in words which program ran in each row; the files of costs name rows by id alone.
TEST_CASE("measured runs of a program are those of the table that name it, and others are named", "[unit][validate]") {
  Diagnostics d;
  const auto measured = std::filesystem::path(ORRERY_SOURCE_DIR) / "traces" / "measured";
  auto table = read_runs(measured / "runs.csv", d);
  const auto newer = read_runs(measured / "runs-2026.csv", d);
  REQUIRE((table && newer));
  table->insert(table->end(), newer->begin(), newer->end());
  const std::vector<CostFile> files = shipped_costs(shipped_library());
  for (const char* device : {"v100", "a100-80", "h100", "h100-96", "b200", "gb200", "gb300"}) {
    for (const TrainingProgram& program : training_programs()) {
      CAPTURE(device, program.name);
      const Software s = chosen(program.name, device);
      std::map<std::string, std::size_t> expected;
      for (const MeasuredRun& run : *table) {
        const auto behind = [&](const CostFile& f) {
          return std::find(s.files.begin(), s.files.end(), f.name) == s.files.end() ||
                 std::find(f.runs.begin(), f.runs.end(), run.id) != f.runs.end();
        };
        if (!std::all_of(files.begin(), files.end(), behind)) continue;
        std::string named;
        for (const TrainingProgram& p : training_programs()) {
          MeasuredRun plain = run;
          plain.precision = "bf16";
          if (labels_of(plain, device) == labels_of(p, device, Precision::bf16)) named = p.name;
        }
        ++expected[named];
      }
      CHECK(s.runs == expected[std::string(program.name)]);
      expected.erase(std::string(program.name));
      std::map<std::string, std::size_t> others;
      for (const ProgramRuns& o : s.others) others[o.program] = o.runs;
      CHECK(others == expected);
    }
  }
}

TEST_CASE("runs of another program are not said to be of this one", "[unit][validate]") {
  CHECK(describe(chosen("torchtitan", "a100-80")) ==
        "torchtitan; costs of all, ampere, eager-fsdp; 1 measured run of it, and 1 of deepspeed and 74 of llm-foundry");
  Software s;
  s.name = "nemo";
  s.chosen = true;
  s.files = {"all"};
  s.runs = 1;
  CHECK(describe(s) == "nemo; costs of all; 1 measured run of it");
  s.others = {{"", 3}, {"torchtitan", 2}, {"llm-foundry", 1}};
  CHECK(describe(s) ==
        "nemo; costs of all; 1 measured run of it, and 3 of other software, 2 of torchtitan and 1 of llm-foundry");
}

TEST_CASE("none is neutral, and has no interval", "[unit][validate]") {
  CHECK(chosen("none", "h100").costs == SoftwareCosts{});
  CHECK_FALSE(chosen("none", "h100").errors);
  CHECK(describe(chosen("none", "h100")) == "none: kernels as the vendor's libraries run them");
}

TEST_CASE("every device of a family has a usual program with an interval", "[unit][validate]") {
  for (const char* device :
       {"v100", "a100-40", "a100-80", "h100", "h200", "h100-96", "b200", "b300", "gb200", "gb300"}) {
    CAPTURE(device);
    const Software s = chosen("auto", device);
    CHECK_FALSE(s.chosen);
    CHECK(training_program(s.name) != nullptr);
    REQUIRE(s.errors);
    CHECK(s.errors->low < 1.0);
    CHECK(s.errors->high > 1.0);
    CHECK(std::find(s.files.begin(), s.files.end(), "all") != s.files.end());
    Software named = chosen(s.name, device);
    // The spread of all programs is wider than that of one.
    CHECK(s.errors->high - s.errors->low > named.errors->high - named.errors->low);
    named.chosen = false;
    named.errors = s.errors;
    CHECK(named == s);
  }
  CHECK(chosen("auto", "h100").name == "nemo");
  CHECK(chosen("auto", "a100-80").name == "megatron-lm-2022");
  CHECK(chosen("auto", "gb300").name == "megatron-bridge-25.11");
}

TEST_CASE("without runs of a program on a device its interval is the widest that its keys have", "[unit][validate]") {
  const Software s = chosen("nemo", "v100");
  CHECK(s.runs == 0);
  REQUIRE(s.errors);
  for (const CostFile& f : shipped_costs(shipped_library())) {
    if (std::find(s.files.begin(), s.files.end(), f.name) == s.files.end() || f.errors.runs < 20) continue;
    CHECK(f.errors.high - f.errors.low <= s.errors->high - s.errors->low);
  }
  CHECK(describe(s) ==
        "nemo; costs of all, nemo-loop, nemo, transformer-engine, volta; none of its runs on this device was measured");
}

TEST_CASE("without files nothing is added, and a named program is refused", "[unit][validate]") {
  Diagnostics d;
  CHECK(software_of("auto", {}, constants("h100"), {}, Precision::bf16, d) == Software{});
  CHECK_FALSE(software_of("nemo", {}, constants("h100"), {}, Precision::bf16, d));
  CHECK(render(d) ==
        "error: --software nemo has no costs here [cli.software]\n"
        "  The data directory's folder software has no file that fits it.\n");
}

TEST_CASE("a device of no family is priced with what all programs have in common", "[unit][validate]") {
  const Software s = chosen("auto", "rtx-5000");
  CHECK(s.name == "any");
  CHECK(s.files == std::vector<std::string>{"all"});
  REQUIRE(s.errors);
  const std::vector<CostFile> files = shipped_costs(shipped_library());
  CHECK(std::any_of(files.begin(), files.end(), [&](const CostFile& f) { return f.unmeasured == *s.errors; }));
  CHECK(s.errors->high - s.errors->low > chosen("auto", "h100").errors->high - chosen("auto", "h100").errors->low);
  CHECK(std::any_of(files.begin(), files.end(),
                    [&](const CostFile& f) { return f.unmeasured_named == *chosen("nemo", "rtx-5000").errors; }));
  CHECK(describe(s) == "no program in particular, since none was measured on this device; costs of all");
}

TEST_CASE("what was measured here holds the costs of the software that ran", "[unit][validate]") {
  Calibration measured = constants("h100");
  measured.machine = "a machine";
  DeviceSpec cores;
  cores.cores_shared = 8;
  Diagnostics d;
  const auto files = shipped_costs(shipped_library());
  CHECK(software_of("auto", files, measured, {}, Precision::bf16, d) == Software{});
  CHECK(software_of("auto", files, {}, cores, Precision::fp32, d) == Software{});
  CHECK(render(d) == "");
  const std::string detail =
      "  Measured constants already hold the costs of the software that ran; use --software none.\n";
  CHECK(refused("nemo", measured, {}) ==
        "error: --software nemo goes with shipped constants, but these were measured on a machine [cli.software]\n" +
            detail);
  CHECK(refused("nemo", {}, cores) ==
        "error: --software nemo is for GPUs, but the cluster's devices are CPU cores [cli.software]\n" + detail);
}
