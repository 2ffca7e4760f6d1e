/* The gradient runtime for programs that are not C++: libcxxrun_c.so.0, for ctypes, cffi, dlopen() and C99.
 *
 *   cxxrun_comm* comm;
 *   if (cxxrun_init(NULL, &comm) != CXXRUN_OK) { puts(cxxrun_error()); exit(1); }
 *   float values[1000] = {...};
 *   cxxrun_all_reduce(comm, values, values, 1000, CXXRUN_F32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 1.0F, NULL, NULL);
 *   cxxrun_free(comm);
 *
 * cxxrun/communicator.hpp and docs/use/communicator.md define the calls; this file only says what is different in C.
 *
 * Status: every function that can fail returns a status (enum cxxrun_status), 0 on success. After any other status
 *   cxxrun_error() has one line for a person and cxxrun_last_failure() has the facts. Both belong to the calling
 *   thread and stay until its next failure. A failed call does not write its output pointers, unless said otherwise.
 *   No exception leaves the library. After CXXRUN_PEER_FAILURE this process is healthy and another one is not: call
 *   cxxrun_rebuild(), if possible, or end. After any other failure a person has to fix something, except that
 *   CXXRUN_USAGE about an argument of this header (a null pointer to a result, a number of no enum, a handle) has
 *   changed nothing. A collective that is refused for its buffers, its root or its scale ends the communicator.
 * Handles: cxxrun_comm and cxxrun_work are never dereferenced. A null, released or invalid handle gives CXXRUN_USAGE,
 *   not a crash. Buffers belong to the caller; only null and overlapping ones are refused.
 * Threads: any thread may call any function. Calls marked "in turn" are serialized per communicator: a second thread
 *   waits for the first. The order of these calls must be the same on every rank.
 * Blocking: stated with its limit for each function. No function reacts to signals. A program that wants to notice
 *   Ctrl-C starts calls in the background and waits with cxxrun_wait() for a fraction of a second at a time, or makes
 *   the calls on a thread of its own.
 * fork: a child cannot use the handles of its parent; they stay valid in the parent.
 * Sizes are in elements and times in milliseconds, unless the name says otherwise. Structs only grow at their end.
 */
#ifndef CXXRUN_C_H
#define CXXRUN_C_H

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(readability-identifier-naming): the names of a C header */
#ifdef __cplusplus
extern "C" {
#endif

typedef struct cxxrun_comm cxxrun_comm; /* a Communicator, or a group split from one */
typedef struct cxxrun_work cxxrun_work; /* a collective in the background */

enum cxxrun_status {
  CXXRUN_OK = 0,
  CXXRUN_PEER_FAILURE = 1, /* another rank died, left or is late; or the generation is over */
  CXXRUN_NOT_DONE = 2,     /* from cxxrun_wait(): not done yet; no failure, cxxrun_error() is unchanged */
  /* Failures of this rank, or of all ranks (enum Errc of cxxrun/error.hpp): */
  CXXRUN_USAGE = 10,       /* invalid arguments, or ranks disagree about a call */
  CXXRUN_ENVIRONMENT = 11, /* environment variables are missing, malformed or contradict each other */
  CXXRUN_NOT_FOUND = 12,
  CXXRUN_PERMISSION = 13,
  CXXRUN_IN_USE = 14,
  CXXRUN_REFUSED = 15,
  CXXRUN_TIMEOUT = 16, /* some ranks did not come; a peer that is late in a collective gives CXXRUN_PEER_FAILURE */
  CXXRUN_CLOSED = 17,  /* from cxxrun_rebuild(): the job ends, no generation follows */
  CXXRUN_PROTOCOL = 18,
  CXXRUN_IO = 19,
  CXXRUN_NO_MEMORY = 30,
  CXXRUN_UNEXPECTED = 31 /* a bug in the library */
};

/* How another rank failed. */
enum cxxrun_why {
  CXXRUN_DIED = 0,   /* its process ended */
  CXXRUN_LEFT = 1,   /* it released its communicator, or its own call was refused, while others still called */
  CXXRUN_LATE = 2,   /* it is alive but did not arrive within op_timeout */
  CXXRUN_LOST = 3,   /* its connection broke or went silent */
  CXXRUN_STOPPED = 4 /* the launcher ended the generation: rank is -1 */
};

enum cxxrun_type { CXXRUN_F32, CXXRUN_F64, CXXRUN_F16, CXXRUN_BF16, CXXRUN_I32, CXXRUN_I64, CXXRUN_U8 };
enum cxxrun_op { CXXRUN_SUM, CXXRUN_MIN, CXXRUN_MAX };
enum cxxrun_wire { CXXRUN_WIRE_SAME, CXXRUN_WIRE_BF16, CXXRUN_WIRE_F16 }; /* format of f32 between nodes */
enum cxxrun_backend { CXXRUN_AUTOMATIC, CXXRUN_NCCL, CXXRUN_HOST }; /* automatic: host; device memory needs NCCL */

/* ---- failures ---- */

typedef struct cxxrun_failure {
  int32_t status;      /* enum cxxrun_status; CXXRUN_OK: this thread has had no failure */
  int32_t os_errno;    /* errno behind the failure, or 0 */
  int32_t why;         /* enum cxxrun_why; this and the rest only for CXXRUN_PEER_FAILURE */
  int32_t rank;        /* the rank that failed, by its number in the world; -1: none */
  uint64_t generation; /* in which it failed */
  int64_t after_us;    /* microseconds from the start of the call that noticed */
  char host[256];      /* where that rank ran, or "" */
} cxxrun_failure;

/* Version of this library, "0.1.0". A worker's library and its launcher need the same major and minor number. Never
 * fails. */
const char* cxxrun_version(void);
/* One line about this thread's last failure; "" before the first. Valid until its next failure. Never fails. */
const char* cxxrun_error(void);
/* The facts of that failure; `size` = sizeof(cxxrun_failure). Never blocks. */
int32_t cxxrun_last_failure(cxxrun_failure* failure, size_t size);

/* ---- communicators ---- */

typedef struct cxxrun_options {
  size_t size;               /* sizeof(cxxrun_options) */
  int64_t op_timeout_ms;     /* how long one collective waits for a peer; 0: 5 min. CXXRUN_OP_TIMEOUT overrides it */
  int64_t init_timeout_ms;   /* how long cxxrun_init() waits for all ranks; 0: 5 min */
  int64_t abort_deadline_ms; /* how long aborting NCCL may take in cxxrun_rebuild(); 0: 4 s */
  int32_t backend;           /* enum cxxrun_backend; CXXRUN_BACKEND in the environment overrides it */
  int32_t survive;           /* 1: after CXXRUN_PEER_FAILURE this process calls cxxrun_rebuild() instead of ending */
  int32_t shrink;            /* 1, with `survive`: if this process dies, others go on without its node */
} cxxrun_options;

/* Meets the other ranks named by the environment. NULL: all defaults. Blocks for at most init_timeout; with `survive`
 * under cxxrun for as long as it takes to form a generation. A process that makes several communicators makes them in
 * the same order on every rank. */
int32_t cxxrun_init(const cxxrun_options* options, cxxrun_comm** comm);
/* Waits for the calls in progress, also those in the background, then leaves the other ranks and releases the handle.
 * Ranks that still call get CXXRUN_PEER_FAILURE (left): call cxxrun_barrier() first. A process that ends without this
 * call counts as dead. NULL: does nothing. In turn. */
int32_t cxxrun_free(cxxrun_comm* comm);

/* After CXXRUN_PEER_FAILURE: waits for the next generation and meets its ranks. The handle stays valid. Works and
 * groups of the old generation are finished: release them and split again. Blocks for as long as the launcher takes.
 * CXXRUN_PEER_FAILURE: call it again. CXXRUN_USAGE: see can_rebuild. CXXRUN_CLOSED: the job ends. In turn. */
int32_t cxxrun_rebuild(cxxrun_comm* comm);
/* Ranks that give the same color form a group, ordered by key and then by rank. A negative color: no group, *group is
 * NULL. Every rank calls it. Blocks like a collective. In turn. */
int32_t cxxrun_split(cxxrun_comm* comm, int32_t color, int32_t key, cxxrun_comm** group);

/* Allocates memory that collectives of `comm`, but not of groups split from it, use in place (cxxrun/arena.hpp). Every
 * rank calls it with the same `bytes`. *memory is aligned to a page and valid until cxxrun_rebuild() or cxxrun_free().
 * CXXRUN_IO: no memory, and `comm` is unusable from then on. Blocks like a collective. In turn. */
int32_t cxxrun_arena(cxxrun_comm* comm, size_t bytes, void** memory);

typedef struct cxxrun_facts {
  int32_t rank, world_size;             /* of this communicator */
  int32_t world_rank;                   /* number of this rank in the world, as in failures */
  int32_t local_rank, local_world_size; /* on this node, as in the environment of this generation */
  int32_t group_rank, group_world_size; /* number of this node, and of nodes */
  int32_t restart_count;
  uint64_t generation; /* grows by one whenever the job re-forms; 0 without cxxrun */
  int32_t can_rebuild; /* 0: launcher or `survive` missing, a group, or the others gave this rank up */
  int32_t on_device;   /* 1: collectives accept device memory (NCCL) */
  int32_t store_port;  /* c10d store of this generation at store_host; 0: there is none */
  char store_host[256];
} cxxrun_facts;

/* Facts of the world that was met last; `size` = sizeof(cxxrun_facts). In turn. */
int32_t cxxrun_get_facts(cxxrun_comm* comm, cxxrun_facts* facts, size_t size);
/* The host of a rank of this communicator; with rank -1 a line that describes the communicator, for a log. The text is
 * cut to `size` bytes including the final 0. In turn. */
int32_t cxxrun_get_host(cxxrun_comm* comm, int32_t rank, char* text, size_t size);

/* For a thread that stops other libraries when a peer has failed. Returns CXXRUN_PEER_FAILURE (stopped) as soon as the
 * launcher says that the generation is over, and CXXRUN_NOT_DONE after `timeout_ms` without that (-1: no limit);
 * without such a launcher always CXXRUN_NOT_DONE. Starts in turn; other calls, also cxxrun_free(), are not blocked by
 * the wait. */
int32_t cxxrun_watch(cxxrun_comm* comm, int64_t timeout_ms);

/* Protects device work that is queued behind collectives, such as an optimizer update that must not use the results of
 * an aborted collective. Before NCCL is aborted in this process, 1 is stored at `flag`, which is memory that the device
 * can read. The program resets it to 0 after cxxrun_rebuild(). NULL: no flag. One flag for all communicators. Never
 * blocks for long. */
int32_t cxxrun_gate(float* flag);

/* ---- collectives: in turn ----
 *
 * `work` NULL: blocks until done on this rank, for at most about op_timeout. Otherwise starts the call in the
 * background, and *work is a handle for cxxrun_wait(); the buffers must stay valid until the call is done. Calls run in
 * the order in which they are made, the same on every rank, with the same counts, types and operations. At most 256 can
 * wait; one more blocks.
 * `type`, `op`, `wire`: the enums above. `scale` multiplies the result (floating point types; otherwise pass 1.0F).
 * `stream`: for device memory, a cudaStream_t; the call starts after the work it holds now. NULL: the default stream.
 * Ignored for host memory.
 */

/* out[i] = scale * op over all ranks of in[i], for i < count; `in` may equal `out`. */
int32_t cxxrun_all_reduce(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, int32_t op,
                          int32_t wire, float scale, void* stream, cxxrun_work** work);
/* `out` has `count` elements, `in` world_size * count; rank r gets part r of the reduction. */
int32_t cxxrun_reduce_scatter(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, int32_t op,
                              int32_t wire, float scale, void* stream, cxxrun_work** work);
/* `in` has `count` elements, `out` world_size * count; part r is the `in` of rank r. */
int32_t cxxrun_all_gather(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, void* stream,
                          cxxrun_work** work);
/* Copies the buffer of rank `root` (a rank of this communicator) to all ranks. */
int32_t cxxrun_broadcast(cxxrun_comm* comm, void* data, size_t count, int32_t type, int32_t root, void* stream,
                         cxxrun_work** work);
/* Sends part r of `in` to rank r, which stores it as part (sender's rank) of `out`. A part has `count` elements. The
 * buffers must be distinct. */
int32_t cxxrun_all_to_all(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, void* stream,
                          cxxrun_work** work);
/* Done when every rank has called it. */
int32_t cxxrun_barrier(cxxrun_comm* comm, cxxrun_work** work);

/* Waits for at most `timeout_ms`: 0 only tests, -1 has no limit (the call itself ends within about op_timeout once it
 * runs). CXXRUN_NOT_DONE: wait again. Any other status is the result of the call, and the handle is released. */
int32_t cxxrun_wait(cxxrun_work* work, int64_t timeout_ms);
/* For device memory: makes `stream` wait for the call and returns at once. Otherwise waits without limit. The handle
 * stays valid. */
int32_t cxxrun_wait_on(cxxrun_work* work, void* stream);
/* Releases the handle without waiting: the call continues, and its buffers must stay valid. NULL: does nothing. */
int32_t cxxrun_forget(cxxrun_work* work);

/* ---- training ---- */

/* Reports that `completed` steps are done, in all generations together. Costs one store to memory. */
int32_t cxxrun_report_step(cxxrun_comm* comm, uint64_t completed);
/* Reports that a checkpoint is complete, and that writing it has held up this process for the last `held_ms`: so old is
 * the state in it. One rank is enough. If several ranks write parts of it, it is complete when all have written theirs. */
int32_t cxxrun_report_checkpoint(cxxrun_comm* comm, int64_t held_ms);

enum cxxrun_wanted {
  CXXRUN_NO_CHECKPOINT = 0,
  CXXRUN_CHECKPOINT = 1,    /* save and go on: --checkpoint-signal */
  CXXRUN_CHECKPOINT_END = 2 /* save and leave the loop: the job is to end (preemption, SIGTERM, drain) */
};
/* Whether a checkpoint has been requested. Collective: every rank calls it equally often, best once after each step.
 * All ranks get the same answer in the same call, even if only one of them received the request. The answer is one call
 * old: each call starts a 4-byte maximum in the background, which the next call reads. Each request is answered once.
 * Blocks only if that maximum is not done yet. In turn. */
int32_t cxxrun_checkpoint_wanted(cxxrun_comm* comm, int32_t* wanted);

typedef struct cxxrun_recovery {
  int32_t load;  /* 1: rank 0 first loads the latest checkpoint (if there is one) */
  int32_t share; /* 1 or 2: then all ranks take the state of rank `donor`, for example by cxxrun_broadcast(). 1: a rank
                  * that is not fresh and at the donor's step has that state already. 2, only on a rank without which
                  * others have gone on: it has not */
  int32_t donor;
} cxxrun_recovery;
/* Decides how all ranks reach the same state; every rank makes this its first call in every generation. `completed`:
 * number of steps in this process's state. `fresh`: 1 for a process that has not trained, loaded or received a state
 * yet, and for one whose last share was interrupted by a failure while it changed its state. All ranks get the same
 * answer, except for `share` 1 or 2. If load and share are 0, all ranks have the same state already. Blocks like a
 * collective. In turn. */
int32_t cxxrun_meet(cxxrun_comm* comm, uint64_t completed, int32_t fresh, cxxrun_recovery* recovery);

/* ---- the order of samples (cxxrun/elastic_sampler.hpp); pure, no communicator ---- */

enum cxxrun_tail { CXXRUN_TAIL_UNEVEN, CXXRUN_TAIL_DROP, CXXRUN_TAIL_PAD };
/* Everything to save. New epoch: set epoch + 1 and consumed 0. The epoch is done when consumed == size. */
typedef struct cxxrun_sampler {
  uint64_t seed, epoch, consumed;
} cxxrun_sampler;
/* Writes the samples of `rank` in the next step of `world` ranks to `samples` (at most `per_rank` numbers below `size`)
 * and their number to *taken. Advances `sampler` by the step of all ranks. */
int32_t cxxrun_sampler_next(cxxrun_sampler* sampler, uint64_t size, int32_t tail, int32_t rank, int32_t world,
                            size_t per_rank, uint64_t* samples, size_t* taken);
/* The sample at a position (below `size`) of the epoch. */
int32_t cxxrun_sampler_at(const cxxrun_sampler* sampler, uint64_t size, uint64_t position, uint64_t* sample);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */
#endif /* CXXRUN_C_H */
