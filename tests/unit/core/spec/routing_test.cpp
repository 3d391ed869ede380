#include "core/spec/routing.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>

#include "core/spec/library.hpp"
#include "core/spec/mixture_file.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

Workload workload(Routing::Kind kind, std::uint64_t group) {
  Workload w;
  w.global_batch = 3;
  w.sequence_length = 24;
  w.routing.kind = kind;
  w.routing.exponent = 1.0;
  w.routing.group = group;
  w.routing.loads = {{0, 1, 5, 0, 2, 2, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1}};
  return w;
}

}  // namespace

// Tokens of a group choose k different experts each. Every expert is chosen as often as its count says, alike in every
// group. Where experts have groups, a token chooses as many of each of its own groups.
TEST_CASE("choices of a routing group have the counts of its law", "[unit][routing]") {
  const auto kind = GENERATE(Routing::Kind::balanced, Routing::Kind::skewed, Routing::Kind::recorded);
  const std::uint64_t group = GENERATE(1U, 3U, 8U, 24U);
  const std::uint32_t per_token = GENERATE(1U, 2U, 3U);
  const double capacity = GENERATE(0.0, 0.5, 1.0, 2.0);
  const std::uint32_t layer = GENERATE(0U, 1U);
  const ExpertGroups groups = GENERATE(ExpertGroups{}, ExpertGroups{2, 1}, ExpertGroups{4, 2}, ExpertGroups{8, 3});
  if (per_token % groups.per_token != 0 || per_token > groups.per_token * (8 / groups.count)) return;
  Workload w = workload(kind, group);
  if (capacity > 0.0) w.routing.capacity = capacity;
  const LayerRouting routing(w, 8, per_token, layer, groups);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
    for (std::uint64_t first = 0; first < 24; first += group) {
      std::vector<std::uint64_t> chosen(8), kept(8);
      for (std::uint64_t p = first; p < first + group; ++p) {
        std::set<std::uint32_t> of_token, groups_of_token;
        for (std::uint32_t j = 0; j < per_token; ++j) {
          const LayerRouting::Choice c = routing.choice(sequence, p, j);
          of_token.insert(c.expert);
          groups_of_token.insert(c.expert / (8 / groups.count));
          ++chosen.at(c.expert);
          kept.at(c.expert) += c.kept ? 1 : 0;
        }
        CHECK(of_token.size() == per_token);
        CHECK(groups_of_token.size() == groups.per_token);
      }
      for (std::uint32_t e = 0; e < 8; ++e) {
        CHECK(chosen[e] == routing.chosen(e));
        CHECK(kept[e] == routing.kept(e));
      }
    }
  }
  std::uint64_t all = 0, most = 0, sum = 0;
  for (std::uint32_t e = 0; e < 8; ++e) {
    all += routing.chosen(e);
    sum += routing.kept(e);
    most = std::max(most, routing.kept(e));
  }
  CHECK(all == group * per_token);
  CHECK(routing.kept() == sum);
  CHECK(routing.most_kept(8) == most);
  CHECK(routing.most_kept(1) == sum);
}

// 24 x 2 choices: 6 for each of 8.  i^-1 over 8 sums to 2.718: the first gets
// 48 / 2.718 = 17.66, the second 8.83.
TEST_CASE("balanced and skewed shares are those of the law", "[unit][routing]") {
  const LayerRouting balanced(workload(Routing::Kind::balanced, 0), 8, 2, 0);
  for (std::uint32_t e = 0; e < 8; ++e) CHECK(balanced.chosen(e) == 6);
  const LayerRouting skewed(workload(Routing::Kind::skewed, 0), 8, 2, 0);
  std::multiset<std::uint64_t> counts;
  for (std::uint32_t e = 0; e < 8; ++e) counts.insert(skewed.chosen(e));
  CHECK(*counts.rbegin() == 18);
  CHECK(*std::next(counts.rbegin()) == 9);
  // A token visits an expert at most once, so at most 24 of 48 go there, and the rest goes to others.
  Workload hot = workload(Routing::Kind::recorded, 0);
  hot.routing.loads = {{1e6, 1, 1, 1, 1, 1, 1, 1}};
  const LayerRouting recorded(hot, 8, 2, 0);
  CHECK(recorded.chosen(0) == 24);
}

// ceil(capacity x 48 / 8): 3 of 6 choices at one half.
TEST_CASE("capacity drops what is over its share", "[unit][routing]") {
  Workload w = workload(Routing::Kind::balanced, 0);
  w.routing.capacity = 0.5;
  CHECK(LayerRouting(w, 8, 2, 0).kept() == 24);
  w.routing.capacity = 1.0;
  CHECK(LayerRouting(w, 8, 2, 0).kept() == 48);
}

// This holds for any choices: 3 positions choose 2 of 4 experts each, 6^3 ways. Two of the experts keep at most what
// the formula says, and some way reaches it.
TEST_CASE("no scores make some experts keep more than the bound", "[unit][routing]") {
  const std::optional<double> capacity = GENERATE(std::optional<double>(), 0.5, 1.0, 1.25);
  const std::uint32_t some = GENERATE(1U, 2U, 3U, 4U);
  Workload w = workload(Routing::Kind::learned, 3);
  w.routing.capacity = capacity;
  CAPTURE(capacity.value_or(0.0), some);
  // ceil(capacity x 3 x 2 / 4), at most 3.
  const std::uint64_t each = capacity ? (*capacity == 0.5 ? 1 : 2) : 3;
  CHECK(expert_capacity(w, 4, 2) == each);
  const std::pair<std::uint32_t, std::uint32_t> choices[] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  std::uint64_t most = 0;
  for (int way = 0; way < 216; ++way) {
    std::uint64_t of[4] = {};
    for (const int choice : {way % 6, way / 6 % 6, way / 36}) {
      ++of[choices[choice].first];
      ++of[choices[choice].second];
    }
    std::uint64_t sum = 0;
    for (std::uint32_t e = 0; e < some; ++e) sum += std::min(of[e], each);
    most = std::max(most, sum);
  }
  CHECK(most == most_kept_of_any(w, 4, 2, some));
}

// E f_e is 1 for every expert when routing is balanced, so every token counts as weight / tokens.
TEST_CASE("the auxiliary loss of balanced routing is its weight", "[unit][routing]") {
  Workload w = workload(Routing::Kind::balanced, 0);
  w.routing.auxiliary_loss = 0.5;
  const LayerRouting routing(w, 8, 2, 0);
  for (std::uint32_t e = 0; e < 8; ++e) CHECK(auxiliary_weight(w, 8, 2, routing.chosen(e)) * 72 == Approx(0.5));
}

TEST_CASE("Mixtral 8x7B has the published parameters, in all and active", "[unit][library]") {
  // Jiang et al., 2024: 47 and 13 billion; the checkpoint has 46,702,792,704.
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics d;
  const auto model = library.model("mixtral-8x7b", ".", d);
  CHECK(render(d) == "");
  REQUIRE(model);
  CHECK(parameter_count(*model) == 46'702'792'704);
  CHECK(active_parameter_count(*model) == 12'879'925'248);
  Diagnostics again;
  const auto read = parse_model(write_model(*model), "written", again);
  REQUIRE(read);
  ModelSpec plain = *model;
  plain.origin = read->origin;
  CHECK(*read == plain);
}

TEST_CASE("a routing table has a row of loads for each layer", "[unit][routing]") {
  Diagnostics d;
  const auto rows = parse_routing_table("# loads\n1 2.5, 3\n\n0 0 1e3  # hot\n", "t.txt", d);
  CHECK(render(d) == "");
  CHECK(rows == std::vector<std::vector<double>>{{1, 2.5, 3}, {0, 0, 1000}});
}

TEST_CASE("mistakes in a routing table are shown where they stand", "[unit][routing]") {
  const auto complaint = [](const char* text) {
    Diagnostics d;
    CHECK(parse_routing_table(text, "t.txt", d).empty());
    return render(d);
  };
  CHECK(complaint("1 2\n3 four\n") ==
        "t.txt:2:3: error: \"four\" is not the load of an expert [workload.routing]\n"
        "    2 | 3 four\n"
        "      |   ^\n"
        "  Loads are numbers from 0 to 1e15.\n");
  CHECK(complaint("1 2\n1 2 3\n") ==
        "t.txt:2:1: error: the row does not have as many loads as the first row [workload.routing]\n"
        "    2 | 1 2 3\n"
        "      | ^\n"
        "  It has 3, and the first row has 2.\n");
  CHECK(complaint("0 0\n") ==
        "t.txt:1:1: error: no expert of the layer has a load [workload.routing]\n"
        "    1 | 0 0\n"
        "      | ^\n"
        "  At least one must be above 0.\n");
  CHECK(complaint("# nothing\n") ==
        "t.txt:1:1: error: the table has no rows [workload.routing]\n"
        "    1 | # nothing\n"
        "      | ^\n"
        "  Give a row of loads for each layer.\n");
}

TEST_CASE("the routing of a workload reads back as written", "[unit][routing]") {
  const auto kind = GENERATE(Routing::Kind::balanced, Routing::Kind::skewed, Routing::Kind::learned);
  Workload w;
  w.global_batch = 4;
  w.sequence_length = 24;
  w.routing.kind = kind;
  w.routing.exponent = kind == Routing::Kind::skewed ? 0.75 : 0.0;
  w.routing.group = 8;
  w.routing.capacity = 1.25;
  w.routing.auxiliary_loss = 0.01;
  Diagnostics d;
  const auto read = parse_workload(write_workload(w), "written", d);
  CHECK(render(d) == "");
  REQUIRE(read);
  CHECK(read->routing == w.routing);
}

}  // namespace orrery

namespace orrery {
namespace {

std::string complaints_of(const std::function<void(ModelSpec&)>& change) {
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics d;
  ModelSpec m = *library.model("mixtral-8x7b", ".", d);
  m.origin = {};
  change(m);
  CHECK(!check_mixture_spec(m, d));
  return render(d);
}

}  // namespace

// Layers 1, 4 and 7 of 8 but 4; each other one is dense.
TEST_CASE("Mixtures stand where first_dense, every and dense say", "[unit][spec]") {
  const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");
  Diagnostics d;
  ModelSpec m = *library.model("mixtral-8x7b", ".", d);
  m.layers = 8;
  const std::uint64_t all = parameter_count(m);
  m.mixture->first_dense = 1;
  m.mixture->every = 3;
  m.mixture->dense = {4};
  std::string found;
  for (std::uint64_t l = 0; l < 8; ++l) found += is_mixture(m, l) ? 'm' : '.';
  CHECK(found == ".m.....m");
  CHECK(mixture_count(m) == 2);
  CHECK(mixes_kinds(m));
  // A dense layer has one part of width ffn in place of 8 and the router.
  CHECK(all - parameter_count(m) == 6 * (7 * 3 * 4096ULL * 14336 + 8 * 4096));
  const auto read = parse_model(write_model(m), "written", d);
  CHECK(render(d) == "");
  REQUIRE(read);
  CHECK(read->mixture == m.mixture);
}

TEST_CASE("model.mixture: mixtures that no layer can be", "[error]") {
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->per_token = 9; }) ==
        "error: a token cannot visit that many experts [model.mixture]\n"
        "  per_token is 9; there are 8 experts.\n"
        "  Nearest valid: 8.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->first_dense = 32; }) ==
        "error: no layer is a mixture [model.mixture]\n"
        "  The first 32 layers are dense; the model has 32.\n"
        "  Leave out [model.mixture], or lower first_dense.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->groups = 3; }) ==
        "error: the number of groups does not divide the number of experts [model.mixture]\n"
        "  experts is 8, and 8 / 3 leaves 2.\n"
        "  Leave out groups if tokens may visit any experts.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->groups = 8; }) ==
        "error: a token cannot visit its experts in that many groups [model.mixture]\n"
        "  groups_per_token is 1; per_token is 2, and there are 8 groups of 1 experts.\n"
        "  Valid: 2 to 8.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->every = 0; }) ==
        "error: every is out of range [model.range]\n"
        "  It is 0; from 1 to 10000 is allowed.\n");
  CHECK(complaints_of([](ModelSpec& m) {
          m.mixture->dense = {3, 32};
        }) ==
        "error: dense must name layers of the model in ascending order [model.mixture]\n"
        "  It has 32; the model's layers are 0 to 31.\n");
  CHECK(complaints_of([](ModelSpec& m) {
          m.mixture->dense = {3, 3};
        }) ==
        "error: dense must name layers of the model in ascending order [model.mixture]\n"
        "  It has 3 before 3.\n");
  CHECK(complaints_of([](ModelSpec& m) {
          m.mixture->first_dense = 7;
          m.mixture->every = 16;
          m.mixture->dense = {7, 23};
        }) ==
        "error: no layer is a mixture [model.mixture]\n"
        "  From layer 7 on, every layer in steps of 16 is listed in dense.\n"
        "  Leave out [model.mixture], or shorten dense.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.biases = Biases::of_layers(true); }) ==
        "error: biases of feed-forward layers have no place where all layers are mixtures [model.mixture]\n"
        "  Set bias to false, or expert_bias in [model.mixture] to true.\n");
  CHECK(complaints_of([](ModelSpec& m) { m.architecture = Architecture::bert; }) ==
        "error: only decoders have experts [model.mixture]\n"
        "  Leave out [model.mixture].\n");
  CHECK(complaints_of([](ModelSpec& m) { m.mixture->experts = 1; }) ==
        "error: a size of the mixture is out of range [model.range]\n"
        "  experts 1, ffn 14336, shared_ffn 0; from 2 to 4096 experts of width 1 to 1048576 are allowed.\n");
}

}  // namespace orrery
