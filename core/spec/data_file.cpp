#include "core/spec/data_file.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

bool refuse(const Workload& w, Diagnostics& diagnostics, std::string message, std::string detail) {
  diagnostics.error(w.origin, "workload.data", "workload.data", std::move(message), {std::move(detail)});
  return false;
}

}  // namespace

bool check_data(const Workload& w, Diagnostics& diagnostics) {
  if (w.data.empty()) return true;
  const std::string at = fmt::format("It is looked for at {}.", w.data);
  std::error_code failure;
  const auto status = std::filesystem::status(w.data, failure);
  if (!std::filesystem::exists(status)) {
    return refuse(w, diagnostics,
                  failure && status.type() != std::filesystem::file_type::not_found
                      ? "the token file cannot be reached: " + failure.message()
                      : "there is no such token file",
                  at);
  }
  // A device or a pipe may have no end.
  if (!std::filesystem::is_regular_file(status))
    return refuse(w, diagnostics, "the token file is not a regular file", at);
  if (!std::ifstream(w.data, std::ios::binary)) {
    return refuse(w, diagnostics, "the token file cannot be opened for reading", at);
  }
  const std::uint64_t bytes = std::filesystem::file_size(w.data, failure);
  if (failure) return refuse(w, diagnostics, "the token file cannot be reached: " + failure.message(), at);
  if (bytes <= w.sequence_length) {
    return refuse(w, diagnostics, "the token file is shorter than a sequence",
                  fmt::format("It has {}; sequence {} and its last target need {}.", counted(bytes, "byte"),
                              w.sequence_length, w.sequence_length + 1));
  }
  if (bytes > max_data_bytes) {
    return refuse(w, diagnostics, "the token file is too large",
                  fmt::format("It has {}; at most {} are read.", short_text(Bytes::of(double(bytes))),
                              short_text(Bytes::of(double(max_data_bytes)))));
  }
  return true;
}

bool check_data_tokens(const Workload& w, const ModelSpec& m, Diagnostics& diagnostics) {
  if (w.data.empty() || m.vocabulary >= 256) return true;
  std::ifstream in(w.data, std::ios::binary);
  std::array<char, 65536> part{};
  std::uint64_t before = 0;
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    const auto count = static_cast<std::size_t>(in.gcount());
    for (std::size_t i = 0; i < count; ++i) {
      const auto token = static_cast<unsigned char>(part[i]);
      if (token < m.vocabulary) continue;
      return refuse(w, diagnostics, "the token file holds a byte outside the model's vocabulary",
                    fmt::format("Byte {} is {}; the vocabulary is {}. A vocabulary of 256 takes every byte.",
                                before + i, token, m.vocabulary));
    }
    before += count;
  }
  return true;
}

}  // namespace orrery
