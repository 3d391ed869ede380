#include <catch2/catch.hpp>

#include <map>

#include "exec/comm/job_place.hpp"

using namespace orrery;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<JobPlace> found(const Variables& set, Diagnostics& d, const JobFlags& flags = {}) {
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto at = set.find(name);
    if (at == set.end()) return std::nullopt;
    return at->second;
  };
  return find_job(flags, environment, d);
}

JobPlace place(const Variables& set, const JobFlags& flags = {}) {
  Diagnostics d;
  const auto at = found(set, d, flags);
  INFO(render(d));
  REQUIRE(at.has_value());
  return *at;
}

std::string mistake(const Variables& set, const JobFlags& flags = {}) {
  Diagnostics d;
  CHECK_FALSE(found(set, d, flags).has_value());
  return render(d);
}

const Variables torchrun{
    {"RANK", "5"},          {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},         {"LOCAL_WORLD_SIZE", "4"},
    {"MASTER_ADDR", "n01"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "x"}};
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "12345"}};
const Variables slurm{{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},  {"SLURM_LOCALID", "1"},
                      {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "n[003-004]"}};

Variables both(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("every launcher's variables say which rank a process is and where the job meets", "[job]") {
  const JobPlace t = place(torchrun);
  CHECK((t.rank == 5 && t.ranks == 8 && t.local_rank == 1U));
  CHECK(t.source == "torchrun (RANK, WORLD_SIZE)");
  CHECK(t.meeting == "n01:29501");  // torchrun itself listens at 29500
  CHECK(t.job == "x.0");
  const JobPlace o = place(open_mpi);
  CHECK((o.rank == 2 && o.ranks == 4 && o.local_rank == 2U));
  CHECK(o.meeting.substr(0, 10) == "127.0.0.1:");  // all on this host
  const JobPlace m = place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}});
  CHECK((m.rank == 1 && m.ranks == 2 && m.local_rank == 1U && m.meeting.empty()));
  const JobPlace s = place(slurm);
  CHECK((s.rank == 3 && s.ranks == 4 && s.local_rank == 1U && s.job == "77.0"));
  CHECK(s.meeting.substr(0, 5) == "n003:");
  Diagnostics d;
  CHECK_FALSE(found({}, d).has_value());
  CHECK(d.empty());
}

TEST_CASE("processes of one host meet on its loopback interface, where no stranger comes", "[job]") {
  Variables one = torchrun;
  one["LOCAL_WORLD_SIZE"] = "8";
  CHECK(place(one).meeting == "127.0.0.1:29501");
  Variables node = slurm;
  node["SLURM_JOB_NUM_NODES"] = "1";
  CHECK(place(node).meeting.starts_with("127.0.0.1:"));
  node["SLURM_STEP_NUM_NODES"] = "2";  // of the step, where it is said
  CHECK(place(node).meeting.starts_with("n003:"));
}

TEST_CASE("processes of one job meet at one port, those of another at another", "[job]") {
  Variables other = slurm;
  other["SLURM_PROCID"] = "0";
  CHECK(place(other).meeting == place(slurm).meeting);
  other["SLURM_JOB_ID"] = "78";
  CHECK(place(other).meeting != place(slurm).meeting);
}

TEST_CASE("flags stand before the environment; each of them is complete", "[job]") {
  const JobPlace f = place({}, {3, 4, 1, "here:99"});
  CHECK((f.rank == 3 && f.ranks == 4 && f.local_rank == 1U && f.meeting == "here:99"));
  CHECK(place(torchrun, {std::nullopt, std::nullopt, std::nullopt, "/scratch/meet"}).meeting == "/scratch/meet");
  CHECK(mistake({}, {3, std::nullopt, std::nullopt, std::nullopt}) ==
        "error: --rank needs --world-size, the number of ranks [cli.job]\n");
  CHECK(mistake({}, {std::nullopt, 4, std::nullopt, std::nullopt}) ==
        "error: --world-size needs --rank, which of them this is [cli.job]\n");
  CHECK(mistake({}, {4, 4, std::nullopt, std::nullopt}) ==
        "error: --rank is 4, and --world-size is 4: ranks count from 0 [cli.job]\n");
}

TEST_CASE("launchers within launchers agree, and what does not is refused", "[job]") {
  // torchrun runs 4 processes in each of srun's two tasks; this one is in the second.
  Variables outer{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}};
  CHECK(place(both(torchrun, outer)).ranks == 8);
  outer["SLURM_PROCID"] = "0";
  CHECK(mistake(both(torchrun, outer)) ==
        "error: torchrun (RANK, WORLD_SIZE) say rank 5 of 8, but Slurm (SLURM_PROCID, SLURM_NTASKS) say rank 0 of 2 "
        "[cli.job]\n  Unset what is left over from elsewhere, or start the job with one launcher.\n");
  // mpirun starts its daemons by srun, so their numbers are not those of ranks.
  CHECK(place(both(open_mpi, outer)).ranks == 4);
  // srun with PMI gives the same twice.
  CHECK(place(both(slurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}})).source == "MPICH (PMI) (PMI_RANK, PMI_SIZE)");
  CHECK(mistake(both(open_mpi, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})).find("rank 2 of 4, but MPICH") !=
        std::string::npos);
  CHECK(
      mistake(open_mpi, {0, 2, std::nullopt, std::nullopt}).find("the flags --rank and --world-size say rank 0 of 2") !=
      std::string::npos);
  // A batch script is not a task.
  Diagnostics d;
  CHECK_FALSE(found({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}, d).has_value());
  CHECK(d.empty());
}

TEST_CASE("a step of a Slurm job has the step's number of tasks", "[job]") {
  Variables step = slurm;
  step["SLURM_NTASKS"] = "16";  // of the job
  step["SLURM_STEP_NUM_TASKS"] = "4";
  const JobPlace s = place(step);
  CHECK((s.rank == 3 && s.ranks == 4));
  CHECK(s.source == "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)");
}

TEST_CASE("where a job meets, without a job, is not passed over", "[job]") {
  const std::string hint = "  Give --rank and --world-size, or start the job by torchrun, mpirun or srun.\n";
  CHECK(mistake({}, {std::nullopt, std::nullopt, std::nullopt, "here:99"}) ==
        "error: --rendezvous is for a process of a job, but nothing says which one this is [cli.job]\n" + hint);
  CHECK(mistake({}, {std::nullopt, std::nullopt, 1, std::nullopt}) ==
        "error: --local-rank is for a process of a job, but nothing says which one this is [cli.job]\n" + hint);
  CHECK(place(slurm, {std::nullopt, std::nullopt, 2, "here:99"}).local_rank == 2U);
}

TEST_CASE("what is incomplete or no number is said", "[job]") {
  CHECK(mistake({{"RANK", "1"}}) ==
        "error: RANK is set and WORLD_SIZE is not [cli.job]\n"
        "  torchrun sets both. Unset the one, or give --rank and --world-size.\n");
  CHECK(mistake({{"RANK", "one"}, {"WORLD_SIZE", "2"}}) ==
        "error: the environment variable RANK is not a number: \"one\" [cli.job]\n");
  CHECK(mistake({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) ==
        "error: RANK is 2, and WORLD_SIZE is 2: ranks count from 0 [cli.job]\n");
}

TEST_CASE("the first host of Slurm's lists", "[job]") {
  CHECK(first_host("n1") == "n1");
  CHECK(first_host("n1,n2") == "n1");
  CHECK(first_host("n[003-007,9],m1") == "n003");
  CHECK(first_host("n[12]") == "n12");
  CHECK(first_host("a[1,3]-ib,b2") == "a1-ib");
  CHECK(first_host("m1,n[003-007]") == "m1");
  CHECK(first_host("rack[1-2]n[3,5]") == "rack1n3");
  CHECK(first_host("r[07]c[2-4]-ib,r[08]c[1]-ib") == "r07c2-ib");
  CHECK(first_host("n[1-2") == "n[1-2");
}
