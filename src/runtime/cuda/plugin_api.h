/* What libcxxrun_cuda.so offers to libcxxrun: a table of C functions.
 *
 * libcxxrun has no CUDA in it. It opens the plugin at run time (dlopen, RTLD_LOCAL) and finds one symbol,
 * cxxrun_cuda_api. Only C crosses this border: the plugin and the program may have C++ libraries of their own, so no
 * exception, no std:: type and no allocation is handed over. The plugin decides nothing: deadlines, retries and
 * who is to blame are libcxxrun's (src/runtime/gpu). It is the only file that knows cudart and nccl.
 *
 * Every function returns CXXRUN_CUDA_OK, or fills `status` with the code and one sentence in CUDA's or NCCL's words.
 * No function waits for the device or for peers, except those that say so. But NCCL may wait for the driver in any call
 * that launches something (where the device's queue is full), and for peers where it makes connections or registers
 * memory: allocate() and enqueue(), until an abort().
 * Threads: one at a time per communicator, but for abort(), drained(), usable(), is_device_memory() and is_captured(),
 * which any thread may call at any moment. The calling thread's current device is as before afterwards, except after
 * open_device(). Of a device that is open already open_device() asks only whether it still answers.
 * Memory that runs out on the host ends the process.
 */
#ifndef CXXRUN_CUDA_PLUGIN_API_H
#define CXXRUN_CUDA_PLUGIN_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* NOLINTBEGIN(readability-identifier-naming): the names of a C header */

/* Grows with every change of this file; another version is refused by name. */
#define CXXRUN_CUDA_ABI 8u
#define CXXRUN_CUDA_ID_BYTES 128

enum cxxrun_cuda_code {
  CXXRUN_CUDA_OK = 0,
  CXXRUN_CUDA_IN_PROGRESS = 1, /* not an error: ask again */
  CXXRUN_CUDA_CUDA = 2,        /* a CUDA error: status->detail is cudaError_t */
  CXXRUN_CUDA_NCCL = 3,        /* an NCCL error, or what a caller may not do: status->detail is ncclResult_t */
  CXXRUN_CUDA_UNSUPPORTED = 4, /* this NCCL is too old, or cannot do it as libcxxrun promises */
};
struct cxxrun_cuda_status {
  int32_t code;   /* enum cxxrun_cuda_code */
  int32_t detail; /* cudaError_t or ncclResult_t */
  char text[512]; /* "ncclCommInitRankConfig: unhandled cuda error (…)" */
};

/* What is found without touching a device. Initializes the driver: a process must not fork afterwards. */
struct cxxrun_cuda_facts {
  int32_t cuda_runtime; /* 13000 */
  int32_t cuda_driver;  /* 0: no driver */
  int32_t nccl;         /* of the library that was loaded: 22809 */
  int32_t nccl_header;  /* that the plugin was compiled with */
  int32_t devices;      /* 0 when count_error is not 0 */
  int32_t count_error;  /* cudaError_t of cudaGetDeviceCount */
  int32_t driver_found; /* libcuda.so.1 can be loaded */
  char count_text[256];
};
struct cxxrun_cuda_device_facts {
  char name[128];
  char uuid[48];   /* "GPU-…": the same device has the same one in every process */
  char bus_id[32]; /* "0000:1b:00.0" */
  int32_t sm;      /* 90 */
  uint64_t memory; /* bytes */
};

/* By number as in src/base/core/call.hpp, DType, ReduceOp and Wire. */
struct cxxrun_cuda_call {
  uint8_t kind, type, op, wire;
  int32_t root;
  uint64_t count;
  float scale;
  void const* in;
  void* out;
};

/* For ncclConfig_t. INT_MIN and NULL: NCCL chooses. The name is copied. */
struct cxxrun_cuda_settings {
  int32_t min_ctas, max_ctas, cga_cluster_size, traffic_class;
  char const* name;
};

struct cxxrun_cuda_comm; /* one communicator, with its stream, events and the arena for its wire format */

struct cxxrun_cuda_api {
  uint32_t abi; /* CXXRUN_CUDA_ABI */

  void (*facts)(struct cxxrun_cuda_facts* facts);
  /* Makes the context (slow: hundreds of ms) and runs one small kernel, waiting for it: a device that fails its first
   * kernel is found here. Then it loads the others, since loading one later waits for the device. Blocks. */
  int32_t (*open_device)(int32_t ordinal, struct cxxrun_cuda_device_facts* facts, struct cxxrun_cuda_status* status);
  /* Opens NCCL's bootstrap socket in this process. Rank 0 calls it and gives the bytes to the others. */
  int32_t (*unique_id)(uint8_t id[CXXRUN_CUDA_ID_BYTES], struct cxxrun_cuda_status* status);

  /* Begins a communicator on the device that was opened; poll() says when it is ready. A thread connects it: its calls
   * are blocking ones, since for others NCCL starts a thread each. In a world of one there is none of NCCL's, `id` is
   * not read, and it is ready at once. After an error *comm may be there all the same: abort() and comm_free() it. */
  int32_t (*comm_begin)(uint8_t const id[CXXRUN_CUDA_ID_BYTES], int32_t rank, int32_t world,
                        struct cxxrun_cuda_settings const* settings, struct cxxrun_cuda_comm** comm,
                        struct cxxrun_cuda_status* status);
  /* OK: ready for calls. IN_PROGRESS: not connected yet. Else why that failed, or the communicator's asynchronous
   * error.
   */
  int32_t (*poll)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* Makes its kernels end, waits until threads that are inside NCCL have come out, and frees what NCCL holds. May block
   * for ever: call it on a thread that can be left behind (before NCCL 2.22.3 always where it is still connecting; a
   * thread inside another call is waited for for 1 s there). drained() says when it is in nobody's way any more. The
   * stream, events and memory stay until comm_free(); reached() and wait_on() still work (but nothing is written to the
   * host's memory any more), and everything else that is queued is refused. */
  void (*abort)(struct cxxrun_cuda_comm* comm);
  /* OK when abort() has come so far that nothing of this communicator's runs on the device, or will: another one may
   * begin, and buffers are their owner's. IN_PROGRESS before. Else as usable(). */
  int32_t (*drained)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* In good health, after everything is done: finalizes. Blocks, for a peer that hangs for ever. */
  int32_t (*finalize)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* Waits for the stream, and aborts first what was neither aborted nor finalized. Its memory goes with it. */
  void (*comm_free)(struct cxxrun_cuda_comm* comm);

  /* Device memory that collectives use in place (ncclMemAlloc, registered: a symmetric window from NCCL 2.29.7 on).
   * Every rank asks for the same sizes in the same order. Zeroed on the communicator's stream. In a collective the
   * buffers of all ranks lie in such memory at the same offset, or those of none. */
  int32_t (*allocate)(struct cxxrun_cuda_comm* comm, uint64_t bytes, void** memory, struct cxxrun_cuda_status* status);

  /* Everything below is queued on the communicator's stream, in the order of the calls. */

  /* What `user_stream` has queued so far comes first. */
  int32_t (*after)(struct cxxrun_cuda_comm* comm, void* user_stream, struct cxxrun_cuda_status* status);
  /* The collective, with its casts and its scale: sum, then scaled; never ncclAvg. In a world of one a copy if in and
   * out differ, a scale if it is not 1, and else nothing.
   * Sums of f16 and bf16, and of f32 on such a wire, are NCCL's: added up in f32 and rounded once by its kernels for
   * symmetric windows, rounded to that type at each addition by all others. What is scaled down and added up in f16 is
   * first multiplied by a power of two, so that the sum of finite numbers is finite when its mean is. UNSUPPORTED: min
   * and max of floating point types, in which NCCL loses NaNs. A barrier is one on the stream: mark() after it. */
  int32_t (*enqueue)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_call const* call,
                     struct cxxrun_cuda_status* status);
  /* data[i] *= factor; f32, f64, f16, bf16. 0 gives zeros, whatever was there. */
  int32_t (*multiply)(struct cxxrun_cuda_comm* comm, uint8_t type, void* data, uint64_t count, double factor,
                      struct cxxrun_cuda_status* status);
  /* *sum (device, one f64) += Σ data[i]², the same bits whenever the data are. */
  int32_t (*add_squares)(struct cxxrun_cuda_comm* comm, uint8_t type, void const* data, uint64_t count, double* sum,
                         struct cxxrun_cuda_status* status);
  /* Between host and device or within the device. The host's pages go through pinned memory of the plugin's, as much
   * as is copied between two marks, which it keeps: what was to be sent may be changed at once, and what is received is
   * there when reached() has said so of the mark() after it. */
  int32_t (*copy)(struct cxxrun_cuda_comm* comm, void* to, void const* from, uint64_t bytes,
                  struct cxxrun_cuda_status* status);

  /* A point in the stream, as a number that grows by one. */
  int32_t (*mark)(struct cxxrun_cuda_comm* comm, uint64_t* point, struct cxxrun_cuda_status* status);
  /* OK: reached. IN_PROGRESS. Else the error of something queued before. */
  int32_t (*reached)(struct cxxrun_cuda_comm* comm, uint64_t point, struct cxxrun_cuda_status* status);
  /* `user_stream` goes on after that point; the host does not wait. */
  int32_t (*wait_on)(struct cxxrun_cuda_comm* comm, uint64_t point, void* user_stream,
                     struct cxxrun_cuda_status* status);
  /* 1: memory of a device (or managed); 0: the host's; -1: CUDA does not say, and `status` has its error. */
  int32_t (*is_device_memory)(void const* pointer, struct cxxrun_cuda_status* status);
  /* OK while the device can be used. Else the error that a kernel has left behind, which every later call of CUDA's in
   * this process answers. */
  int32_t (*usable)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* 1: the stream is being captured into a graph; 0: it is not; -1: as above. after() and wait_on() refuse it. */
  int32_t (*is_captured)(void* stream, struct cxxrun_cuda_status* status);
};

/* The one symbol. `abi` is the caller's; NULL when the plugin is of another version. */
typedef struct cxxrun_cuda_api const* (*cxxrun_cuda_api_function)(uint32_t abi);
#define CXXRUN_CUDA_SYMBOL "cxxrun_cuda_api"

/* NOLINTEND(readability-identifier-naming) */
#ifdef __cplusplus
}
#endif

#endif
