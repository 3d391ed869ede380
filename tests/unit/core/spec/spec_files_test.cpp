#include "core/spec/spec_files.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "core/base/random.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

std::optional<DeviceSpec> no_device(const std::string&, Diagnostics& d) {
  d.error("library.unknown-device", "none");
  return std::nullopt;
}

std::filesystem::path scratch() {
  return std::filesystem::temp_directory_path() / ("orrery-spec-" + std::to_string(getpid()));
}

/// Path of a file of `bytes` bytes, with a name that needs quoting.
std::string token_file(std::uint64_t bytes) {
  std::filesystem::create_directories(scratch());
  const auto file = scratch() / "tokens \"odd\".txt";
  std::ofstream(file, std::ios::binary) << 'x';
  std::filesystem::resize_file(file, bytes);
  return file.string();
}

Workload random_workload(std::uint64_t seed) {
  auto bits = [&, n = std::uint64_t{0}]() mutable { return random_bits(seed, 1, n++); };
  auto unit = [&, n = std::uint64_t{0}]() mutable { return random_uniform(seed, 2, n++); };
  Workload w;
  w.global_batch = 1 + bits() % 5000;
  w.sequence_length = 1 + bits() % 9000;
  w.precision = static_cast<Precision>(bits() % precision_names().size());
  w.master_weights = (w.precision != Precision::bf16 && w.precision != Precision::fp8) || bits() % 2 == 0;
  if (bits() % 2 == 0) w.gradient_dtype = bits() % 2 == 0 ? weight_dtype(w) : wide_dtype(w);
  w.optimizer.learning_rate = unit();
  w.optimizer.weight_decay = unit();
  w.optimizer.kind = static_cast<OptimizerKind>(bits() % optimizer_names().size());
  if (w.optimizer.kind == OptimizerKind::sgd || w.optimizer.kind == OptimizerKind::lars) {
    w.optimizer.momentum = unit();
  } else if (w.optimizer.kind != OptimizerKind::adafactor) {
    w.optimizer.beta1 = unit();
    w.optimizer.beta2 = unit();
    w.optimizer.epsilon = unit();
  }
  if (w.optimizer.kind == OptimizerKind::lars) w.optimizer.trust_coefficient = 0.1 + unit();
  if (w.optimizer.kind == OptimizerKind::lamb && bits() % 2 == 0) w.optimizer.trust_clip = 0.1 + unit();
  const bool narrow = optimizer_moments(w) > 0 && w.optimizer.kind != OptimizerKind::lamb;
  if (bits() % 2 == 0 && w.precision != Precision::fp64 && narrow) {
    w.moment_dtype = w.optimizer.kind == OptimizerKind::adam && bits() % 2 == 0
                         ? (bits() % 2 == 0 ? DType::f8 : DType::u8)
                     : bits() % 2 == 0 ? DType::bf16
                                       : wide_dtype(w);
  }
  if (bits() % 2 == 0) w.schedule = {ScheduleKind::cosine, bits() % 10, 11 + bits() % 10, unit()};
  if (bits() % 2 == 0) w.clip_norm = 0.1 + unit();
  w.hidden_dropout = bits() % 2 == 0 ? unit() : 0.0;
  w.attention_dropout = bits() % 2 == 0 ? unit() : w.hidden_dropout;
  w.loss_scale = 1.0 + 100 * unit();
  w.loss_scale_window = 1 + bits() % 100;
  w.seed = bits() >> 2;
  if (bits() % 2 == 0) w.data = token_file(w.sequence_length + 1);
  return w;
}

}  // namespace

TEST_CASE("a written workload reads back equal", "[unit][spec]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Workload w = random_workload(seed);
    Diagnostics d;
    const auto back = parse_workload(write_workload(w), "memory", d);
    CHECK(render(d) == "");
    REQUIRE(back);
    CHECK(*back == w);
  }
  std::filesystem::remove_all(scratch());
}

TEST_CASE("written models, devices and clusters read back equal", "[unit][spec]") {
  Diagnostics d;
  for (const std::string& name : library.models()) {
    const auto m = library.model(name, ".", d);
    REQUIRE(m);
    CHECK(parse_model(write_model(*m), "memory", d) == m);
  }
  for (const std::string& name : library.devices()) {
    const auto device = library.device(name, d);
    CHECK(parse_device(write_device(*device), "memory", d) == device);
  }
  for (const std::string& name : library.clusters()) {
    const auto c = library.cluster(name, ".", std::nullopt, d);
    CHECK(parse_cluster(write_cluster(*c), "memory", no_device, d) == c);
    ClusterSpec disk = *c;
    disk.disk = DiskSpec{Bytes::of(1e12), Bandwidth::of(2e9), Bandwidth::of(1e9), Seconds::of(1e-4)};
    CHECK(parse_cluster(write_cluster(disk), "memory", no_device, d) == disk);
  }
  CHECK(render(d) == "");
}

TEST_CASE("data is relative to the file that names it", "[unit][spec]") {
  Diagnostics d;
  const std::filesystem::path models = std::filesystem::path(ORRERY_SOURCE_DIR) / "models";
  const auto w = parse_workload("schema = 1\n[workload]\nbatch = 1\nsequence = 2\ndata = \"../data/corpus.txt\"\n",
                                (models / "plan" / "p.toml").string(), d);
  REQUIRE(w);
  CHECK(w->data == (models / "data" / "corpus.txt").string());
}

TEST_CASE("a checked model of the largest widths can be counted in 64 bits", "[unit][spec]") {
  // All widths at their bounds: 10^4 layers of less than 2^44 parameters.
  ModelSpec m;
  m.layers = max_layers;
  m.hidden = m.ffn = m.heads = m.kv_heads = max_width;
  m.head_dim = 1;
  m.vocabulary = max_vocabulary;
  m.max_positions = max_sequence;
  m.positions = PositionEncoding::learned;
  Diagnostics d;
  CHECK_FALSE(check_model(m, d));
  REQUIRE(d.size() == 1);
  CHECK(d.list().front().code == "model.size");
  // GELU: 4 h^2 of attention, 2 h f; in long double to be sure of the size.
  const long double expected = 1e4L * 6.0L * 0x1p40L;
  CHECK(static_cast<long double>(parameter_count(m)) == Approx(static_cast<double>(expected)).epsilon(0.01));
}

TEST_CASE("steps that cannot be counted are refused", "[unit][spec]") {
  Diagnostics d;
  ModelSpec m = *library.model("llama-3-405b", ".", d);
  Workload w;
  w.global_batch = 2048;
  w.sequence_length = 8192;
  CHECK(check_sizes(m, w, d));
  w.global_batch = 1 << 12;
  w.sequence_length = 1 << 24;  // 2^36 tokens, times 2^24 keys, times 2^7 heads = 2^67 scores
  CHECK_FALSE(check_sizes(m, w, d));
  CHECK(d.list().back().code == "workload.size");
}

TEST_CASE("any change of a cluster file gives a cluster or diagnostics", "[unit][spec]") {
  Diagnostics ignored;
  const std::string good = write_cluster(*library.cluster("dgx-h100", ".", 64, ignored));
  const std::uint64_t seed = 3;
  CAPTURE(seed);
  for (std::uint64_t round = 0; round < 1000; ++round) {
    std::string text = good;
    for (std::uint64_t e = 0; e < 2; ++e) {
      const std::uint64_t r = random_bits(seed, e, round);
      const std::string digits = "0123456789-.eEnaif\"[]";
      if (r % 2 == 0)
        text[(r >> 8) % text.size()] = digits[(r >> 40) % digits.size()];
      else
        text.insert((r >> 8) % text.size(), 1, digits[(r >> 40) % digits.size()]);
    }
    CAPTURE(round, text);
    Diagnostics d;
    const auto c = parse_cluster(text, "fuzz", no_device, d);
    CHECK(c.has_value() == d.empty());
    if (c) {
      CHECK(c->devices() <= max_devices);
    }
  }
}
