// NCCL's functions: blocking communicators only, which is all that the plugin makes.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nccl.h>

#include "tests/support/cuda_double/memory.hpp"
#include "tests/support/cuda_double/nccl_state.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_double/settings.hpp"
#include "tests/support/cuda_double/stream.hpp"
#include "tests/support/cuda_double/world.hpp"

namespace cxxrun::cuda_double {
namespace {

thread_local std::string t_error;  // NOLINT(readability-identifier-naming)

ncclResult_t wrong(ncclResult_t result, std::string text) {
  t_error = std::move(text);
  return result;
}

/// Of the calling thread, between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Operation exchange;
  std::vector<ncclComm_t> aborted;
};
thread_local Group t_group;  // NOLINT(readability-identifier-naming)

}  // namespace
}  // namespace cxxrun::cuda_double

using namespace cxxrun::cuda_double;  // NOLINT(google-build-using-namespace)

struct ncclComm {
  std::shared_ptr<State> state = std::make_shared<State>();
  char const* name = nullptr;
};

namespace {

/// What it would do then nobody knows.
void require_cuda() {
  if (state() == cudaErrorCudartUnloading) {
    std::fprintf(stderr, "cuda_double: NCCL is called after CUDA was taken down\n");
    std::abort();
  }
}

/// One call, inside which its thread may have to wait.
template <class Body>
ncclResult_t call(ncclComm_t comm, Body const& body) {
  require_cuda();
  Inside const inside(comm->state);
  if (comm->state->error != ncclSuccess) {
    return wrong(static_cast<ncclResult_t>(comm->state->error.load()), "the communicator has failed");
  }
  pass_driver();
  body(comm->state);
  return ncclSuccess;
}

/// The device takes no more launches before it has dealt with what it has.
void await_room(Queue const& queue, std::uint64_t room) {
  if (room > 0 && queue.last() >= room && !queue.done(queue.last() + 1 - room)) {
    count("launches kept");
    queue.wait(queue.last() + 1 - room);
  }
}

ncclResult_t submit(ncclComm_t comm, Operation const& operation, cudaStream_t stream) {
  return call(comm, [&](std::shared_ptr<State> const& state) {
    auto const queue = queue_of(stream);
    await_room(*queue, state->script.launches);
    bool const deaf = is_deaf(*state, operation);
    state->deaf += deaf ? 1 : 0;
    queue->push([state, operation, deaf] {
      perform(*state, operation, deaf);
      state->deaf -= deaf ? 1 : 0;
    });
  });
}

ncclResult_t collective(char const* name, ncclComm_t comm, Operation const& operation, cudaStream_t stream) {
  count(name);
  if (t_group.depth > 0) {
    return wrong(ncclInvalidUsage, "the double groups sends and receives only");
  }
  return submit(comm, operation, stream);
}

ncclResult_t add_part(ncclComm_t comm, cudaStream_t stream, Operation::Part const& part, bool send) {
  if (t_group.depth == 0) {
    return wrong(ncclInvalidUsage, "the double sends and receives in groups only");
  }
  t_group.comm = comm;
  t_group.stream = stream;
  (send ? t_group.exchange.sends : t_group.exchange.receives).push_back(part);
  return ncclSuccess;
}

/// What NCCL does when nothing runs any more.
void rest(State& state) {
  ::sleep(static_cast<unsigned>(state.script.rest_seconds));
  if (state.script.rest_waits && state.joined) {
    state.world->end();
  }
}

void shut(ncclComm_t comm) {
  if (comm->name != nullptr) {  // NCCL has not copied it
    count((std::string("commName ") + comm->name).c_str());
  }
  comm->state->stop = true;
  if (comm->state->inside > 0) {
    std::fprintf(stderr, "cuda_double: a communicator is ended while a thread is inside\n");
    std::abort();
  }
  World::forget(comm->state->id);
  delete comm;
}

void finish_abort(ncclComm_t comm) {
  while (comm->state->deaf > 0) {  // it waits for its kernels, as long as that takes
    ::usleep(200);
  }
  rest(*comm->state);
  shut(comm);
  count("ncclCommAbort done");
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = script().nccl;
  return ncclSuccess;
}
char const* ncclGetErrorString(ncclResult_t result) {  // NCCL's words
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
char const* ncclGetLastError(ncclComm_t /*comm*/) {
  return t_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device device;
  std::memset(id, 0, sizeof(*id));
  for (std::size_t i = 0; i < 16; ++i) {
    id->internal[i] = static_cast<char>(device());
  }
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  count("ncclMemAlloc");
  return allocate(memory, bytes, cudaMemoryTypeDevice) == cudaSuccess
             ? ncclSuccess
             : wrong(ncclUnhandledCudaError, "ncclMemAlloc: the device has no more memory");
}
ncclResult_t ncclMemFree(void* memory) {
  count("ncclMemFree");
  return deallocate(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  count("ncclCommInitRankConfig");
  if (state() != cudaSuccess) {
    return wrong(ncclUnhandledCudaError, "Cuda failure");
  }
  if (config->blocking != 1) {
    return wrong(ncclInvalidUsage, "the double makes blocking communicators only");
  }
  if (!takes(*config)) {
    return wrong(ncclInvalidArgument, "the double: settings that NCCL does not take");
  }
  count_settings(*config);
  auto* const made = new ncclComm;
  made->name = config->commName;
  auto const state = made->state;
  state->script = script_of(rank);
  state->id = id;
  std::atomic_ref(*comm).store(made);  // whoever gives up meanwhile needs it
  Inside const inside(state);
  if (state->script.init_error != 0) {
    return wrong(static_cast<ncclResult_t>(state->script.init_error), "");
  }
  static std::atomic<int> begun{0};
  if (begun++ < state->script.init_stuck) {
    count("threads left");
    std::thread([] { ::pause(); }).detach();
    wait_for_stop(*state);
  } else if (auto world = World::join(state->id, rank, size, state->stop)) {
    state->world.emplace(std::move(*world));
    state->joined = true;
    return ncclSuccess;
  }
  return wrong(ncclInternalError, "it was aborted while it connected");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  require_cuda();
  Inside const inside(comm->state);
  ::usleep(static_cast<unsigned>(comm->state->script.state_milliseconds) * 1000);
  *result = static_cast<ncclResult_t>(comm->state->error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  count("ncclCommAbort");
  require_cuda();
  ::sleep(static_cast<unsigned>(comm->state->script.abort_seconds));
  comm->state->stop = true;
  if (t_group.depth > 0 && comm->state->script.nccl >= 22203) {
    t_group.aborted.push_back(comm);
  } else {
    finish_abort(comm);
  }
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  count("ncclCommFinalize");
  return call(comm, [](auto const&) {});
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  count("ncclCommDestroy");
  require_cuda();
  rest(*comm->state);
  shut(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t /*comm*/, void* memory, std::size_t /*bytes*/, void** handle) {
  count("ncclCommRegister");
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t /*comm*/, void* /*handle*/) {
  count("ncclCommDeregister");
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int /*flags*/) {
  count("ncclCommWindowRegister");
  return call(comm, [&](auto const& state) {
    state->windows.emplace_back(static_cast<std::byte const*>(memory), bytes);
    *window = static_cast<ncclWindow_t>(memory);
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t /*comm*/, ncclWindow_t /*window*/) {
  count("ncclCommWindowDeregister");
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(void const* in, void* out, std::size_t number, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", comm, {Operation::Kind::all_reduce, in, out, number, type, op, 0, {}, {}}, stream);
}
ncclResult_t ncclReduceScatter(void const* in, void* out, std::size_t number, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", comm, {Operation::Kind::reduce_scatter, in, out, number, type, op, 0, {}, {}},
                    stream);
}
ncclResult_t ncclAllGather(void const* in, void* out, std::size_t number, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", comm, {Operation::Kind::all_gather, in, out, number, type, ncclSum, 0, {}, {}},
                    stream);
}
ncclResult_t ncclBroadcast(void const* in, void* out, std::size_t number, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBroadcast", comm, {Operation::Kind::broadcast, in, out, number, type, ncclSum, root, {}, {}},
                    stream);
}

ncclResult_t ncclGroupStart() {
  ++t_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclSend(void const* from, std::size_t number, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_part(comm, stream, {peer, static_cast<std::byte const*>(from), nullptr, number * size_of(type)}, true);
}
ncclResult_t ncclRecv(void* to, std::size_t number, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_part(comm, stream, {peer, nullptr, static_cast<std::byte*>(to), number * size_of(type)}, false);
}
ncclResult_t ncclGroupEnd() {
  if (--t_group.depth > 0) {
    return ncclSuccess;
  }
  auto const group = std::exchange(t_group, {});
  for (auto* const comm : group.aborted) {
    finish_abort(comm);
  }
  count("ncclGroupEnd", group.comm == nullptr ? 0 : 1);
  return group.comm == nullptr ? ncclSuccess : submit(group.comm, group.exchange, group.stream);
}

}  // extern "C"
