// The module orrery_mpi, and the only source that includes MPI.

#include <mpi.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "exec/comm/mpi_calls.hpp"

namespace {

using orrery::MpiCalls;

/// The state that MPI itself keeps of a process; there is only one in any case.
struct Session {
  std::array<MPI_Comm, MpiCalls::planes> planes{};
  MPI_Comm whole = MPI_COMM_NULL;
  MpiCalls::Combine combine = nullptr;
  std::array<std::array<MPI_Op, 2>, 2> narrow{};  ///< sums and maxima of bf16 and f16, made with the first group
  bool has_narrow = false;
  std::string text;
};

Session& session() {
  static Session s;
  return s;
}

struct Batch {
  std::vector<MPI_Request> requests;
  std::vector<MPI_Datatype> types;      ///< types of the requests; null for a collective, which needs none of its own
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
  for (auto& ops : s.narrow) {
    for (MPI_Op& op : ops) {
      if (s.has_narrow) MPI_Op_free(&op);
    }
  }
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

/// One type for all pieces, at their addresses, so that MPI need not copy them together first.
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
    if (batch.types[i] != MPI_DATATYPE_NULL) MPI_Type_free(&batch.types[i]);
  }
  batch.requests.clear();
  batch.types.clear();
  batch.expected.clear();
  batch.receives.clear();
  return wrong;
}

template <orrery::DType type, orrery::Collective::Reduction reduction>
void combine_narrow(void* in, void* sum, int* count, MPI_Datatype*) {
  session().combine(type, reduction, sum, in, static_cast<std::uint64_t>(*count));
}

template <orrery::DType type>
int make_narrow(std::array<MPI_Op, 2>& ops) {
  using Reduction = orrery::Collective::Reduction;
  const int code = MPI_Op_create(combine_narrow<type, Reduction::sum>, 1, &ops[0]);
  return code == MPI_SUCCESS ? MPI_Op_create(combine_narrow<type, Reduction::max>, 1, &ops[1]) : code;
}

int make_group(const int* ranks, std::size_t count, MpiCalls::Combine combine, void** made) {
  Session& s = session();
  if (!s.has_narrow) {
    s.combine = combine;
    if (const int code = make_narrow<orrery::DType::bf16>(s.narrow[0]); code != MPI_SUCCESS) return code;
    if (const int code = make_narrow<orrery::DType::f16>(s.narrow[1]); code != MPI_SUCCESS) return code;
    s.has_narrow = true;
  }
  MPI_Group all = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  int code = MPI_Comm_group(s.whole, &all);
  if (code == MPI_SUCCESS) code = MPI_Group_incl(all, static_cast<int>(count), ranks, &part);
  if (code == MPI_SUCCESS) code = MPI_Comm_create_group(s.whole, part, 0, &comm);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (part != MPI_GROUP_NULL) MPI_Group_free(&part);
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  if (code == MPI_SUCCESS) *made = new MPI_Comm(comm);
  return code;
}

void drop_group(void* group) {
  auto* const comm = static_cast<MPI_Comm*>(group);
  MPI_Comm_free(comm);
  delete comm;
}

/// Type of elements that are moved or that MPI adds; operations of ours add 16-bit numbers.
MPI_Datatype type_of(orrery::DType type) {
  switch (type) {
    case orrery::DType::f64: return MPI_DOUBLE;
    case orrery::DType::f32: return MPI_FLOAT;
    case orrery::DType::i32: return MPI_INT32_T;
    case orrery::DType::bf16:
    case orrery::DType::f16: return MPI_UINT16_T;
    case orrery::DType::u8:
    case orrery::DType::f8: return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op op_of(orrery::DType type, orrery::Collective::Reduction reduction) {
  const bool max = reduction == orrery::Collective::Reduction::max;
  switch (type) {
    case orrery::DType::f64:
    case orrery::DType::f32: return max ? MPI_MAX : MPI_SUM;
    case orrery::DType::bf16: return session().narrow[0][max ? 1 : 0];
    case orrery::DType::f16: return session().narrow[1][max ? 1 : 0];
    default: return MPI_OP_NULL;  // combine() has none either
  }
}

int collective(void* opaque, void* group, const MpiCalls::Vector& v) {
  if (v.count > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return MPI_ERR_COUNT;
  Batch& batch = *static_cast<Batch*>(opaque);
  const MPI_Comm comm = *static_cast<MPI_Comm*>(group);
  const MPI_Datatype type = type_of(v.dtype);
  const int n = static_cast<int>(v.count);
  const void* from = v.from != nullptr ? v.from : MPI_IN_PLACE;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_ERR_OTHER;
  using Kind = orrery::Collective::Kind;
  switch (v.kind) {
    case Kind::all_reduce:
      code = MPI_Iallreduce(from, v.into, n, type, op_of(v.dtype, v.reduction), comm, &request);
      break;
    case Kind::reduce:
      code = MPI_Ireduce(from, v.into, n, type, op_of(v.dtype, v.reduction), v.root, comm, &request);
      break;
    case Kind::broadcast: code = MPI_Ibcast(v.into, n, type, v.root, comm, &request); break;
    case Kind::all_gather: code = MPI_Iallgather(from, n, type, v.into, n, type, comm, &request); break;
    case Kind::reduce_scatter:
      code = MPI_Ireduce_scatter_block(from, v.into, n, type, op_of(v.dtype, v.reduction), comm, &request);
      break;
    case Kind::all_to_all: code = MPI_Ialltoall(from, n, type, v.into, n, type, comm, &request); break;
    case Kind::permute:
    case Kind::barrier: break;  // messages between two, which are ours
  }
  if (code != MPI_SUCCESS) return code;
  batch.requests.push_back(request);
  batch.types.push_back(MPI_DATATYPE_NULL);
  batch.expected.push_back(0);
  batch.receives.push_back(false);
  return code;
}

}  // namespace

extern "C" {
extern const MpiCalls orrery_mpi_calls;
const MpiCalls orrery_mpi_calls = {MpiCalls::current, start,      finish,     abort_all,  library,
                                   error_text,        all_gather, make_batch, drop_batch, send,
                                   receive,           test,       make_group, drop_group, collective};
}
