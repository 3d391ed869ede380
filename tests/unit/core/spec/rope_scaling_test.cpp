#include "core/spec/rope_scaling.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "core/spec/hf_config.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/spec_files.hpp"

using namespace orrery;

namespace {

constexpr double two_pi = 2.0 * std::numbers::pi;

ModelSpec rotary(double theta, std::uint64_t head_dim, std::uint64_t positions) {
  ModelSpec m;
  m.layers = 2;
  m.head_dim = head_dim;
  m.max_positions = positions;
  m.positions = PositionEncoding::rotary;
  m.rope_theta = theta;
  return m;
}

double plain(double theta, std::size_t pair, double features) {
  return 1.0 / std::pow(theta, 2.0 * static_cast<double>(pair) / features);
}

}  // namespace

TEST_CASE("without a scaling, or its numbers, angles follow from theta and the features that rotate", "[spec]") {
  ModelSpec m = rotary(10000.0, 8, 64);
  for (const char* kind : {"", "yarn"}) {
    m.rope_scaling = kind;
    const RotaryAngles angles = rotary_angles(m, 0, 64);
    CHECK(angles.length == 1.0);
    REQUIRE(angles.frequencies.size() == 4);
    CHECK(angles.frequencies[1] == Approx(0.1));
    CHECK(angles.frequencies[3] == Approx(0.001));
  }
  m.rotary_dim = 4;
  CHECK(rotary_angles(m, 0, 64).frequencies.size() == 2);
  CHECK(rotary_angles(m, 0, 64).frequencies[1] == Approx(0.01));
}

// Llama-3.1's numbers. The released code goes by wavelengths: above 8192 / 1 positions a pair is stretched by 8, below
// 8192 / 4 it is not, and between its frequency is mixed by where 8192 / wavelength lies between 1 and 4.
TEST_CASE("Llama-3's angles are stretched by their wavelength", "[spec]") {
  ModelSpec m = rotary(500000.0, 128, 131072);
  m.rope_scaling = "llama3";
  m.rope_stretch = {.factor = 8.0, .original = 8192, .slow = 1.0, .fast = 4.0};
  const RotaryAngles angles = rotary_angles(m, 0, 4096);
  int kept = 0, mixed = 0, stretched = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double f = plain(500000.0, i, 128.0), wavelength = two_pi / f;
    double expected = f;
    if (wavelength > 8192.0 / 1.0) {
      expected = f / 8.0;
      ++stretched;
    } else if (wavelength >= 8192.0 / 4.0) {
      const double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
      expected = (1.0 - smooth) * f / 8.0 + smooth * f;
      ++mixed;
    } else {
      ++kept;
    }
    CHECK(angles.frequencies[i] == Approx(expected).epsilon(1e-13));
  }
  CHECK(kept > 0);
  CHECK(mixed > 0);
  CHECK(stretched > 0);
  CHECK(angles.length == 1.0);
}

// DeepSeek-V3: 64 features, factor 40, 4096 positions. Pairs that make 32 turns and one turn over them lie at
// 64 ln(4096 / (turns 2 pi)) / (2 ln 10000): 10.47 and 22.51, in whole pairs 10 and 23.
TEST_CASE("YaRN keeps fast pairs, stretches slow ones, and lengthens the vectors", "[spec]") {
  ModelSpec m = rotary(10000.0, 64, 163840);
  m.rope_scaling = "yarn";
  m.rope_stretch = {.factor = 40.0, .original = 4096};
  const RotaryAngles angles = rotary_angles(m, 0, 4096);
  for (std::size_t i = 0; i < 32; ++i) {
    const double f = plain(10000.0, i, 64.0);
    const double ramp = i <= 10 ? 0.0 : i >= 23 ? 1.0 : (static_cast<double>(i) - 10.0) / 13.0;
    CHECK(angles.frequencies[i] == Approx(f * (1.0 - ramp) + f / 40.0 * ramp).epsilon(1e-13));
  }
  CHECK(angles.length == Approx(0.1 * std::log(40.0) + 1.0));
  m.rope_stretch.length = 1.0;  // DeepSeek's two constants are equal
  CHECK(rotary_angles(m, 0, 4096).length == 1.0);
  m.rope_stretch.whole_pairs = false;
  const double low = 64.0 * std::log(4096.0 / (32.0 * two_pi)) / (2.0 * std::log(10000.0));
  const double high = 64.0 * std::log(4096.0 / two_pi) / (2.0 * std::log(10000.0));
  const double ramp = (15.0 - low) / (high - low), f = plain(10000.0, 15, 64.0);
  CHECK(rotary_angles(m, 0, 4096).frequencies[15] == Approx(f * (1.0 - ramp) + f / 40.0 * ramp).epsilon(1e-13));
}

// DeepSeek-V3 (config.json of the release): 128 + 64 features of a key, 40 times the length, both constants 1.
TEST_CASE("DeepSeek's scaling changes the scale of scores", "[spec]") {
  const std::string head = R"({"model_type": "deepseek_v3", "num_hidden_layers": 2, "rope_scaling": {"type": "yarn",
    "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1, )";
  const auto read = [&](const std::string& constants) {
    Diagnostics d;
    const auto m = parse_hf_config(head + constants + "}}", "config.json", d);
    INFO(render(d));
    REQUIRE(m.has_value());
    CHECK(level_of(*m) == ModelLevel::executed);
    return *m;
  };
  const ModelSpec equal = read(R"("mscale": 1.0, "mscale_all_dim": 1.0)");
  CHECK(equal.attention_scale == Approx(std::pow(0.1 * std::log(40.0) + 1.0, 2) / std::sqrt(192.0)).epsilon(1e-14));
  CHECK(rotary_angles(equal, 0, 4096).length == 1.0);
  const ModelSpec second = read(R"("mscale_all_dim": 1.0)");
  CHECK(second.attention_scale == equal.attention_scale);
  CHECK(rotary_angles(second, 0, 4096).length == Approx(0.1 * std::log(40.0) + 1.0));
  const ModelSpec said = read(R"("mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.25)");
  CHECK(said.attention_scale == equal.attention_scale);
  CHECK(rotary_angles(said, 0, 4096).length == 1.25);
  const ModelSpec none = read(R"("truncate": true)");
  CHECK(none.attention_scale == 0.0);
  CHECK(rotary_angles(none, 0, 4096).length == Approx(0.1 * std::log(40.0) + 1.0));
}

TEST_CASE("equal bounds part the pairs of a llama3 scaling in two", "[spec]") {
  ModelSpec m = rotary(500000.0, 128, 262144);
  m.rope_scaling = "llama3";
  m.rope_stretch = {.factor = 16.0, .original = 8192, .slow = 1.0, .fast = 1.0};  // Llama-4-Scout's
  const RotaryAngles angles = rotary_angles(m, 0, 4096);
  for (std::size_t i = 0; i < 64; ++i) {
    const double f = plain(500000.0, i, 128.0);
    CHECK(angles.frequencies[i] == Approx(8192.0 * f < two_pi ? f / 16.0 : f).epsilon(1e-13));
  }
}

TEST_CASE("a linear scaling divides every angle, and a dynamic one changes nothing up to the trained length",
          "[spec]") {
  ModelSpec m = rotary(10000.0, 8, 100);
  m.rope_scaling = "linear";
  m.rope_stretch.factor = 4.0;
  CHECK(rotary_angles(m, 0, 100).frequencies[2] == Approx(0.01 / 4.0));
  m.rope_scaling = "dynamic";
  CHECK(rotary_angles(m, 0, 100).frequencies == rotary_angles(rotary(10000.0, 8, 100), 0, 100).frequencies);
  // At twice the length the base is 10000 (4 x 2 - 3)^(8/6).
  const double base = 10000.0 * std::pow(5.0, 8.0 / 6.0);
  CHECK(rotary_angles(m, 0, 200).frequencies[3] == Approx(plain(base, 3, 8.0)).epsilon(1e-13));
}

// Phi-3: 131072 / 4096 = 32 times the length, so vectors are sqrt(1 + ln 32 / ln 4096) = 1.190... times as long.
TEST_CASE("LongRoPE has a factor for each pair, by the length of sequences", "[spec]") {
  ModelSpec m = rotary(10000.0, 4, 131072);
  m.rope_scaling = "longrope";
  m.rope_stretch = {.factor = 32.0, .original = 4096, .short_factors = {1.0, 2.0}, .long_factors = {4.0, 50.0}};
  CHECK(rotary_angles(m, 0, 4096).frequencies == std::vector<double>{1.0, 0.01 / 2.0});
  CHECK(rotary_angles(m, 0, 4097).frequencies == std::vector<double>{1.0 / 4.0, 0.01 / 50.0});
  CHECK(rotary_angles(m, 0, 1).length == Approx(1.1902380714));
}

TEST_CASE("layers with a base of their own are not stretched", "[spec]") {
  ModelSpec m = rotary(1000000.0, 4, 131072);
  m.rope_scaling = "linear";
  m.rope_stretch.factor = 8.0;
  m.local = LocalAttention{LocalAttention::Span::window, 16, LayerPattern{2, {}}, 10000.0};
  CHECK(rotary_angles(m, 0, 64).frequencies[1] == Approx(0.01));
  CHECK(rotary_angles(m, 1, 64).frequencies[1] == Approx(0.001 / 8.0));
}

TEST_CASE("the numbers of a scaling survive a model file, and are read from a configuration", "[spec]") {
  const std::string head = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128)";
  const auto read = [&](const std::string& scaling) {
    Diagnostics d;
    const auto m = parse_hf_config(head + R"(, "rope_scaling": )" + scaling + "}", "config.json", d);
    INFO(render(d));
    REQUIRE(m.has_value());
    Diagnostics again;
    const auto copy = parse_model(write_model(*m), "m.toml", again);
    INFO(render(again));
    REQUIRE(copy.has_value());
    CHECK(copy->rope_stretch == m->rope_stretch);
    return m->rope_stretch;
  };
  CHECK(read(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 64})") ==
        RopeStretch{.factor = 8.0, .original = 64, .slow = 1.0, .fast = 4.0});
  CHECK(read(R"({"type": "linear", "factor": 2.5})") == RopeStretch{.factor = 2.5});
  CHECK(read(R"({"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "truncate": false, "mscale": 1.0,
                 "mscale_all_dim": 1.0})") ==
        RopeStretch{.factor = 4.0, .fast = 16.0, .whole_pairs = false, .length = 1.0});
  CHECK(read(R"({"rope_type": "longrope", "original_max_position_embeddings": 32, "short_factor": [1.0, 1.5],
                 "long_factor": [2.0, 3.0]})") ==
        RopeStretch{.factor = 4.0, .original = 32, .short_factors = {1.0, 1.5}, .long_factors = {2.0, 3.0}});
  CHECK(read(R"({"type": "yarn"})") == RopeStretch{});  // the kind without its numbers
}
