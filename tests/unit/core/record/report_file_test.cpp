#include "core/record/report_file.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

namespace orrery {

namespace {

Report sample() {
  Report r;
  r.origin = "estimate";
  r.plan = "a \"quoted\" plan";
  r.gpus = 16384;
  r.step_time = Seconds::of(0.1);  // not a whole number in binary
  r.tokens_per_s = 1234.5;
  r.tokens_per_s_per_gpu = 1.0 / 3.0;
  r.model_flops_utilization = 0.41;
  r.hardware_flops_utilization = 0.52;
  r.flop_convention = "full attention";
  r.peak_memory_bytes = (std::uint64_t{1} << 53) + 1;  // more than a double holds
  r.peak_memory_reserved_bytes = 70;
  r.peak_memory_process_bytes = 75;
  r.peak_memory_setup_bytes = 30;
  r.memory_capacity_bytes = 80;
  r.fits = false;
  r.memory_by_stage = {{0, 10, 1, 2, 3, 4, 0}, {1, 11, 2, 2, 3, 4, 0, 12}};
  r.bubble_fraction = 0.125;
  r.exposed_communication = Seconds::of(0.01);
  r.exposed_exchange = Seconds::of(0.004);
  r.compute = Seconds::of(0.08);
  r.time_by_stage = {{0, Seconds::of(0.08), Seconds::of(0.01), Seconds::of(0.004), Seconds::of(0.014)}};
  r.operations = {{"gemm", Seconds::of(0.07), 12}, {"all_reduce tensor", Seconds::of(1e-7), 3}};
  r.sent_bytes = 99;
  r.cost_per_step = 0.25;
  r.loss = 10.5;
  r.software = "nemo";
  r.software_costs = {"hopper", "nemo"};
  r.interval = StepInterval{0.8 * r.step_time, 1.25 * r.step_time};
  r.devices = {{"H100", DeviceBasis::Kind::fitted, 117, 25.5, "H100: fitted on 117 runs"},
               {"L40S", DeviceBasis::Kind::datasheet, 0, {}, "L40S: datasheet figures, no run measured"}};
  r.assumptions = {"one", "two"};
  return r;
}

std::string message(const std::string& text) {
  Diagnostics diagnostics;
  CHECK_FALSE(read_report(text, "r.json", diagnostics).has_value());
  REQUIRE_FALSE(diagnostics.empty());
  return render(diagnostics.list().front());
}

}  // namespace

TEST_CASE("A report reads back equal, with and without its optional figures", "[unit][record]") {
  Diagnostics diagnostics;
  const Report full = sample();
  CHECK(read_report(write_report(full), "r.json", diagnostics) == full);
  CHECK(read_report(write_report(Report{}), "r.json", diagnostics) == Report{});
  CHECK(diagnostics.empty());
  CHECK(write_report(full) == write_report(sample()));
  CHECK(looks_like_report(write_report(full)));
  CHECK_FALSE(looks_like_report("{\"orrery\":{\"trace\":1}}"));
}

TEST_CASE("Reports carry the keys that other tools read", "[unit][record]") {
  const auto json = nlohmann::json::parse(write_report(sample()));
  for (const char* key :
       {"step_time_s", "tokens_per_s_per_gpu", "model_flops_utilization", "hardware_flops_utilization",
        "flop_convention", "peak_memory_bytes", "memory_by_stage", "bubble_fraction", "exposed_communication_s"}) {
    CAPTURE(key);
    CHECK(json.contains(key));
  }
}

// The longest step has the lowest rates.
TEST_CASE("An interval is one of the step and of its rates", "[unit][record]") {
  const Report r = sample();
  const auto interval = nlohmann::json::parse(write_report(r))["interval"];
  CHECK(interval["step_time_low_s"] == 0.8 * r.step_time.base());
  CHECK(interval["step_time_high_s"] == 1.25 * r.step_time.base());
  CHECK(interval["tokens_per_s_low"].get<double>() == Approx(r.tokens_per_s / 1.25).epsilon(1e-12));
  CHECK(interval["tokens_per_s_high"].get<double>() == Approx(r.tokens_per_s / 0.8).epsilon(1e-12));
  CHECK(interval["model_flops_utilization_low"].get<double>() ==
        Approx(r.model_flops_utilization / 1.25).epsilon(1e-12));
}

TEST_CASE("Bad reports give one diagnostic for each mistake, never an exception", "[unit][record]") {
  CHECK(message("{\n  \"report\": ,") ==
        "r.json:2:13: error: this is not JSON [report.json]\n"
        "    2 |   \"report\": ,\n"
        "      |             ^\n");
  auto json = nlohmann::json::parse(write_report(sample()));
  json["version"] = 2;
  CHECK(message(json.dump()) ==
        "r.json: error: version is 2, but this program reads version 1 of a report [report.json]\n");
  json["version"] = 1;
  json["speed"] = 1;
  CHECK(message(json.dump()) == "r.json: error: speed is not a known key [report.json]\n");
  json.erase("speed");
  json.erase("gpus");
  CHECK(message(json.dump()) == "r.json: error: gpus is missing [report.json]\n");
  json["gpus"] = -1;
  CHECK(message(json.dump()) == "r.json: error: gpus is not a whole number of at least 0 [report.json]\n");
  json["gpus"] = 1;
  json["operations"][1]["time_s"] = "long";
  CHECK(message(json.dump()) == "r.json: error: operations[1].time_s is not a number [report.json]\n");
  CHECK(message("[]") == "r.json: error: the file is not an object [report.json]\n");
  CHECK(message("").find("this is not JSON") != std::string::npos);
  CHECK(message("{\"report\":1e999}").find("number") != std::string::npos);
}

TEST_CASE("A rendered report shows the figures with units", "[unit][record]") {
  const std::string text = render(sample());
  CHECK(text.find("step time                 100.0 ms") != std::string::npos);
  CHECK(text.find("12.5 %") != std::string::npos);
  CHECK(text.find("does not fit") != std::string::npos);
  CHECK(text.find("gemm") < text.find("all_reduce tensor"));  // longest first
}

}  // namespace orrery
