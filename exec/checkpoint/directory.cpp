#include "exec/checkpoint/directory.hpp"

#include <nlohmann/json.hpp>

#include "core/program/moment_scales.hpp"
#include "core/record/json_fields.hpp"

namespace orrery {
namespace {

using nlohmann::json;

constexpr const char* code = "checkpoint.file";

/// The limit is far above any state, and products of two stay below 2^63.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60;

std::vector<std::uint64_t> read_numbers(JsonFields& fields, const char* key) {
  std::vector<std::uint64_t> numbers;
  const json* list = fields.find(key);
  if (list == nullptr) return numbers;
  if (!list->is_array() || list->empty() || list->size() > Shard::max_dims) {
    fields.error(fields.at(key), "is not a list of 1 to 4 numbers");
    return numbers;
  }
  for (const json& n : *list) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > most_bytes) {
      fields.error(fields.at(key), "has an entry that is not a whole number from 0 to 2^60");
      return {};
    }
    numbers.push_back(n.get<std::uint64_t>());
  }
  return numbers;
}

/// The product; empty when it is too large.
std::optional<std::uint64_t> product(const std::vector<std::uint64_t>& extents) {
  std::uint64_t n = 1;
  for (const std::uint64_t e : extents) {
    if (e == 0 || n > most_bytes / e) return std::nullopt;
    n *= e;
  }
  return n;
}

void check_slice(JsonFields& fields, const StatePart& part) {
  const Slice& s = part.slice;
  if (s.offset.size() != s.shape.size() || s.extent.size() != s.shape.size()) {
    return fields.error(fields.at("offset"), "and extent do not have as many numbers as shape");
  }
  if (!product(s.shape)) return fields.error(fields.at("shape"), "is empty or too large");
  const auto box = product(s.extent);
  if (!box) return fields.error(fields.at("extent"), "is empty or too large");
  if (s.count == 0 || s.first > *box || s.count > *box - s.first) {
    fields.error(fields.at("count"), "is 0, or reaches beyond the box of " + std::to_string(*box) + " elements");
  } else if (s.count > most_bytes / 16) {
    fields.error(fields.at("count"), "is too large");
  }
}

}  // namespace

std::uint64_t element_bytes(const StatePart& p) { return p.slice.count * size_of(p.dtype); }

std::uint64_t scale_count(const StatePart& p) {
  const std::uint64_t block = moment_block(p.dtype);
  return p.scale_phase ? (*p.scale_phase + p.slice.count + block - 1) / block : 0;
}

std::uint64_t bytes_of(const StatePart& p) { return element_bytes(p) + scale_count(p) * size_of(DType::f32); }

std::string write_directory(const std::vector<StatePart>& parts) {
  json list = json::array();
  for (const StatePart& p : parts) {
    json one = {{"what", p.what},         {"tensor", p.tensor},       {"dtype", name_of(p.dtype)},
                {"shape", p.slice.shape}, {"offset", p.slice.offset}, {"extent", p.slice.extent},
                {"first", p.slice.first}, {"count", p.slice.count}};
    if (p.scale_phase) one["scale_phase"] = *p.scale_phase;
    list.push_back(std::move(one));
  }
  return json{{"parts", std::move(list)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<std::vector<StatePart>> read_directory(std::string_view text, const std::string& file,
                                                     Diagnostics& diagnostics) {
  json value;
  Diagnostics found;
  std::vector<StatePart> parts;
  if (parse_json(text, file, code, found, value)) {
    JsonFields fields(value, "", file, code, found);
    fields.each("parts", [&](JsonFields& f) {
      StatePart p;
      std::string dtype;
      f.read("what", p.what);
      f.read("tensor", p.tensor);
      f.read("dtype", dtype);
      p.slice.shape = read_numbers(f, "shape");
      p.slice.offset = read_numbers(f, "offset");
      p.slice.extent = read_numbers(f, "extent");
      f.read("first", p.slice.first);
      f.read("count", p.slice.count);
      f.read_optional("scale_phase", p.scale_phase);
      if (const auto type = dtype_named(dtype)) {
        p.dtype = *type;
      } else {
        f.error(f.at("dtype"), "is not an element type");
      }
      if (p.scale_phase && *p.scale_phase >= moment_block(p.dtype)) f.error(f.at("scale_phase"), "is beyond a block");
      check_slice(f, p);
      parts.push_back(std::move(p));
    });
    fields.close();
  }
  for (const Diagnostic& d : found.list()) diagnostics.add(d);
  if (!found.empty()) return std::nullopt;
  return parts;
}

}  // namespace orrery
