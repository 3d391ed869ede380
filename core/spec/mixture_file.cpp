#include "core/spec/mixture_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/spec/routing.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view>& score_names() {
  static const std::vector<std::string_view> names{"softmax_chosen", "softmax_all", "sigmoid"};
  return names;
}
const std::vector<std::string_view>& group_score_names() {
  static const std::vector<std::string_view> names{"best", "two_best"};
  return names;
}
const std::vector<std::string_view>& routing_names() {
  static const std::vector<std::string_view> names{"balanced", "skewed", "recorded", "learned"};
  return names;
}

constexpr std::uint32_t max_experts = 4096;
constexpr std::uint64_t max_expert_width = std::uint64_t{1} << 24;  // of all experts together
constexpr double max_exponent = 10.0;
constexpr double max_factor = 1e3;

}  // namespace

void read_mixture(TomlTable t, Mixture& m) {
  t.read("experts", m.experts, {2, max_experts});
  t.read("per_token", m.per_token, {1, max_experts});
  t.read("ffn", m.ffn, {1, max_width});
  t.read("shared_ffn", m.shared_ffn, {0, max_width}, Need::optional);
  t.read("first_dense", m.first_dense, {0, max_layers}, Need::optional);
  t.read("every", m.every, {1, max_layers}, Need::optional);
  t.read("dense", m.dense, {0, static_cast<std::uint32_t>(max_layers) - 1}, max_layers, Need::optional);
  t.read_enum("scores", score_names(), m.scores, Need::optional);
  t.read("scale", m.scale, {0.0, max_factor, true}, Need::optional);
  t.read("score_bias", m.score_bias, Need::optional);
  t.read("router_bias", m.router_bias, Need::optional);
  t.read("expert_bias", m.expert_bias, Need::optional);
  t.read("shared_gate", m.shared_gate, Need::optional);
  t.read("groups", m.groups, {1, max_experts}, Need::optional);
  t.read("groups_per_token", m.groups_per_token, {1, max_experts}, m.groups > 1 ? Need::required : Need::optional);
  t.read_enum("group_score", group_score_names(), m.group_score, Need::optional);
  t.finish();
}

void write_mixture(TomlWriter& out, const Mixture& m) {
  const Mixture usual;
  out.table("model.mixture").whole("experts", m.experts).whole("per_token", m.per_token).whole("ffn", m.ffn);
  if (m.shared_ffn > 0) out.whole("shared_ffn", m.shared_ffn);
  if (m.first_dense > 0) out.whole("first_dense", m.first_dense);
  if (m.every > 1) out.whole("every", m.every);
  if (!m.dense.empty()) out.wholes("dense", m.dense);
  out.text("scores", score_names()[static_cast<std::size_t>(m.scores)]);
  if (m.scale != usual.scale) out.number("scale", m.scale);
  if (m.score_bias) out.flag("score_bias", true);
  if (m.router_bias) out.flag("router_bias", true);
  if (m.expert_bias) out.flag("expert_bias", true);
  if (m.shared_gate) out.flag("shared_gate", true);
  if (m.groups > 1) {
    out.whole("groups", m.groups).whole("groups_per_token", m.groups_per_token);
    out.text("group_score", group_score_names()[static_cast<std::size_t>(m.group_score)]);
  }
}

bool check_mixture_spec(const ModelSpec& model, Diagnostics& diagnostics) {
  const Mixture& m = *model.mixture;
  bool good = true;
  const auto fail = [&](const char* key, const char* code, std::string message, std::vector<std::string> details) {
    diagnostics.error(model.origin, std::string("model.") + key, code, std::move(message), std::move(details));
    good = false;
  };
  if (m.experts < 2 || m.experts > max_experts || m.ffn < 1 || m.ffn > max_width || m.shared_ffn > max_width) {
    fail("mixture", "model.range", "a size of the mixture is out of range",
         {fmt::format("experts {}, ffn {}, shared_ffn {}; from 2 to {} experts of width 1 to {} are allowed.",
                      m.experts, m.ffn, m.shared_ffn, max_experts, max_width)});
    return false;
  }
  if (m.per_token < 1 || m.per_token > m.experts) {
    fail("mixture.per_token", "model.mixture", "a token cannot visit that many experts",
         {fmt::format("per_token is {}; there are {} experts.", m.per_token, m.experts),
          fmt::format("Nearest valid: {}.", m.per_token < 1 ? 1 : m.experts)});
  }
  if (m.experts * m.ffn + m.shared_ffn > max_expert_width) {
    fail("mixture.ffn", "model.range", "the experts together are too wide",
         {fmt::format("{} x {} + {} is {}; at most {} is allowed.", m.experts, m.ffn, m.shared_ffn,
                      m.experts * m.ffn + m.shared_ffn, max_expert_width)});
  }
  if (m.groups < 1 || m.experts % m.groups != 0) {
    fail("mixture.groups", "model.mixture", "the number of groups does not divide the number of experts",
         {m.groups < 1 ? "groups is 0."
                       : fmt::format("experts is {}, and {} / {} leaves {}.", m.experts, m.experts, m.groups,
                                     m.experts % m.groups),
          "Leave out groups if tokens may visit any experts."});
    return false;
  }
  const bool too_few = m.per_token > std::uint64_t{m.groups_per_token} * (m.experts / m.groups);
  if (m.groups_per_token < 1 || m.groups_per_token > m.groups || (too_few && m.per_token <= m.experts)) {
    const std::uint32_t size = m.experts / m.groups;
    fail("mixture.groups_per_token", "model.mixture", "a token cannot visit its experts in that many groups",
         {fmt::format("groups_per_token is {}; per_token is {}, and there are {} groups of {} experts.",
                      m.groups_per_token, m.per_token, m.groups, size),
          fmt::format("Valid: {} to {}.", std::min((m.per_token + size - 1) / size, m.groups), m.groups)});
  }
  if (m.every < 1 || m.every > max_layers) {
    fail("mixture.every", "model.range", "every is out of range",
         {fmt::format("It is {}; from 1 to {} is allowed.", m.every, max_layers)});
    return false;
  }
  for (std::size_t i = 0; i < m.dense.size(); ++i) {
    if (m.dense[i] < model.layers && (i == 0 || m.dense[i - 1] < m.dense[i])) continue;
    fail("mixture.dense", "model.mixture", "dense must name layers of the model in ascending order",
         {m.dense[i] >= model.layers
              ? fmt::format("It has {}; the model's layers are 0 to {}.", m.dense[i], model.layers - 1)
              : fmt::format("It has {} before {}.", m.dense[i - 1], m.dense[i])});
    return false;
  }
  if (m.first_dense < model.layers && mixture_count(model) == 0) {
    fail("mixture.dense", "model.mixture", "no layer is a mixture",
         {fmt::format("From layer {} on, every layer in steps of {} is listed in dense.", m.first_dense, m.every),
          "Leave out [model.mixture], or shorten dense."});
  }
  if (m.first_dense >= model.layers) {
    fail("mixture.first_dense", "model.mixture", "no layer is a mixture",
         {fmt::format("The first {} layers are dense; the model has {}.", m.first_dense, model.layers),
          "Leave out [model.mixture], or lower first_dense."});
  }
  if (!(m.scale > 0.0 && m.scale <= max_factor)) {
    fail("mixture.scale", "model.range", "scale is out of range",
         {fmt::format("It is {}; above 0 and at most {} is allowed.", m.scale, max_factor)});
  }
  if (model.biases.ffn && !m.expert_bias && mixture_count(model) == model.layers) {
    fail("bias", "model.mixture", "biases of feed-forward layers have no place where all layers are mixtures",
         {"Set bias to false, or expert_bias in [model.mixture] to true."});
  }
  if (m.shared_gate && m.shared_ffn == 0) {
    fail("mixture.shared_gate", "model.mixture", "there are no shared experts to gate", {"Leave shared_gate out."});
  }
  if (model.architecture != Architecture::decoder) {
    fail("mixture", "model.mixture", "only decoders have experts", {"Leave out [model.mixture]."});
  }
  return good;
}

void read_routing(TomlTable t, Routing& r) {
  t.read_enum("kind", routing_names(), r.kind);
  if (r.kind == Routing::Kind::skewed) t.read("exponent", r.exponent, {0.0, max_exponent});
  if (r.kind == Routing::Kind::recorded && t.read("table", r.table)) {
    // The path is relative to the file that names it, wherever the program was started.
    const std::filesystem::path folder = std::filesystem::path(t.origin().file).parent_path();
    if (!t.origin().file.empty()) r.table = (folder / r.table).lexically_normal().string();
    Diagnostics found;
    if (std::optional<std::string> text = read_text(r.table, found)) {
      r.loads = parse_routing_table(*std::move(text), r.table, found);
    }
    t.add_from("table", found);
  }
  t.read("group", r.group, {1, max_sequence}, Need::optional);
  double capacity = 0.0;
  if (t.read("capacity", capacity, {0.0, max_factor, true}, Need::optional)) r.capacity = capacity;
  t.read("auxiliary_loss", r.auxiliary_loss, {0.0, max_factor}, Need::optional);
  t.finish();
}

void write_routing(TomlWriter& out, const Routing& r, std::string_view path) {
  out.table(path).text("kind", routing_names()[static_cast<std::size_t>(r.kind)]);
  if (r.kind == Routing::Kind::skewed) out.number("exponent", r.exponent);
  if (r.kind == Routing::Kind::recorded) out.text("table", r.table);
  if (r.group > 0) out.whole("group", r.group);
  if (r.capacity) out.number("capacity", *r.capacity);
  if (r.auxiliary_loss > 0.0) out.number("auxiliary_loss", r.auxiliary_loss);
}

bool check_routing(const Workload& w, Diagnostics& diagnostics) {
  const Routing& r = w.routing;
  bool good = true;
  const auto fail = [&](const char* key, const char* code, std::string message, std::vector<std::string> details) {
    diagnostics.error(w.origin, std::string("workload.routing.") + key, code, std::move(message), std::move(details));
    good = false;
  };
  const std::uint64_t group = routing_group(w);
  if (w.sequence_length % group != 0) {
    fail("group", "workload.routing", "the routing group does not divide the sequence",
         {fmt::format("sequence is {}, and {} / {} leaves {}.", w.sequence_length, w.sequence_length, group,
                      w.sequence_length % group)});
  }
  const auto number = [&](const char* key, double value, double most) {
    if (value >= 0.0 && value <= most) return;
    fail(key, "workload.range", fmt::format("{} is out of range", key),
         {fmt::format("It is {}; from 0 to {} is allowed.", value, most)});
  };
  number("exponent", r.exponent, max_exponent);
  number("auxiliary_loss", r.auxiliary_loss, max_factor);
  if (r.capacity && !(*r.capacity > 0.0 && *r.capacity <= max_factor)) {
    fail("capacity", "workload.range", "capacity is out of range",
         {fmt::format("It is {}; above 0 and at most {} is allowed. Leave it out to drop no tokens.", *r.capacity,
                      max_factor)});
  }
  return good;
}

std::vector<std::vector<double>> parse_routing_table(std::string text, std::string name, Diagnostics& diagnostics) {
  Origin origin;
  origin.file = std::move(name);
  origin.text = std::move(text);
  const std::string_view all = origin.text;
  std::vector<std::vector<double>> rows;
  const auto fail = [&](std::uint32_t line, std::size_t column, std::string message, std::vector<std::string> details) {
    diagnostics.error_at(origin, {line, static_cast<std::uint32_t>(column + 1)}, "workload.routing", std::move(message),
                         std::move(details));
    return std::vector<std::vector<double>>{};
  };
  std::uint32_t line = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    std::string_view text_of_line = all.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    text_of_line = text_of_line.substr(0, text_of_line.find('#'));
    std::vector<double> row;
    double sum = 0.0;
    for (std::size_t at = text_of_line.find_first_not_of(" \t\r,"); at != std::string_view::npos;) {
      const std::size_t stop = std::min(text_of_line.find_first_of(" \t\r,", at), text_of_line.size());
      double value = 0.0;
      const auto [rest, failure] = std::from_chars(text_of_line.data() + at, text_of_line.data() + stop, value);
      if (failure != std::errc{} || rest != text_of_line.data() + stop || !(value >= 0.0 && value <= 1e15)) {
        return fail(line, at, fmt::format("\"{}\" is not the load of an expert", text_of_line.substr(at, stop - at)),
                    {"Loads are numbers from 0 to 1e15."});
      }
      row.push_back(value);
      sum += value;
      at = text_of_line.find_first_not_of(" \t\r,", stop);
    }
    if (row.empty()) continue;
    if (!rows.empty() && row.size() != rows.front().size()) {
      return fail(line, 0, "the row does not have as many loads as the first row",
                  {fmt::format("It has {}, and the first row has {}.", row.size(), rows.front().size())});
    }
    if (sum == 0.0) return fail(line, 0, "no expert of the layer has a load", {"At least one must be above 0."});
    if (rows.size() == max_layers || row.size() > max_experts) {
      return fail(line, 0, "the table is too large",
                  {fmt::format("At most {} rows of {} loads are read.", max_layers, max_experts)});
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return fail(1, 0, "the table has no rows", {"Give a row of loads for each layer."});
  return rows;
}

}  // namespace orrery
