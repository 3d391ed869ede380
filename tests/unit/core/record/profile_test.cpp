// A step that PyTorch's profiler recorded: the reader, the step that is taken, and its comparison with a prediction.

#include "core/record/profile.hpp"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <map>

#include "core/program/lower/lower.hpp"
#include "core/record/compare_profile.hpp"
#include "core/record/profiled_step.hpp"
#include "tests/support/hand_program.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

/// An event as Kineto writes it.  Microseconds.
std::string event(const char* category, const std::string& name, int stream, double start, double length,
                  const std::string& args = "") {
  return fmt::format(
      "  {{\n    \"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 0, \"tid\": {},\n"
      "    \"ts\": {:.3f}, \"dur\": {:.3f},\n    \"args\": {{ \"device\": 0, \"stream\": {}{} }}\n  }}",
      category, name, stream, start, length, stream, args);
}

std::string profile(const std::vector<std::string>& events, const std::string& head = "") {
  std::string out = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [ { \"id\": 0 } ],\n" + head +
                    "  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) out += (i == 0 ? "" : ",\n") + events[i];
  return out + "\n  ],\n  \"traceName\": \"t.json\"\n}\n";
}

std::string of_rank(int rank, int ranks) {
  return fmt::format("  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}}},\n", rank,
                     ranks);
}

ProfiledRank read(const std::string& text) {
  Diagnostics d;
  auto out = read_profile(text, "t.json", d);
  INFO(render(d));
  REQUIRE(out.has_value());
  return std::move(*out);
}

std::string refusal(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(read_profile(text, "t.json", d).has_value());
  return render(d);
}

}  // namespace

TEST_CASE("Kernels' names tell what kind of work they do", "[unit][record]") {
  const std::tuple<const char*, const char*, WorkKind> table[] = {
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "", WorkKind::gemm},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::"
       "{lambda()#1}::operator()() const::{lambda(float)#1}>",
       "", WorkKind::elementwise},
      {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "", WorkKind::gemm},
      {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16>(Params)", "", WorkKind::gemm},
      {"void cublasLt::splitKreduce_kernel<32, 16, int>", "", WorkKind::gemm},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "", WorkKind::attention},
      {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "", WorkKind::attention},
      {"void softmax_warp_forward<c10::BFloat16, float>", "", WorkKind::attention},
      {"void cunn_SoftMaxForward<LogSoftMaxForwardEpilogue>", "", WorkKind::loss},
      {"void transformer_engine::normalization::ln_fwd_tuned_kernel<>", "", WorkKind::norm},
      {"void GammaBetaBackwardCUDAKernel<float>", "", WorkKind::norm},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor>", "", WorkKind::optimizer},
      {"void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", "", WorkKind::elementwise},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)", "", WorkKind::all_reduce},
      {"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", "", WorkKind::all_gather},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "_reduce_scatter_base", WorkKind::reduce_scatter},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "", WorkKind::exchange},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "all_to_allv", WorkKind::all_to_all},
      {"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096>)", "allreduce", WorkKind::all_reduce},
      {"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096>)", "", WorkKind::collective},
  };
  for (const auto& [name, collective, kind] : table) {
    CAPTURE(name, collective);
    CHECK(name_of(work_kind_of_kernel(name, collective)) == name_of(kind));
  }
}

// Two steps: 100 us to 200 us and from there to the mark's end at 290 us.  Only the first has a next one.
TEST_CASE("A profile is read: rank, kernels, streams, steps, memory", "[unit][record]") {
  const ProfiledRank r = read(
      profile({event("cpu_op", "aten::mm", 1, 90, 5), event("user_annotation", "ProfilerStep#3", 1, 80, 90),
               event("gpu_user_annotation", "ProfilerStep#3", 7, 100, 60),
               event("gpu_user_annotation", "ProfilerStep#3", 20, 130, 50),
               event("gpu_user_annotation", "ProfilerStep#4", 7, 200, 90), event("kernel", "sgemm_128", 7, 100, 20),
               event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 130, 50,
                     ", \"Collective name\": \"allreduce\", \"Group size\": 4"),
               event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 190.5, 2),
               event("gpu_memset", "Memset (Device)", 7, 193, 1), event("kernel", "sgemm_128", 7, 200, 30),
               R"({"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":1,
           "args":{"Device Type":1,"Device Id":0,"Total Allocated":4096}})"},
              of_rank(2, 8)));
  CHECK(r.rank == 2U);
  CHECK(r.ranks == 8U);
  CHECK(r.device_marks);
  CHECK_FALSE(r.common_clock);
  CHECK(r.peak_bytes == 4096U);
  CHECK(r.streams == std::vector<std::string>{"stream 7", "stream 20"});
  CHECK(r.steps == std::vector<ProfiledMark>{{3, 100'000, 180'000}, {4, 200'000, 290'000}});
  REQUIRE(r.kernels.size() == 4);
  CHECK(r.kernels[1] == ProfiledKernel{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", WorkKind::all_reduce, 4});
  CHECK(r.kernels[2].kind == WorkKind::copy);
  CHECK(r.runs == std::vector<ProfiledRun>{{100'000, 120'000, 0, 0},
                                           {130'000, 180'000, 1, 1},
                                           {190'500, 192'500, 2, 0},
                                           {193'000, 194'000, 3, 0},
                                           {200'000, 230'000, 0, 0}});
  Diagnostics d;
  const auto step = median_step({r}, d);
  REQUIRE(step.has_value());
  CHECK(step->origin == "PyTorch's profiler, step 3");
  CHECK(step->duration == 100'000'000);  // from 100 us to the next mark
  REQUIRE(step->ranks.size() == 1);
  CHECK(step->ranks[0].runs.size() == 4);
  // The parts are gemm 20, all_reduce 50, copy 2, memset 1; the rest is idle.
  const ProfiledTimes t = account(*step, step->ranks[0]);
  CHECK(t.busy == 21'000'000);
  CHECK(t.collectives == 52'000'000);
  CHECK(t.message == 0);
  CHECK(t.bubble == 27'000'000);
}

TEST_CASE("What is wrong in a profile is said where it stands", "[unit][record][error]") {
  CHECK(refusal("{\"schemaVersion\": 1,\n \"traceEvents\": [ {\"ph\": }") ==
        "t.json:2:26: error: this is not JSON [profile.json]\n"
        "    2 |  \"traceEvents\": [ {\"ph\": }\n"
        "      |                          ^\n");
  CHECK(refusal("{\"schemaVersion\": 1, \"traceEvents\": [\n {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", "
                "\"tid\": 7,"
                " \"ts\": 1, \"dur\": 1}]}") ==
        "t.json:2:71: error: the event that ends here lacks pid, the number of the device, or it is out of range "
        "[profile.json]\n"
        "    2 |  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"tid\": 7, \"ts\": 1, \"dur\": 1}]}\n"
        "      |                                                                       ^\n");
  CHECK(refusal(profile({event("cpu_op", "aten::mm", 1, 90, 5)})) ==
        "t.json: error: the profile holds no kernel of a device [profile.json]\n"
        "  Profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], and steps marked by "
        "profiler.step().\n");
  CHECK(refusal(R"({"schemaVersion": 2, "traceEvents": []})") ==
        "t.json: error: schemaVersion is 2, but this program reads version 1 [profile.json]\n");
  CHECK(refusal(profile({event("kernel", "k", 7, 1, 1)}, of_rank(8, 8))) ==
        "t.json: error: distributedInfo.rank is 8 of 8 ranks [profile.json]\n  Ranks count from 0.\n");
  Diagnostics d;
  const ProfiledRank one = read(profile({event("kernel", "k", 7, 1, 1)}, of_rank(1, 8)));
  CHECK_FALSE(median_step({one, one}, d).has_value());
  CHECK(render(d) == "t.json: error: this is a second profile of rank 1 [profile.ranks]\n  The first is t.json.\n");
}

// Steps take 10, 30, 20 and 40 us on rank 0, and 1 us more on rank 1. The second shortest of four is step 2, 21 us.
TEST_CASE("The median step is that of the slowest rank, on one axis of time where the clock is one", "[unit][record]") {
  const auto rank = [](int number, double late) {
    std::vector<std::string> events;
    double start = 1.7e15;  // microseconds since the epoch
    int step = 0;
    for (const double length : {10.0, 30.0, 20.0, 40.0, 0.0}) {
      events.push_back(event("gpu_user_annotation", fmt::format("ProfilerStep#{}", step++), 7, start + late, 5));
      events.push_back(event("kernel", "sgemm", 7, start + late, 5));
      start += length + number;
    }
    return read(profile(events, of_rank(number, 2)));
  };
  Diagnostics d;
  const auto near = median_step({rank(0, 0), rank(1, 2)}, d);
  REQUIRE(near.has_value());
  CHECK(near->origin == "PyTorch's profiler, step 2 (the median of 4)");
  CHECK(near->notes.empty());
  CHECK(near->duration == 20'000'000);                    // the window of rank 0, which starts first
  CHECK(near->ranks[1].runs[0].span.start == 4'000'000);  // 2 late, and two steps of 1 longer
  const auto far = median_step({rank(0, 0), rank(1, 1e6)}, d);
  REQUIRE(far.has_value());
  CHECK(far->notes == std::vector<std::string>{"the clocks of the ranks' files differ: each rank begins at 0"});
  CHECK(far->duration == 21'000'000);
  CHECK(far->ranks[1].runs[0].span.start == 0);
}

// An independent writer: the spans of a trace as the profiler would have recorded them, with a stream for each lane and
// names that libraries use. The times that come back are the trace's own, kind by kind.
TEST_CASE("A step written in the profiler's form is compared with itself without an error",
          "[unit][record][property]") {
  static const std::map<WorkKind, const char*> names{{WorkKind::gemm, "sm90_xmma_gemm_bf16"},
                                                     {WorkKind::attention, "flash_bwd_kernel"},
                                                     {WorkKind::norm, "rmsnorm_fwd"},
                                                     {WorkKind::embedding, "embedding_backward_kernel"},
                                                     {WorkKind::loss, "cross_entropy_kernel"},
                                                     {WorkKind::optimizer, "adam_kernel"},
                                                     {WorkKind::elementwise, "vectorized_elementwise_kernel"},
                                                     {WorkKind::all_reduce, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"},
                                                     {WorkKind::reduce, "ncclDevKernel_Reduce_Sum_bf16_RING_LL"},
                                                     {WorkKind::broadcast, "ncclDevKernel_Broadcast_RING_LL"},
                                                     {WorkKind::all_gather, "ncclDevKernel_AllGather_RING_LL"},
                                                     {WorkKind::reduce_scatter, "ncclDevKernel_ReduceScatter_Sum_bf16"},
                                                     {WorkKind::all_to_all, "ncclDevKernel_SendRecv"},
                                                     {WorkKind::barrier, "ncclDevKernel_Generic"},
                                                     {WorkKind::exchange, "ncclDevKernel_SendRecv"},
                                                     {WorkKind::copy, "Memcpy DtoH (Device -> Pinned)"}};
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    test::RandomRunLimits limits;
    limits.max_ranks = 8;
    const PlannedRun run = test::random_run(seed, limits);
    const Program program = lower(run.model, run.workload, run.plan);
    Trace trace{"simulate", true, {}};
    std::vector<ProfiledRank> files;
    for (std::uint32_t rank = 0; rank < program.mesh.size(); ++rank) {
      RankTrace t{Rank{rank}, {}, 0, 0};
      std::vector<std::string> events;
      std::int64_t now = 0;  // one op after the other, a microsecond each
      for_each_op(program, program.classes[class_of(program, t.rank)].step, [&](const OpRun& o) {
        t.spans.push_back({now * 1'000'000, (now + (is_timed(*o.op) ? 1 : 0)) * 1'000'000});
        if (!is_timed(*o.op)) return;
        const auto* c = std::get_if<Collective>(&o.op->action);
        const std::uint32_t size = c != nullptr ? group_size(program[c->group], program.mesh) : 0;
        const WorkKind kind = work_kind_of(*o.block, *o.op);
        if (size != 1) {
          events.push_back(event(kind == WorkKind::copy ? "gpu_memcpy" : "kernel", names.at(kind),
                                 static_cast<int>(lane_number(o.op->lane)), static_cast<double>(now), 1,
                                 size == 0 ? ""
                                           : fmt::format(", \"Group size\": {}, \"Collective name\": \"{}\"", size,
                                                         kind == WorkKind::all_to_all ? "all_to_allv"
                                                         : kind == WorkKind::barrier  ? "barrier"
                                                                                      : "")));
        }
        ++now;
      });
      trace.ranks.push_back(t);
      files.push_back(read(profile(events, of_rank(static_cast<int>(rank), static_cast<int>(program.mesh.size())))));
    }
    Diagnostics d;
    const auto step = median_step(files, d);
    REQUIRE(step.has_value());
    const Comparison c = compare(trace, program, *step);
    CHECK(c.same_plan);
    REQUIRE_FALSE(c.operations.empty());
    for (const ComparedTime& o : c.operations) {
      CAPTURE(o.name);
      CHECK(o.predicted.base() == Approx(o.measured.base()).margin(1e-15));
      CHECK(o.predicted_count == o.measured_count);
    }
    for (const StepOfRank& r : step->ranks) {
      const ProfiledTimes t = account(*step, r);
      CHECK(t.busy + t.collectives + t.message + t.bubble == step->duration);
      std::int64_t filled = 0;
      for (const StepRun& s : computing(*step, r)) filled += s.span.end - s.span.start;
      CHECK(filled == t.busy);
    }
  }
}

// The profile's all_reduce is over 2 ranks and takes 30 us where 10 are predicted; a copy is not in the plan at all.
TEST_CASE("A profile beside a prediction: kinds of work, and whose plan it is", "[unit][record]") {
  Program program = test::hand_program(1, 2);
  test::HandBlock b(program, "b");
  const auto first = b.compute({}, KernelKind::gemm);
  const auto reduce = b.collective(GroupId{0}, Axis::tensor, {test::HandBlock::on(first)});
  b.compute({test::HandBlock::on(reduce)}, KernelKind::gemm);
  program.classes[0].step = {{b.finish(), 0, 0, 1, 1}};
  constexpr std::int64_t us = 1'000'000;
  const Trace predicted{"simulate", true, {{Rank{0}, {{0, 20 * us}, {20 * us, 30 * us}, {30 * us, 50 * us}}, 100, 8}}};
  const auto measured = [&](int ranks) {
    Diagnostics d;
    return *median_step(
        {read(profile({event("kernel", "gemm", 7, 0, 20),
                       event("kernel", "ncclDevKernel_AllReduce_Sum", 20, 20, 30, ", \"Group size\": 2"),
                       event("kernel", "gemm", 7, 50, 20), event("gpu_memcpy", "Memcpy HtoD", 21, 50, 5)},
                      of_rank(1, ranks)))},
        d);
  };
  const Comparison c = compare(predicted, program, measured(2));  // rank 0 stands for its class
  CHECK(c.same_plan);
  CHECK(*c.step_error == Approx(-20.0 / 70));
  CHECK_FALSE(c.within_tolerance);
  REQUIRE(c.operations.size() == 3);
  CHECK(c.operations[0].name == "gemm");
  CHECK(c.operations[0].error == 0.0);
  CHECK(c.operations[1].name == "all_reduce over 2 ranks");
  CHECK(*c.operations[1].error == Approx(-2.0 / 3));
  CHECK(c.operations[2].name == "copy");
  CHECK(c.parts[1].measured.base() == Approx(30e-6));
  CHECK(render(c).find("peak memory not judged") != std::string::npos);
  const Comparison other = compare(predicted, program, measured(4));
  CHECK_FALSE(other.same_plan);
  CHECK(other.mismatches ==
        std::vector<std::string>{"the profile was recorded in a run of 4 ranks, but the plan has 2"});
}

}  // namespace orrery
