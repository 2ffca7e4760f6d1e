/* The runtime from C: capi_check MODE, as a rank of two or more. Says what is wrong and exits with 1, else with 0.
 *
 *   calls     each function, and what its arguments may not be
 *   threads   calls of one communicator by several threads
 *   disagree  rank 1 calls another collective than the others
 *   child     a forked child and its parent's handles
 *   dies      rank 1 dies in its first generation, the others go on in their processes (prints "PID RANK after N")
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cxxrun/c.h"

#define CHECK(what) check((what), #what, __LINE__)
#define GOOD(call) CHECK((call) == CXXRUN_OK)
#define REFUSED(call, why) refused((call), (why), __LINE__)

static cxxrun_comm* comm;
static cxxrun_facts facts;

static void check(int good, const char* what, int line) {
  if (!good) {
    fprintf(stderr, "capi_check.c:%d: rank %d: %s; last error: %s\n", line, facts.rank, what, cxxrun_error());
    _exit(1);
  }
}

static void refused(int32_t status, const char* why, int line) {
  cxxrun_failure last;
  GOOD(cxxrun_last_failure(&last, sizeof last));
  check(status == CXXRUN_USAGE && last.status == CXXRUN_USAGE, why, line);
  check(strstr(cxxrun_error(), why) != NULL, why, line);
}

static void begin(int survive) {
  cxxrun_options options = {0};
  options.size = sizeof options;
  options.survive = survive;
  GOOD(cxxrun_init(&options, &comm));
  GOOD(cxxrun_get_facts(comm, &facts, sizeof facts));
}

static void reduce(void) {
  float in[3] = {1, 2, (float)facts.rank}, out[3] = {0};
  int64_t most = facts.rank;
  cxxrun_work* work = NULL;
  GOOD(cxxrun_all_reduce(comm, in, out, 3, CXXRUN_F32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 0.5F, NULL, NULL));
  CHECK(out[0] == 0.5F * (float)facts.world_size && out[1] == (float)facts.world_size && in[0] == 1.0F);
  GOOD(cxxrun_all_reduce(comm, &most, &most, 1, CXXRUN_I64, CXXRUN_MAX, CXXRUN_WIRE_SAME, 1.0F, NULL, &work));
  GOOD(cxxrun_wait(work, -1));
  CHECK(most == facts.world_size - 1);
  REFUSED(cxxrun_wait(work, 0), "work is not a handle of this process, or was released");
}

static void scatter(void) {
  int32_t in[64], out[64], part = -1;
  for (int i = 0; i < facts.world_size; ++i) {
    in[i] = i;
  }
  GOOD(cxxrun_reduce_scatter(comm, in, &part, 1, CXXRUN_I32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 1.0F, NULL, NULL));
  CHECK(part == facts.rank * facts.world_size);
  GOOD(cxxrun_all_gather(comm, &part, out, 1, CXXRUN_I32, NULL, NULL));
  for (int i = 0; i < facts.world_size; ++i) {
    CHECK(out[i] == i * facts.world_size);
    in[i] = 100 * facts.rank + i;
  }
  GOOD(cxxrun_all_to_all(comm, in, out, 1, CXXRUN_I32, NULL, NULL));
  for (int i = 0; i < facts.world_size; ++i) {
    CHECK(out[i] == 100 * i + facts.rank);
  }
  GOOD(cxxrun_broadcast(comm, &part, 1, CXXRUN_I32, facts.world_size - 1, NULL, NULL));
  CHECK(part == (facts.world_size - 1) * facts.world_size);
}

/* Where it is, and in a group, which copies it. */
static void share(void) {
  enum { COUNT = 50000 };
  void* memory = NULL;
  cxxrun_comm* group = NULL;
  GOOD(cxxrun_arena(comm, COUNT * sizeof(int32_t), &memory));
  CHECK(memory != NULL && (uintptr_t)memory % 4096 == 0);
  int32_t* const values = memory;
  GOOD(cxxrun_split(comm, 0, 0, &group));
  cxxrun_comm* const callers[] = {comm, group};
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < COUNT; ++i) {
      values[i] = i + facts.rank;
    }
    GOOD(cxxrun_all_reduce(callers[k], values, values, COUNT, CXXRUN_I32, CXXRUN_MAX, CXXRUN_WIRE_SAME, 1.0F, NULL,
                           NULL));
    for (int i = 0; i < COUNT; ++i) {
      CHECK(values[i] == i + facts.world_size - 1);
    }
  }
  GOOD(cxxrun_free(group));
}

/* Rank 0 waits for a barrier that the others enter only when it has waited in vain. */
static void wait_in_vain(void) {
  cxxrun_comm* group = NULL;
  cxxrun_work *work = NULL, *other = NULL;
  cxxrun_facts its;
  GOOD(cxxrun_split(comm, 0, -facts.rank, &group));
  GOOD(cxxrun_get_facts(group, &its, sizeof its));
  CHECK(its.rank == facts.world_size - 1 - facts.rank && its.world_rank == facts.rank && its.can_rebuild == 0);
  if (facts.rank == 0) {
    GOOD(cxxrun_barrier(comm, &work));
    CHECK(cxxrun_wait(work, 0) == CXXRUN_NOT_DONE);
    CHECK(cxxrun_wait(work, 20) == CXXRUN_NOT_DONE);
  }
  GOOD(cxxrun_barrier(group, NULL));
  if (facts.rank != 0) {
    GOOD(cxxrun_barrier(comm, &work));
  }
  GOOD(cxxrun_barrier(comm, &other));
  GOOD(cxxrun_wait(work, -1));
  GOOD(cxxrun_wait_on(other, NULL));
  GOOD(cxxrun_forget(other));
  GOOD(cxxrun_forget(NULL));
  REFUSED(cxxrun_forget(other), "work is not a handle");
  REFUSED(cxxrun_wait_on(other, NULL), "work is not a handle");
  GOOD(cxxrun_free(group));
  GOOD(cxxrun_split(comm, facts.rank == 0 ? 7 : -1, 0, &group));
  CHECK((group != NULL) == (facts.rank == 0));
  GOOD(cxxrun_free(group));
}

static void order(void) {
  cxxrun_sampler sampler = {.seed = 5};
  uint64_t samples[8], seen = 0, one = 0;
  size_t taken = 0;
  for (int world = 3; sampler.consumed < 50; world = 5 - world) {
    cxxrun_sampler next = sampler;
    for (int rank = 0; rank < world; ++rank) {
      next = sampler;
      GOOD(cxxrun_sampler_next(&next, 50, CXXRUN_TAIL_UNEVEN, rank, world, 8, samples, &taken));
      for (size_t i = 0; i < taken; ++i) {
        CHECK(samples[i] < 50 && (seen & UINT64_C(1) << samples[i]) == 0);
        seen |= UINT64_C(1) << samples[i];
      }
    }
    if (sampler.consumed == 0) {
      GOOD(cxxrun_sampler_at(&sampler, 50, 8, &one));
      GOOD(cxxrun_sampler_next(&sampler, 50, CXXRUN_TAIL_UNEVEN, 1, world, 8, samples, &taken));
      CHECK(taken == 8 && samples[0] == one);
    }
    sampler = next;
  }
  CHECK(seen == (UINT64_C(1) << 50) - 1);
  REFUSED(cxxrun_sampler_next(&sampler, 50, 3, 0, 1, 8, samples, &taken), "tail is 3, not 0 to 2");
  REFUSED(cxxrun_sampler_next(&sampler, 40, 0, 0, 1, 8, samples, &taken), "consumed 50 of 40 samples");
  REFUSED(cxxrun_sampler_next(NULL, 50, 0, 0, 1, 8, samples, &taken), "cxxrun_sampler_next: sampler is NULL");
  REFUSED(cxxrun_sampler_at(&sampler, 50, 50, &one), "position 50");
}

/* None of these ends the communicator. */
static void refusals(void) {
  cxxrun_options options = {0};
  cxxrun_comm* other = NULL;
  char host[4];
  float x = 1;
  int32_t wanted = 0;
  cxxrun_recovery recovery;
  REFUSED(cxxrun_init(&options, &other), "options->size is 0");
  options.size = sizeof options;
  options.op_timeout_ms = -1;
  REFUSED(cxxrun_init(&options, &other), "op_timeout_ms is -1");
  options.op_timeout_ms = 0;
  options.shrink = 2;
  REFUSED(cxxrun_init(&options, &other), "shrink is 2, not 0 to 1");
  REFUSED(cxxrun_init(NULL, NULL), "cxxrun_init: comm is NULL");
  REFUSED(cxxrun_barrier(NULL, NULL), "comm is not a handle of this process, or was released");
  REFUSED(cxxrun_barrier((cxxrun_comm*)&x, NULL), "cxxrun_barrier: comm is not a handle");
  REFUSED(cxxrun_all_reduce(comm, &x, &x, 1, 7, 0, 0, 1.0F, NULL, NULL), "type is 7, not 0 to 6");
  REFUSED(cxxrun_all_reduce(comm, &x, &x, 1, 0, 3, 0, 1.0F, NULL, NULL), "op is 3, not 0 to 2");
  REFUSED(cxxrun_all_reduce(comm, &x, &x, 1, 0, 0, -1, 1.0F, NULL, NULL), "wire is -1, not 0 to 2");
  REFUSED(cxxrun_split(comm, 0, 0, NULL), "group is NULL");
  REFUSED(cxxrun_arena(comm, 1, NULL), "memory is NULL");
  REFUSED(cxxrun_checkpoint_wanted(comm, NULL), "wanted is NULL");
  REFUSED(cxxrun_meet(comm, 0, 2, &recovery), "fresh is 2");
  REFUSED(cxxrun_get_host(comm, facts.world_size, host, sizeof host), "there is no rank");
  REFUSED(cxxrun_rebuild(comm), "rebuild() needs");
  REFUSED(cxxrun_free((cxxrun_comm*)&x), "cxxrun_free: comm is not a handle");
  GOOD(cxxrun_get_host(comm, 0, host, sizeof host));
  CHECK(strlen(host) <= 3);
  CHECK(strlen(facts.store_host) > 0 && facts.store_port > 0);
  REFUSED(cxxrun_watch(NULL, 0), "cxxrun_watch: comm is not a handle");
  CHECK(cxxrun_watch(comm, 1) == CXXRUN_NOT_DONE);
  float gate = 0;
  GOOD(cxxrun_gate(&gate));
  GOOD(cxxrun_gate(NULL));
  GOOD(cxxrun_free(NULL));
  GOOD(cxxrun_report_step(comm, 1));
  REFUSED(cxxrun_report_checkpoint(comm, -1), "cxxrun_report_checkpoint: held_ms is -1, not 0 or more");
  GOOD(cxxrun_report_checkpoint(comm, INT64_MAX));
  GOOD(cxxrun_checkpoint_wanted(comm, &wanted));
  CHECK(wanted == CXXRUN_NO_CHECKPOINT);
  GOOD(cxxrun_meet(comm, facts.rank == 1 ? 4 : 3, 0, &recovery));
  CHECK(recovery.load == 0 && recovery.share == 1 && recovery.donor == 1);
}

static void calls(void) {
  char line[200];
  CHECK(strcmp(cxxrun_error(), "") == 0);
  begin(0);
  CHECK(facts.world_size > 1 && facts.generation == 1 && facts.can_rebuild == 0 && facts.on_device == 0);
  GOOD(cxxrun_get_host(comm, -1, line, sizeof line));
  CHECK(strstr(line, "host backend") != NULL);
  CHECK(strchr(cxxrun_version(), '.') != NULL);
  reduce();
  scatter();
  share();
  wait_in_vain();
  order();
  refusals();
  reduce();
  GOOD(cxxrun_free(comm));
  REFUSED(cxxrun_barrier(comm, NULL), "comm is not a handle");
}

enum { THREADS = 4, CALLS = 1000, COUNT = 100 };
static int32_t buffers[THREADS][COUNT];
static pthread_barrier_t all_there;

static void* call_often(void* buffer) {
  int32_t* const values = buffer;
  cxxrun_work* work = NULL;
  pthread_barrier_wait(&all_there);
  for (int i = 0; i < CALLS; ++i) {
    for (int k = 0; k < COUNT; ++k) {
      values[k] = k;
    }
    GOOD(cxxrun_all_reduce(comm, values, values, COUNT, CXXRUN_I32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 1.0F, NULL, &work));
    GOOD(cxxrun_wait(work, -1));
    for (int k = 0; k < COUNT; ++k) {
      CHECK(values[k] == k * facts.world_size);
    }
  }
  REFUSED(cxxrun_wait(NULL, 0), "work is not a handle"); /* of this thread alone */
  return NULL;
}

static void threads(void) {
  pthread_t started[THREADS];
  begin(0);
  CHECK(pthread_barrier_init(&all_there, NULL, THREADS) == 0);
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_create(&started[i], NULL, call_often, buffers[i]) == 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_join(started[i], NULL) == 0);
  }
  CHECK(strcmp(cxxrun_error(), "") == 0);
  GOOD(cxxrun_free(comm));
}

static void disagree(void) {
  float x = 1;
  begin(0);
  REFUSED(facts.rank == 1
              ? cxxrun_barrier(comm, NULL)
              : cxxrun_all_reduce(comm, &x, &x, 1, CXXRUN_F32, CXXRUN_SUM, CXXRUN_WIRE_SAME, 1.0F, NULL, NULL),
          "ranks disagree");
  REFUSED(cxxrun_barrier(comm, NULL), "ranks disagree"); /* it is finished */
}

static void child(void) {
  int status = 0;
  begin(0);
  pid_t const pid = fork();
  if (pid == 0) {
    REFUSED(cxxrun_barrier(comm, NULL), "comm is not a handle of this process");
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  GOOD(cxxrun_barrier(comm, NULL));
  GOOD(cxxrun_free(comm));
}

/* Calls nothing, and hears of it all the same. */
static void watch(void) {
  cxxrun_failure last;
  CHECK(cxxrun_watch(comm, -1) == CXXRUN_PEER_FAILURE);
  GOOD(cxxrun_last_failure(&last, sizeof last));
  CHECK(last.why == CXXRUN_STOPPED && last.rank == -1 && last.generation == 1);
}

static void notice(void) {
  cxxrun_failure last;
  cxxrun_work* work = NULL;
  GOOD(cxxrun_barrier(comm, &work));
  CHECK(cxxrun_wait(work, -1) == CXXRUN_PEER_FAILURE);
  GOOD(cxxrun_last_failure(&last, sizeof last));
  CHECK(last.status == CXXRUN_PEER_FAILURE && last.why == CXXRUN_DIED && last.rank == 1 && last.generation == 1);
  CHECK(strlen(last.host) > 0 && strstr(cxxrun_error(), "rank 1 on") != NULL && last.after_us >= 0);
}

static void dies(void) {
  begin(1);
  if (facts.generation == 1) {
    CHECK(facts.can_rebuild == 1);
    GOOD(cxxrun_barrier(comm, NULL));
    if (facts.rank == 1) {
      raise(SIGKILL);
    }
    facts.rank == 2 ? watch() : notice();
    while (cxxrun_rebuild(comm) == CXXRUN_PEER_FAILURE) {
    }
    GOOD(cxxrun_get_facts(comm, &facts, sizeof facts));
  }
  CHECK(facts.generation == 2);
  reduce();
  printf("%d %" PRId32 " after %" PRIu64 "\n", (int)getpid(), facts.rank, facts.generation);
  GOOD(cxxrun_barrier(comm, NULL));
  GOOD(cxxrun_free(comm));
}

int main(int count, char** words) {
  static const struct {
    const char* name;
    void (*run)(void);
  } modes[] = {{"calls", calls}, {"threads", threads}, {"disagree", disagree}, {"child", child}, {"dies", dies}};
  for (size_t i = 0; count == 2 && i < sizeof modes / sizeof *modes; ++i) {
    if (strcmp(words[1], modes[i].name) == 0) {
      modes[i].run();
      return 0;
    }
  }
  return 2;
}
