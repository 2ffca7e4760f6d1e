/* The interface of libcxxrun_cuda.so for libcxxrun: a table of C functions.
 *
 * libcxxrun contains no CUDA code. It opens the plugin at run time (dlopen, RTLD_LOCAL) and looks up one symbol,
 * cxxrun_cuda_api. Only C crosses this boundary, because the plugin and the program may use different C++ libraries: no
 * exception, no std:: type and no ownership of memory. The plugin decides nothing: deadlines, retries and blame belong
 * to libcxxrun (src/runtime/gpu). Only the plugin uses cudart and NCCL.
 *
 * Every function returns CXXRUN_CUDA_OK, or fills `status` with the code and one sentence in CUDA's or NCCL's words.
 * Functions do not wait for the device or for peers, unless they say so. But NCCL may wait for the driver in any call
 * that launches something (if the device's queue is full), and for peers when it makes connections or registers memory,
 * that is, in allocate() and enqueue(), until an abort().
 * Threads: one at a time per communicator, except abort(), drained(), usable(), is_device_memory() and is_captured(),
 * which any thread may call at any time. Functions restore the calling thread's current device, except open_device(),
 * and except where the process has no context on it: restoring would create one.
 * If the device is open already, open_device() only checks that it still answers.
 * If the host runs out of memory, the process ends.
 */
#ifndef CXXRUN_CUDA_PLUGIN_API_H
#define CXXRUN_CUDA_PLUGIN_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* NOLINTBEGIN(readability-identifier-naming): the names of a C header */

/* Increases with every change of this file; other versions are refused by name. */
#define CXXRUN_CUDA_ABI 8u
#define CXXRUN_CUDA_ID_BYTES 128

enum cxxrun_cuda_code {
  CXXRUN_CUDA_OK = 0,
  CXXRUN_CUDA_IN_PROGRESS = 1, /* not an error: ask again */
  CXXRUN_CUDA_CUDA = 2,        /* a CUDA error: status->detail is cudaError_t */
  CXXRUN_CUDA_NCCL = 3,        /* an NCCL error, or a call that is not allowed: status->detail is ncclResult_t */
  CXXRUN_CUDA_UNSUPPORTED = 4, /* this NCCL is too old, or cannot keep libcxxrun's promise */
};
struct cxxrun_cuda_status {
  int32_t code;   /* enum cxxrun_cuda_code */
  int32_t detail; /* cudaError_t or ncclResult_t */
  char text[512]; /* "ncclCommInitRankConfig: unhandled cuda error (…)" */
};

/* Facts found without using a device. Initializes the driver: the process must not fork afterwards. */
struct cxxrun_cuda_facts {
  int32_t cuda_runtime; /* 13000 */
  int32_t cuda_driver;  /* 0: no driver */
  int32_t nccl;         /* of the loaded library: 22809 */
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

/* Numbers as in src/base/core/call.hpp, DType, ReduceOp and Wire. */
struct cxxrun_cuda_call {
  uint8_t kind, type, op, wire;
  int32_t root;
  uint64_t count;
  float scale;
  void const* in;
  void* out;
};

/* For ncclConfig_t. INT_MIN and NULL: NCCL's default. The name is copied. */
struct cxxrun_cuda_settings {
  int32_t min_ctas, max_ctas, cga_cluster_size, traffic_class;
  char const* name;
};

struct cxxrun_cuda_comm; /* one communicator, with its stream, events and scratch memory */

struct cxxrun_cuda_api {
  uint32_t abi; /* CXXRUN_CUDA_ABI */

  void (*facts)(struct cxxrun_cuda_facts* facts);
  /* Creates the context (slow: hundreds of ms), runs one small kernel and waits for it, to detect a broken device here.
   * Then loads the other kernels, because loading one later waits for the device. Blocks. */
  int32_t (*open_device)(int32_t ordinal, struct cxxrun_cuda_device_facts* facts, struct cxxrun_cuda_status* status);
  /* Opens NCCL's bootstrap socket in this process. Rank 0 calls it and sends the bytes to the others. */
  int32_t (*unique_id)(uint8_t id[CXXRUN_CUDA_ID_BYTES], struct cxxrun_cuda_status* status);

  /* Starts to connect a communicator on the open device; poll() tells when it is ready. A separate thread makes the
   * blocking calls, because NCCL itself starts a thread for each non-blocking one. In a world of one there is no NCCL
   * communicator, `id` is not read, and it is ready at once. After an error *comm may exist: abort() and comm_free()
   * it. */
  int32_t (*comm_begin)(uint8_t const id[CXXRUN_CUDA_ID_BYTES], int32_t rank, int32_t world,
                        struct cxxrun_cuda_settings const* settings, struct cxxrun_cuda_comm** comm,
                        struct cxxrun_cuda_status* status);
  /* OK: ready for calls. IN_PROGRESS: not connected yet. Otherwise the reason why connecting failed, or the
   * communicator's asynchronous error.
   */
  int32_t (*poll)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* Makes its kernels end, waits until threads inside NCCL have come out, and frees NCCL's resources. May block
   * forever: call it on a thread that can be left behind. Before NCCL 2.22.3 it always blocks while the communicator is
   * still connecting, and waits for at most 1 s for a thread inside another call. drained() tells when nothing runs any
   * more. Stream, events and memory stay until comm_free(). reached() and wait_on() still work, but nothing is written
   * to host memory any more. All other queued operations are refused. */
  void (*abort)(struct cxxrun_cuda_comm* comm);
  /* OK when abort() has come so far that nothing of this communicator runs on the device or will run: another
   * communicator may begin, and buffers may be used again. IN_PROGRESS before. Otherwise as usable(). */
  int32_t (*drained)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* The orderly end, after everything is done. Blocks; if a peer hangs, forever. */
  int32_t (*finalize)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* Waits for the stream; first aborts a communicator that was neither aborted nor finalized. Frees its memory. */
  void (*comm_free)(struct cxxrun_cuda_comm* comm);

  /* Device memory for in-place use in collectives (ncclMemAlloc, registered: a symmetric window from NCCL 2.29.7 on).
   * Every rank allocates the same sizes in the same order. Zeroed on the communicator's stream. In a collective either
   * the buffers of all ranks are in such memory, at the same offset, or none are. */
  int32_t (*allocate)(struct cxxrun_cuda_comm* comm, uint64_t bytes, void** memory, struct cxxrun_cuda_status* status);

  /* Everything below is queued on the communicator's stream, in call order. */

  /* Later operations run after the work that `user_stream` holds now. */
  int32_t (*after)(struct cxxrun_cuda_comm* comm, void* user_stream, struct cxxrun_cuda_status* status);
  /* The collective with its casts and its scale: sum, then scale; never ncclAvg. In a world of one: a copy if `in` and
   * `out` differ, and a scaling if the scale is not 1.
   * Sums of f16 and bf16, and of f32 with such a wire format, follow NCCL: its kernels for symmetric windows add in f32
   * and round once; all other kernels round at each addition. If a sum in f16 is scaled down, its elements are first
   * multiplied by a power of two, so that a sum of finite numbers is finite if its mean is. UNSUPPORTED: min and max of
   * floating point types, where NCCL loses NaNs. A barrier is queued too: mark() after it. */
  int32_t (*enqueue)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_call const* call,
                     struct cxxrun_cuda_status* status);
  /* data[i] *= factor; f32, f64, f16, bf16. A factor of 0 gives zeros, whatever the data. */
  int32_t (*multiply)(struct cxxrun_cuda_comm* comm, uint8_t type, void* data, uint64_t count, double factor,
                      struct cxxrun_cuda_status* status);
  /* *sum (one f64 on the device) += Σ data[i]². Equal data give equal bits. */
  int32_t (*add_squares)(struct cxxrun_cuda_comm* comm, uint8_t type, void const* data, uint64_t count, double* sum,
                         struct cxxrun_cuda_status* status);
  /* Copies between host and device or within the device. Host data goes through pinned memory of the plugin, as much as
   * is copied between two marks, which is kept for reuse. A source on the host may be changed at once; a destination on
   * the host is complete when reached() has returned OK for the mark() after the copy. */
  int32_t (*copy)(struct cxxrun_cuda_comm* comm, void* to, void const* from, uint64_t bytes,
                  struct cxxrun_cuda_status* status);

  /* Marks a point in the stream: a number that grows by one. */
  int32_t (*mark)(struct cxxrun_cuda_comm* comm, uint64_t* point, struct cxxrun_cuda_status* status);
  /* OK: reached. IN_PROGRESS. Otherwise the error of something queued before. */
  int32_t (*reached)(struct cxxrun_cuda_comm* comm, uint64_t point, struct cxxrun_cuda_status* status);
  /* Makes `user_stream` wait for the point; the host does not wait. */
  int32_t (*wait_on)(struct cxxrun_cuda_comm* comm, uint64_t point, void* user_stream,
                     struct cxxrun_cuda_status* status);
  /* 1: memory of a device, or managed; 0: host memory; -1: CUDA reports an error, which is in `status`. */
  int32_t (*is_device_memory)(void const* pointer, struct cxxrun_cuda_status* status);
  /* OK while the device can be used. Otherwise the error of a failed kernel, with which CUDA answers every later call
   * in this process. */
  int32_t (*usable)(struct cxxrun_cuda_comm* comm, struct cxxrun_cuda_status* status);
  /* 1: the stream is being captured into a graph; 0: it is not; -1: as above. after() and wait_on() refuse a captured
   * stream. */
  int32_t (*is_captured)(void* stream, struct cxxrun_cuda_status* status);
};

/* The exported function. `abi` is the caller's; returns NULL if the plugin has another version. */
typedef struct cxxrun_cuda_api const* (*cxxrun_cuda_api_function)(uint32_t abi);
#define CXXRUN_CUDA_SYMBOL "cxxrun_cuda_api"

/* NOLINTEND(readability-identifier-naming) */
#ifdef __cplusplus
}
#endif

#endif
