#include "exec/comm/nccl_calls.hpp"

#include <dlfcn.h>

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string nccl_version_text(int version) {
  // This holds from 2.9 on; before, a thousand was the major version.
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

NcclCalls load_nccl(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(std::string("cannot load NCCL, over which ranks on GPUs meet: ") + dlerror() +
                ".  The package libnccl2 has it; --nccl FILE names it where LD_LIBRARY_PATH and ldconfig do not.");
  }
  NcclCalls calls;
  calls.library = library;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function != nullptr) return;
    std::string text = library + " has no " + name;
    int version = 0;
    if (calls.get_version != nullptr && calls.get_version(&version) == NcclCalls::success) {
      text += "; it is NCCL " + nccl_version_text(version);
    }
    throw Error(text + ".  What is needed is NCCL " + nccl_version_text(NcclCalls::oldest) + " or later.");
  };
  find(calls.get_version, "ncclGetVersion");
  find(calls.get_unique_id, "ncclGetUniqueId");
  find(calls.init_rank, "ncclCommInitRankConfig");
  find(calls.split, "ncclCommSplit");
  find(calls.finalize, "ncclCommFinalize");
  find(calls.destroy, "ncclCommDestroy");
  find(calls.abort, "ncclCommAbort");
  find(calls.async_error, "ncclCommGetAsyncError");
  find(calls.error_string, "ncclGetErrorString");
  find(calls.last_error, "ncclGetLastError");
  find(calls.group_start, "ncclGroupStart");
  find(calls.group_end, "ncclGroupEnd");
  find(calls.all_reduce, "ncclAllReduce");
  find(calls.reduce_scatter, "ncclReduceScatter");
  find(calls.all_gather, "ncclAllGather");
  find(calls.broadcast, "ncclBroadcast");
  find(calls.reduce, "ncclReduce");
  find(calls.send, "ncclSend");
  find(calls.receive, "ncclRecv");
  if (calls.get_version(&calls.version) != NcclCalls::success || calls.version < NcclCalls::oldest) {
    throw Error(library + " is NCCL " + nccl_version_text(calls.version) + "; " + nccl_version_text(NcclCalls::oldest) +
                " or later is needed.");
  }
  return calls;
}

}  // namespace orrery
