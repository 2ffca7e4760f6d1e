// A stand-in for the CUDA runtime and NCCL, without a GPU: what it is told to do wrong.
//
// libcuda_double.so is loaded before the plugin (LD_PRELOAD, or linked into a test) and takes the place of the
// functions of libcudart, libnccl and the plugin's kernels that the plugin calls. What it models:
// clang-format off
//   streams   a thread each, in order; the default stream is one of them and waits for no other
//   events    a ticket of a stream
//   capture   of one stream, into nothing: what may be asked meanwhile, in which mode, and what it ends
//   exit()    takes CUDA down, in a handler that is set up when a device is looked for: then every call answers 4, and
//             one of NCCL's ends the process
//   contexts  one a device, made by cudaSetDevice() and by what needs one on the calling thread's device
//   memory    the host's, with a list of what was allocated as which kind
//   kernels   loops with the arithmetic that the kernels are compiled from
//   NCCL      blocking communicators between processes of this machine, over POSIX shared memory: what connects waits for
//             all ranks, and a collective is in the stream when its call returns; ends the process when a communicator is
//             freed while a thread is inside one of its functions; an abort in a group sets its flag at once and does the
//             rest at the group's end, from 2.22.3 on; collectives called in different orders are noticed on every rank;
//             before 2.29.7 nothing but its peers ends a collective in symmetric windows, and an abort waits for it
// It shows that the plugin and what is above it call these libraries as they may be called. It shows nothing of how
// CUDA and NCCL behave: speed, what a GPU does, when NCCL notices what.
//
// CXXRUN_CUDA_DOUBLE="key=value,key=value" says what is wrong; nothing is, without it:
//   rank=R          only in the process with RANK=R, or where RANK is not set, in that rank of a communicator
//   devices=N       how many there are (4); CUDA_VISIBLE_DEVICES with plain numbers chooses among them
//   uuid=same       all devices have one uuid; else it depends on the device's number and on CXXRUN_HOST_ID
//   driver=missing  no libcuda.so.1: 35 (insufficient driver), version 0
//   driver=stub     the toolkit's stub library: 34
//   driver=old      35 too, but there is a driver
//   driver=locks    what takes or gives back memory, or loads a kernel at its first launch, waits until all that has been
//                   queued on the device is done, and other calls of the driver's wait for it; what only concerns the
//                   calling thread does not
//   driver=CODE     there is one, and every call answers CODE (46 devices unavailable, 100 no device, 802 not ready)
//   kernel=fails    the first kernel is launched and fails: 719
//   kernel=none     it has no code for this device: 209
//   memory=BYTES    on each device (16 GiB)
//   nccl=VERSION    21800: too old (22809)
//   launches=N      a stream has room for so many things; a collective waits inside its call until there is some
//   init=stuck      a communicator never connects, and a thread of it stays when it is given up; init=stuck:K: the first K
//                   of a process
//   init=CODE       what connecting it ends with
//   error=K         the collective after K good ones never ends, and ncclRemoteError (6) is reported; K:CODE another one
//   fault=K         the kernel of the collective after K good ones fails: from then on all CUDA answers 700 in that
//                   process, and its peers wait for ever
//   hang=K          it never ends, and nothing is reported
//   deaths=seen     a process of the communicator that has ended is reported: ncclRemoteError; else nothing is
//   state=MS        ncclCommGetAsyncError() takes that long; no communicator may be ended meanwhile
//   abort=SECONDS   ncclCommAbort() does nothing for that long
//   rest=SECONDS    ncclCommAbort() and ncclCommDestroy() take that long when nothing runs any more
//   rest=peers      they take until all other ranks have come to that, too, or ended: a thread of NCCL's stays as long as
//                   another rank of the node is connected to it
//   room=1          on a device there is room for one kernel of NCCL's, whatever communicator it is of
// clang-format on
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cxxrun::cuda_double {

struct Fault {
  std::uint64_t after = 0;
  int code = 0;  ///< 0: nothing is reported
};

struct Script {
  int rank = -1;  ///< -1: every one
  int devices = 4;
  bool same_uuid = false;
  int driver_error = 0;
  bool driver_found = true;
  bool driver_locks = false;
  int driver_version = 13000;
  int first_kernel = 0;
  bool first_kernel_at_launch = false;
  std::uint64_t memory = std::uint64_t{16} << 30U;
  int nccl = 22809;
  std::uint64_t launches = 0;  ///< 0: as many as there are
  int init_stuck = 0;          ///< so many communicators
  int init_error = 0;
  std::optional<Fault> collective;
  std::optional<std::uint64_t> fault_after;
  bool deaths_seen = false;
  int state_milliseconds = 0;
  int abort_seconds = 0;
  int rest_seconds = 0;
  bool rest_waits = false;
  bool little_room = false;
};

/// From the environment, at the first call; a word that is not known ends the process.
Script const& script();
/// For a rank of a communicator: what is only for another one is left out.
Script script_of(int rank);

/// How often a function was called in this process: "cudaMalloc", "ncclAllReduce", "kernel".
void count(char const* function, std::uint64_t times = 1);

}  // namespace cxxrun::cuda_double

extern "C" {
/// For tests, found by dlsym(): 0 for what was never called. "context": devices on which this process has one. "pinned
/// bytes": of all calls of cudaHostAlloc;
/// "driver waits": calls that had to wait, with driver=locks. "rooms": kernels that have got theirs, with room=1.
/// "threads left": with init=stuck. "launches kept": calls that waited for room, with launches=N. "ncclCommAbort done":
/// when they came back.
std::uint64_t cxxrun_cuda_double_calls(char const* function);
/// Memory of the program's is the device's from now on; 0 bytes: not any more.
void cxxrun_cuda_double_claim(void const* memory, std::size_t bytes);
/// As after a kernel of the program's that failed.
void cxxrun_cuda_double_lose_context();
/// A kernel that does nothing for so long.
void cxxrun_cuda_double_spin(void* stream, std::uint64_t nanoseconds);
}
