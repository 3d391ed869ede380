// The module orrery_mpi, and the only source that includes MPI.

#include <mpi.h>

#include <array>
#include <string>
#include <vector>

#include "exec/comm/mpi_calls.hpp"

namespace {

using orrery::MpiCalls;

/// What MPI itself keeps of a process; there is one of it in any case.
struct Session {
  std::array<MPI_Comm, MpiCalls::planes> planes{};
  MPI_Comm whole = MPI_COMM_NULL;
  std::string text;
};

Session& session() {
  static Session s;
  return s;
}

struct Batch {
  std::vector<MPI_Request> requests;
  std::vector<MPI_Datatype> types;      ///< of the requests
  std::vector<std::uint64_t> expected;  ///< bytes of each receive; of a send its own
  std::vector<bool> receives;
  std::vector<MPI_Status> statuses;
};

int start(int* rank, int* ranks, bool* threads, std::int64_t* largest_tag) {
  int provided = MPI_THREAD_SINGLE;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided); code != MPI_SUCCESS) {
    return code;
  }
  *threads = provided == MPI_THREAD_MULTIPLE;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Session& s = session();
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &s.whole); code != MPI_SUCCESS) return code;
  for (MPI_Comm& plane : s.planes) {
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &plane); code != MPI_SUCCESS) return code;
    MPI_Comm_set_errhandler(plane, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  int* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
  *largest_tag = known != 0 ? *most : 32767;  // what the standard guarantees
  return MPI_SUCCESS;
}

void finish() {
  Session& s = session();
  for (MPI_Comm& plane : s.planes) MPI_Comm_free(&plane);
  MPI_Comm_free(&s.whole);
  MPI_Finalize();
}

void abort_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

const char* library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string& kept = session().text;
  kept.assign(text.data());
  if (const std::size_t end = kept.find_first_of(",\n"); end != std::string::npos) kept.resize(end);
  return kept.c_str();
}

const char* error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  session().text.assign(text.data());
  return session().text.c_str();
}

int all_gather(const void* mine, void* all, std::size_t bytes) {
  return MPI_Allgather(mine, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE,
                       session().whole);
}

void* make_batch() { return new Batch; }
void drop_batch(void* batch) { delete static_cast<Batch*>(batch); }

/// One type for all pieces, at their addresses: MPI copies nothing together first where it need not.
int type_of(const MpiCalls::Bytes* pieces, std::size_t count, MPI_Datatype* type, std::uint64_t* bytes) {
  constexpr std::uint64_t longest = std::uint64_t{1} << 30;  // lengths are ints
  std::vector<int> lengths;
  std::vector<MPI_Aint> places;
  *bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    *bytes += pieces[i].count;
    for (std::uint64_t at = 0; at < pieces[i].count; at += longest) {
      const std::uint64_t n = pieces[i].count - at < longest ? pieces[i].count - at : longest;
      MPI_Aint place = 0;
      MPI_Get_address(pieces[i].data + at, &place);
      lengths.push_back(static_cast<int>(n));
      places.push_back(place);
    }
  }
  const int code =
      MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_BYTE, type);
  return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

int post(Batch& batch, bool send, MpiCalls::Plane plane, int peer, int tag, const MpiCalls::Bytes* pieces,
         std::size_t count) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::uint64_t bytes = 0;
  if (const int code = type_of(pieces, count, &type, &bytes); code != MPI_SUCCESS) return code;
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Comm comm = session().planes[static_cast<std::size_t>(plane)];
  const int code = send ? MPI_Isend(MPI_BOTTOM, 1, type, peer, tag, comm, &request)
                        : MPI_Irecv(MPI_BOTTOM, 1, type, peer, tag, comm, &request);
  batch.requests.push_back(request);
  batch.types.push_back(type);
  batch.expected.push_back(bytes);
  batch.receives.push_back(!send);
  return code;
}

int send(void* batch, MpiCalls::Plane plane, int peer, int tag, const MpiCalls::Bytes* pieces, std::size_t count) {
  return post(*static_cast<Batch*>(batch), true, plane, peer, tag, pieces, count);
}

int receive(void* batch, MpiCalls::Plane plane, int peer, int tag, const MpiCalls::Bytes* pieces, std::size_t count) {
  return post(*static_cast<Batch*>(batch), false, plane, peer, tag, pieces, count);
}

int test(void* opaque, bool* done) {
  Batch& batch = *static_cast<Batch*>(opaque);
  batch.statuses.resize(batch.requests.size());
  int all = 0;
  const int code =
      MPI_Testall(static_cast<int>(batch.requests.size()), batch.requests.data(), &all, batch.statuses.data());
  *done = all != 0;
  if (code != MPI_SUCCESS || all == 0) return code;
  int wrong = MPI_SUCCESS;
  for (std::size_t i = 0; i < batch.types.size(); ++i) {
    MPI_Count got = 0;
    if (batch.receives[i] && (MPI_Get_elements_x(&batch.statuses[i], MPI_BYTE, &got) != MPI_SUCCESS ||
                              static_cast<std::uint64_t>(got) != batch.expected[i])) {
      wrong = MPI_ERR_TRUNCATE;
    }
    MPI_Type_free(&batch.types[i]);
  }
  batch.requests.clear();
  batch.types.clear();
  batch.expected.clear();
  batch.receives.clear();
  return wrong;
}

}  // namespace

extern "C" {
extern const MpiCalls orrery_mpi_calls;
const MpiCalls orrery_mpi_calls = {MpiCalls::current, start,      finish,     abort_all, library, error_text,
                                   all_gather,        make_batch, drop_batch, send,      receive, test};
}
