#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#endif

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/comm/thread_communicator.hpp"
#include "exec/kernels/convert.hpp"
#include "tests/support/nccl_under_test.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;
using Kind = Collective::Kind;

namespace {

/// `ranks` copies of a small model: one group has all of them.
Program copies(std::uint32_t ranks) {
  PlannedRun run = test::tiny_run(Mesh{{{Axis::data, ranks}}}, ranks);
  run.plan.overlap_gradients = false;
  return lower(run.model, run.workload, run.plan);
}

GroupId group_of_all(const Program& program) {
  for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
    if (group_ranks(program.groups[g], program.mesh, Rank{0}).size() == program.mesh.size()) return GroupId{g};
  }
  FAIL("no group has all ranks");
  return {};
}

/// One operand of every rank, and the expected result of a collective.
struct Case {
  std::string name;
  Collective c;
  DType dtype = DType::f32;
  struct Part {
    std::uint64_t count;
    View::Use use;
  };
  std::vector<Part> parts;
};

std::vector<Case> cases(std::uint32_t p) {
  const auto read = View::Use::read, write = View::Use::write, add = View::Use::accumulate;
  std::vector<Case> all;
  const auto of = [&](const char* name, Kind kind, std::vector<Case::Part> parts, Peer root = {},
                      std::uint32_t width = 0) {
    for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
      Case one;
      one.name = name;
      one.c.kind = kind;
      one.c.root = root;
      one.c.width = width;
      one.dtype = t;
      one.parts = parts;
      all.push_back(one);
    }
  };
  of("all_reduce", Kind::all_reduce, {{7 * p, add}, {3, add}});
  of("reduce_scatter", Kind::reduce_scatter, {{4 * p, read}, {4, write}, {2 * p, read}, {2, write}});
  of("reduce_scatter, added", Kind::reduce_scatter, {{4 * p, read}, {4, add}, {2 * p, read}, {2, add}});
  of("all_gather", Kind::all_gather, {{5, read}, {5 * p, write}, {1, read}, {p, write}});
  of("broadcast in place", Kind::broadcast, {{6, add}, {2, add}}, Peer{p - 1});
  of("broadcast", Kind::broadcast, {{6, read}, {6, write}}, Peer{p / 2});
  of("reduce in place", Kind::reduce, {{6, add}}, Peer{p - 1});
  of("reduce", Kind::reduce, {{6, read}, {6, write}}, Peer{0});
  of("reduce, added", Kind::reduce, {{6, read}, {6, add}, {2, read}, {2, add}}, Peer{p - 1});
  of("all_to_all", Kind::all_to_all, {{3 * p, read}, {3 * p, write}, {p, read}, {p, write}});
  of("permute", Kind::permute, {{4, read}, {4, write}}, Peer{1});
  of("permute by none", Kind::permute, {{4, read}, {4, write}}, Peer{0});
  of("barrier", Kind::barrier, {});
  if (p == 4) of("permute in rings of two", Kind::permute, {{4, read}, {4, write}}, Peer{1}, 2);
  for (Case one : std::vector<Case>{all[0], all[4]}) {
    one.name += ", largest";
    one.c.reduction = Collective::Reduction::max;
    all.push_back(one);
  }
  return all;
}

/// Small whole numbers, whose sums are exact in every type and order.
void fill(std::vector<std::byte>& bytes, DType t, std::uint32_t seed) {
  for (std::size_t i = 0; i < bytes.size() / size_of(t); ++i) {
    const int v = static_cast<int>((seed * 31 + i * 7) % 23) - 11;
    const auto store = [&](auto x) { std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x); };
    if (t == DType::f64) store(static_cast<double>(v));
    if (t == DType::f32) store(static_cast<float>(v));
    if (t == DType::bf16) store(bf16_of(static_cast<float>(v)));
    if (t == DType::f16) store(f16_of(static_cast<float>(v)));
  }
}

}  // namespace

TEST_CASE("every collective over NCCL gives what the host's rings give", "[parity][nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  const std::uint32_t p = GENERATE(2U, 3U, 4U);
  const Program program = copies(p);
  const GroupId group = group_of_all(program);
  ThreadWorld world(p, {Seconds::of(60), {}, 1});
  std::atomic<int> equal{0};
  std::vector<std::string> wrong(p);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < p; ++r) {
    threads.emplace_back([&, r] {
      try {
        HostDevice device;
        Communicator& communicator = world.communicator(Rank{r});
        NcclTransport transport(nccl.calls, device, program, world, communicator, Rank{r}, Seconds::of(60));
        transport.start();
        const auto stream = device.make_stream(true);
        const auto start = device.make_event();
        const auto end = device.make_event();
        std::vector<Rank> ranks;
        for (std::uint32_t m = 0; m < p; ++m) ranks.push_back(Rank{m});
        std::uint64_t number = 0;
        for (Case one : cases(p)) {
          one.c.group = group;
          std::vector<std::vector<std::byte>> here, there;
          std::vector<MemoryView> on_host, on_device;
          for (std::size_t i = 0; i < one.parts.size(); ++i) {
            here.emplace_back(one.parts[i].count * size_of(one.dtype));
            fill(here.back(), one.dtype, 100 * r + static_cast<std::uint32_t>(i));
          }
          there = here;
          for (std::size_t i = 0; i < one.parts.size(); ++i) {
            on_host.push_back({here[i].data(), one.dtype, one.parts[i].count, one.parts[i].use});
            on_device.push_back({there[i].data(), one.dtype, one.parts[i].count, one.parts[i].use});
          }
          CollectiveScratch scratch;
          run_collective(communicator, one.c, {ranks, r, ++number}, on_host, scratch, 0);
          transport.collective(one.c, {ranks, r, ++number}, on_device, *stream, *start);
          stream->record(*end);
          while (!device.done(*end)) {
            transport.look();
            std::this_thread::yield();
          }
          if (here == there) {
            equal.fetch_add(1);
          } else {
            wrong[r] += one.name + "; ";
          }
          transport.begin_again();
        }
      } catch (const std::exception& e) {
        wrong[r] += e.what();
        world.abort(e.what());
      } catch (const Aborted&) {
        wrong[r] += "aborted: " + world.reason();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& w : wrong) CHECK(w == "");
  CHECK(equal.load() == static_cast<int>(cases(p).size() * p));
}

TEST_CASE("groups that part the ranks alike share a communicator; exchanges have the finest that holds",
          "[parity][nccl]") {
  PlannedRun run = test::random_run(7000);
  int with_exchanges = 0;
  for (std::uint64_t seed = 7000; seed < 7040; ++seed) {
    run = test::random_run(seed);
    const Program program = lower(run.model, run.workload, run.plan);
    const NcclGroups groups = nccl_groups(program);
    CAPTURE(seed, test::describe(run));
    REQUIRE(groups.of_group.size() == program.groups.size());
    for (std::size_t a = 0; a < groups.parts.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) CHECK_FALSE(groups.parts[a] == groups.parts[b]);
    }
    for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
      for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
        const auto ranks = group_ranks(program.groups[g], program.mesh, Rank{r});
        const auto peer = peer_of(program.groups[g], program.mesh, Rank{r});
        if (!groups.of_group[g]) {
          CHECK((!peer || ranks.size() == 1));
          continue;
        }
        // ncclCommSplit orders a color's ranks by key, so each rank's place must be its number in the group.
        const RankParts& parts = groups.parts[*groups.of_group[g]];
        if (!peer || ranks.size() == 1) continue;
        CHECK(parts.key[r] == static_cast<int>(index(*peer)));
        for (const Rank other : ranks) CHECK(parts.color[index(other)] == parts.color[r]);
      }
    }
    with_exchanges += groups.exchanges.empty() ? 0 : 1;
  }
  CHECK(with_exchanges > 0);
  // A sender's side and channel tell messages apart only as far as the split goes.
  CHECK(exchange_key(ExchangeSplit::channel_and_side, 1, 3) == 3);
  CHECK(exchange_key(ExchangeSplit::channel, 1, 3) == 2);
  CHECK(exchange_key(ExchangeSplit::none, 1, 3) == 0);
}

TEST_CASE("a library that is missing, another one, or too old is refused with what would help", "[nccl]") {
  CHECK_THROWS_WITH(load_nccl("/nowhere/libnccl.so.2"),
                    Catch::Contains("cannot load NCCL, over which ranks on GPUs meet: /nowhere/libnccl.so.2: ") &&
                        Catch::Contains("--nccl FILE names it"));
  CHECK_THROWS_WITH(load_nccl("libm.so.6"),
                    "libm.so.6 has no ncclGetVersion.  What is needed is NCCL 2.18.0 or later.");
  setenv("ORRERY_NCCL_STAND_IN_VERSION", "21703", 1);
  CHECK_THROWS_WITH(load_nccl(ORRERY_NCCL_STAND_IN), Catch::Contains("is NCCL 2.17.3; 2.18.0 or later is needed."));
  unsetenv("ORRERY_NCCL_STAND_IN_VERSION");
  CHECK(load_nccl(ORRERY_NCCL_STAND_IN).version == 22809);
}

TEST_CASE("ranks with different versions of the library do not begin", "[nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  const Program program = copies(2);
  ThreadWorld world(2, {Seconds::of(20), {}, 1});
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      NcclCalls calls = nccl.calls;
      calls.version += static_cast<int>(r);
      HostDevice device;
      NcclTransport transport(calls, device, program, world, world.communicator(Rank{r}), Rank{r}, Seconds::of(20));
      try {
        transport.start();
      } catch (const Error& e) {
        said[r] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& s : said)
    CHECK(s == "rank 0 has NCCL 2.28.9 and rank 1 NCCL 2.28.10; all ranks need the same");
}

#ifdef NCCL_VERSION_CODE
TEST_CASE("what is said of NCCL's functions is what nccl.h says", "[nccl]") {
  using N = NcclCalls;
  CHECK(int{N::success} == ncclSuccess);
  CHECK(int{N::unhandled_cuda_error} == ncclUnhandledCudaError);
  CHECK(int{N::system_error} == ncclSystemError);
  CHECK(int{N::internal_error} == ncclInternalError);
  CHECK(int{N::invalid_argument} == ncclInvalidArgument);
  CHECK(int{N::invalid_usage} == ncclInvalidUsage);
  CHECK(int{N::remote_error} == ncclRemoteError);
  CHECK(int{N::in_progress} == ncclInProgress);
  CHECK(int{N::i8} == ncclInt8);
  CHECK(int{N::u8} == ncclUint8);
  CHECK(int{N::i32} == ncclInt32);
  CHECK(int{N::u32} == ncclUint32);
  CHECK(int{N::i64} == ncclInt64);
  CHECK(int{N::u64} == ncclUint64);
  CHECK(int{N::f16} == ncclFloat16);
  CHECK(int{N::f32} == ncclFloat32);
  CHECK(int{N::f64} == ncclFloat64);
  CHECK(int{N::bf16} == ncclBfloat16);
  CHECK(int{N::sum} == ncclSum);
  CHECK(int{N::product} == ncclProd);
  CHECK(int{N::max} == ncclMax);
  CHECK(int{N::min} == ncclMin);
  CHECK(N::no_color == NCCL_SPLIT_NOCOLOR);
  CHECK(N::unset == NCCL_CONFIG_UNDEF_INT);
  CHECK(sizeof(N::Id) == sizeof(ncclUniqueId));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const N::Config ours;
  CHECK(ours.magic == theirs.magic);
  CHECK(offsetof(N::Config, magic) == offsetof(ncclConfig_t, magic));
  CHECK(offsetof(N::Config, version) == offsetof(ncclConfig_t, version));
  CHECK(offsetof(N::Config, blocking) == offsetof(ncclConfig_t, blocking));
  CHECK(offsetof(N::Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
  CHECK(offsetof(N::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
  CHECK(offsetof(N::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
  CHECK(offsetof(N::Config, net_name) == offsetof(ncclConfig_t, netName));
  CHECK(offsetof(N::Config, split_share) == offsetof(ncclConfig_t, splitShare));
  CHECK(sizeof(N::Config) <= sizeof(ncclConfig_t));
  // Arguments are passed as they are declared there: pointers, sizes and ints.
  static_assert(std::is_invocable_r_v<ncclResult_t, decltype(&ncclAllReduce), const void*, void*, std::size_t,
                                      ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t>);
  static_assert(std::is_invocable_r_v<ncclResult_t, decltype(&ncclReduce), const void*, void*, std::size_t,
                                      ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t>);
  static_assert(std::is_invocable_r_v<ncclResult_t, decltype(&ncclSend), const void*, std::size_t, ncclDataType_t, int,
                                      ncclComm_t, cudaStream_t>);
  static_assert(
      std::is_invocable_r_v<ncclResult_t, decltype(&ncclCommSplit), ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*>);
  static_assert(std::is_invocable_r_v<ncclResult_t, decltype(&ncclCommInitRankConfig), ncclComm_t*, int, ncclUniqueId,
                                      int, ncclConfig_t*>);
}
#endif
