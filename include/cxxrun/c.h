/* The gradient runtime for programs that are not C++: libcxxrun_c.so.0, for ctypes, cffi, dlopen() and C99.
 *
 *   cxxrun_comm* comm;
 *   if (cxxrun_init(NULL, &comm) != CXXRUN_OK) { puts(cxxrun_error()); exit(1); }
 *   float values[1000] = {...};
 *   cxxrun_all_reduce(comm, values, values, 1000, CXXRUN_F32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 1.0F, NULL, NULL);
 *   cxxrun_free(comm);
 *
 * What the calls mean is told in cxxrun/communicator.hpp and docs/use/communicator.md; this says what C changes.
 *
 * Status: every function that can fail returns one (enum cxxrun_status), 0 when all is well. After any other
 *   cxxrun_error() has one line for a person and cxxrun_last_failure() the facts, both for the thread that called, until
 *   its next failure. Where a call fails, what it returns through pointers is not written, unless said otherwise. No
 *   exception leaves the library. After CXXRUN_PEER_FAILURE this process is healthy and another is not:
 *   cxxrun_rebuild(), if it can, or end. After any status but that, CXXRUN_OK and CXXRUN_NOT_DONE a person has to mend
 *   something; but CXXRUN_USAGE that names an argument of this header (a null pointer, a handle) left all as it was.
 * Handles: cxxrun_comm and cxxrun_work are never dereferenced: one that is null, was released or is anything else is
 *   CXXRUN_USAGE, not a crash. Buffers are the caller's, and are not checked.
 * Threads: every function may be called by any thread. Calls on one communicator that say "in turn" are carried out one
 *   after the other: a second thread's waits for the first's. Which of them comes first must be the same on every rank.
 * Blocking: said of each function, with its limit. Nothing looks for signals: a program that wants to notice Ctrl-C
 *   starts calls in the background and waits for them with cxxrun_wait() for a fraction of a second at a time, or makes
 *   the call on a thread of its own.
 * fork: a child knows none of the handles of its parent, and they go on there.
 * Sizes are in elements, times in milliseconds, unless the name says otherwise. Structs only ever grow at their end.
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
  CXXRUN_NOT_DONE = 2,     /* of cxxrun_wait(): not yet; no failure, and cxxrun_error() stays what it was */
  /* A failure of this rank, or of all alike (enum Errc of cxxrun/error.hpp): */
  CXXRUN_USAGE = 10,       /* the arguments cannot be meant as given, or ranks disagree about a call */
  CXXRUN_ENVIRONMENT = 11, /* environment variables are missing, malformed or contradict each other */
  CXXRUN_NOT_FOUND = 12,
  CXXRUN_PERMISSION = 13,
  CXXRUN_IN_USE = 14,
  CXXRUN_REFUSED = 15,
  CXXRUN_TIMEOUT = 16, /* ranks did not come to the meeting; a peer late in a collective is a CXXRUN_PEER_FAILURE */
  CXXRUN_CLOSED = 17,  /* of cxxrun_rebuild(): the job ends, no generation follows */
  CXXRUN_PROTOCOL = 18,
  CXXRUN_IO = 19,
  CXXRUN_NO_MEMORY = 30,
  CXXRUN_UNEXPECTED = 31 /* a defect of the library */
};

/* Why another rank failed. */
enum cxxrun_why {
  CXXRUN_DIED = 0,    /* its process ended */
  CXXRUN_LEFT = 1,    /* it released its communicator, or its own call was refused, while others still called */
  CXXRUN_LATE = 2,    /* it is there and did not arrive within op_timeout */
  CXXRUN_LOST = 3,    /* its connection broke or went silent */
  CXXRUN_STOPPED = 4  /* the launcher ended the generation: rank is -1 */
};

enum cxxrun_type { CXXRUN_F32, CXXRUN_F64, CXXRUN_F16, CXXRUN_BF16, CXXRUN_I32, CXXRUN_I64, CXXRUN_U8 };
enum cxxrun_op { CXXRUN_SUM, CXXRUN_MIN, CXXRUN_MAX };
enum cxxrun_wire { CXXRUN_WIRE_SAME, CXXRUN_WIRE_BF16, CXXRUN_WIRE_F16 }; /* of f32 between nodes */
enum cxxrun_backend { CXXRUN_AUTOMATIC, CXXRUN_NCCL, CXXRUN_HOST }; /* automatic: host; device memory wants NCCL */

/* ---- failures ---- */

typedef struct cxxrun_failure {
  int32_t status;      /* enum cxxrun_status; CXXRUN_OK: this thread has seen no failure */
  int32_t os_errno;    /* errno behind it, or 0 */
  int32_t why;         /* from here on of CXXRUN_PEER_FAILURE only: enum cxxrun_why */
  int32_t rank;        /* whose failure, as the whole world numbers ranks; -1: nobody's */
  uint64_t generation; /* in which it happened */
  int64_t after_us;    /* microseconds from the start of the call that noticed */
  char host[256];      /* where that rank ran; "" */
} cxxrun_failure;

/* "0.1.0": of this library. A worker's library and its launcher have the same major and minor number. Never fails. */
const char* cxxrun_version(void);
/* One line; "" before this thread's first failure. The text stays until this thread's next failure. Never fails. */
const char* cxxrun_error(void);
/* The facts of that failure; `size` = sizeof(cxxrun_failure). Never blocks. */
int32_t cxxrun_last_failure(cxxrun_failure* failure, size_t size);

/* ---- communicators ---- */

typedef struct cxxrun_options {
  size_t size;               /* sizeof(cxxrun_options) */
  int64_t op_timeout_ms;     /* how long one collective waits for a peer; 0: 5 min. CXXRUN_OP_TIMEOUT overrides it */
  int64_t init_timeout_ms;   /* how long cxxrun_init() waits for all ranks; 0: 5 min */
  int64_t abort_deadline_ms; /* how long giving up NCCL may take in cxxrun_rebuild(); 0: 4 s */
  int32_t backend;           /* enum cxxrun_backend; CXXRUN_BACKEND in the environment overrides it */
  int32_t survive;           /* 1: after CXXRUN_PEER_FAILURE this process calls cxxrun_rebuild() instead of ending */
  int32_t shrink;            /* 1, with `survive`: when it dies, other nodes do not wait for its node (communicator.hpp) */
} cxxrun_options;

/* Meets the other ranks that the environment names. NULL: all defaults. Blocks for at most init_timeout; with `survive`
 * under cxxrun as long as it takes to form a generation. One of several communicators of a process is made in the same
 * order on every rank. */
int32_t cxxrun_init(const cxxrun_options* options, cxxrun_comm** comm);
/* Leaves the others and releases the handle, when calls under way are done, those in the background too. Ranks that still
 * call get CXXRUN_PEER_FAILURE (left): end with cxxrun_barrier(). A process that ends without it has died, for its peers.
 * NULL: nothing. In turn. */
int32_t cxxrun_free(cxxrun_comm* comm);

/* After CXXRUN_PEER_FAILURE: waits for the next generation and meets its ranks. The handle stays; works and groups of
 * before are finished: release them, and split anew. Blocks for as long as the launcher takes. CXXRUN_PEER_FAILURE: call
 * it again. CXXRUN_USAGE: see can_rebuild. CXXRUN_CLOSED: the job ends. In turn. */
int32_t cxxrun_rebuild(cxxrun_comm* comm);
/* The ranks that give the same color become a group: ordered by key, then by rank. A negative color: none, *group is
 * NULL. Every rank calls it. Blocks like a collective. In turn. */
int32_t cxxrun_split(cxxrun_comm* comm, int32_t color, int32_t key, cxxrun_comm** group);

/* Memory that collectives of `comm`, not those of groups split from it, use where it is instead of copying
 * (cxxrun/arena.hpp). The same number of `bytes` on every rank. *memory begins a page, and is there until cxxrun_rebuild()
 * or cxxrun_free() is called. CXXRUN_IO: no memory; nothing else can be called with `comm` then. Every rank calls it.
 * Blocks like a collective. In turn. */
int32_t cxxrun_arena(cxxrun_comm* comm, size_t bytes, void** memory);

typedef struct cxxrun_facts {
  int32_t rank, world_size;             /* of this communicator */
  int32_t world_rank;                   /* this rank in the whole world: what failures name */
  int32_t local_rank, local_world_size; /* on this node, as the environment of this generation says */
  int32_t group_rank, group_world_size; /* this node among the nodes */
  int32_t restart_count;
  uint64_t generation; /* grows by one whenever the job re-forms; 0 without cxxrun */
  int32_t can_rebuild; /* 0: no launcher that can, no `survive`, a group, or a rank that the others gave up */
  int32_t on_device;   /* 1: collectives may take device memory (NCCL) */
  int32_t store_port;  /* of the c10d store of this generation, as is store_host; 0: there is none */
  char store_host[256];
} cxxrun_facts;

/* Of the world that was met last; `size` = sizeof(cxxrun_facts). In turn. */
int32_t cxxrun_get_facts(cxxrun_comm* comm, cxxrun_facts* facts, size_t size);
/* The host of a rank of this communicator (rank -1: a line that describes the communicator, for a log). The text is cut
 * to `size` bytes with its final 0. In turn. */
int32_t cxxrun_get_host(cxxrun_comm* comm, int32_t rank, char* text, size_t size);

/* For a thread that ends what is not this library's when a peer has failed: CXXRUN_PEER_FAILURE (stopped) as soon as the
 * launcher says that the generation is over; CXXRUN_NOT_DONE when it has not within `timeout_ms` (-1: without limit), and
 * always where no launcher can be told. Begins in turn; other calls, cxxrun_free() too, go on meanwhile. */
int32_t cxxrun_watch(cxxrun_comm* comm, int64_t timeout_ms);

/* For work on a device that is queued behind collectives, such as an update that must not be made of what an abort has
 * left: 1 is stored at `flag`, in memory that the device reads, before NCCL is given up in this process; the program puts
 * 0 there after cxxrun_rebuild(). NULL: nowhere any more. One for all communicators. Never blocks for long. */
int32_t cxxrun_gate(float* flag);

/* ---- collectives: in turn ----
 *
 * `work` NULL: blocks until done on this rank, for at most about op_timeout. Otherwise begins it in the background, and
 * *work is a handle for cxxrun_wait(); buffers stay until it is done. Calls are carried out in the order in which they
 * are made, the same on every rank, with the same counts, types and operations. At most 256 wait; one more blocks.
 * `type`, `op`, `wire`: the enums above. `scale` multiplies the result (floating point; else 1.0F).
 * `stream`: a cudaStream_t whose work of now comes first, with device memory; NULL: the default stream; else ignored.
 */

/* out[i] = scale * op over all ranks of in[i], i < count; `in` may be `out`. */
int32_t cxxrun_all_reduce(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, int32_t op,
                          int32_t wire, float scale, void* stream, cxxrun_work** work);
/* `count` elements out, world_size * count in: rank r gets the r-th part of the reduction. */
int32_t cxxrun_reduce_scatter(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, int32_t op,
                              int32_t wire, float scale, void* stream, cxxrun_work** work);
/* `count` elements in, world_size * count out. */
int32_t cxxrun_all_gather(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, void* stream,
                          cxxrun_work** work);
/* Every rank's buffer becomes that of `root` (a rank of this communicator). */
int32_t cxxrun_broadcast(cxxrun_comm* comm, void* data, size_t count, int32_t type, int32_t root, void* stream,
                         cxxrun_work** work);
/* Part r of `in` goes to rank r, who finds it at part (my rank) of `out`; a part is `count` elements; distinct
 * buffers. */
int32_t cxxrun_all_to_all(cxxrun_comm* comm, const void* in, void* out, size_t count, int32_t type, void* stream,
                          cxxrun_work** work);
/* Done when every rank has called it. */
int32_t cxxrun_barrier(cxxrun_comm* comm, cxxrun_work** work);

/* Waits for at most `timeout_ms`: 0 only looks, -1 without limit (the call itself ends about op_timeout after its turn).
 * CXXRUN_NOT_DONE: not yet, wait again. Anything else is how the call ended, and releases the handle. */
int32_t cxxrun_wait(cxxrun_work* work, int64_t timeout_ms);
/* Of device memory: `stream` goes on when the call is done, and the host at once. Otherwise waits without limit. The
 * handle stays. */
int32_t cxxrun_wait_on(cxxrun_work* work, void* stream);
/* Releases the handle and does not wait: the call goes on, and its buffers have to stay. NULL: nothing. */
int32_t cxxrun_forget(cxxrun_work* work);

/* ---- training ---- */

/* After a step: `completed` of them are done, in all generations together. What it costs is a store to memory. */
int32_t cxxrun_report_step(cxxrun_comm* comm, uint64_t completed);

enum cxxrun_wanted {
  CXXRUN_NO_CHECKPOINT = 0,
  CXXRUN_CHECKPOINT = 1,    /* save and go on: --checkpoint-signal */
  CXXRUN_CHECKPOINT_END = 2 /* save and leave the loop: the job has been told to end (preemption, SIGTERM, drain) */
};
/* Whether a checkpoint has been asked for. Collective: every rank calls it equally often, best once after each step,
 * and all get the same answer in the same call, also when only one of them was asked; the answer is that of one call
 * ago, and begins a 4-byte maximum in the background. Each request is answered once. Blocks only where that maximum of
 * one call ago is not done yet. In turn. */
int32_t cxxrun_checkpoint_wanted(cxxrun_comm* comm, int32_t* wanted);

typedef struct cxxrun_recovery {
  int32_t load;  /* 1: rank 0 loads the latest checkpoint first (if there is one) */
  int32_t share; /* 1, 2: then all take the state of rank `donor`, such as by cxxrun_broadcast(). 1: who is not fresh and
                  * at the same step has it already; 2, to a rank without which others have gone on: it has not */
  int32_t donor;
} cxxrun_recovery;
/* How all ranks come to the same state; the first call of every rank in every generation. `completed`: steps in this
 * process's state; `fresh`: 1 for a process that has trained, loaded and taken nothing yet, and for one whose last share
 * was cut off by a failure while it changed its state. The same answer on every rank, but for 1 and 2; with both load and share 0 all
 * have the same state already. Blocks like a collective. In turn. */
int32_t cxxrun_meet(cxxrun_comm* comm, uint64_t completed, int32_t fresh, cxxrun_recovery* recovery);

/* ---- the order of samples (cxxrun/elastic_sampler.hpp); pure, no communicator ---- */

enum cxxrun_tail { CXXRUN_TAIL_UNEVEN, CXXRUN_TAIL_DROP, CXXRUN_TAIL_PAD };
/* All there is to save. A new epoch: epoch + 1 and consumed 0; the epoch is done when consumed == size. */
typedef struct cxxrun_sampler {
  uint64_t seed, epoch, consumed;
} cxxrun_sampler;
/* The samples of `rank` in the next step of `world` ranks: at most `per_rank` numbers below `size`, to `samples`, and
 * how many to *taken; moves `sampler` on by the step of all ranks. */
int32_t cxxrun_sampler_next(cxxrun_sampler* sampler, uint64_t size, int32_t tail, int32_t rank, int32_t world,
                            size_t per_rank, uint64_t* samples, size_t* taken);
/* The sample at a position (below `size`) of the epoch. */
int32_t cxxrun_sampler_at(const cxxrun_sampler* sampler, uint64_t size, uint64_t position, uint64_t* sample);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */
#endif /* CXXRUN_C_H */
