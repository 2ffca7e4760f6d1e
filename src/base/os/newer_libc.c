// Functions that the compiler's libraries and Boost need and glibc 2.28 lacks, for binaries that run on every machine.
// They are hidden, so that libraries loaded later do not see them. Compiled only with CXXRUN_SYSROOT.
#define _GNU_SOURCE  // NOLINT: for dl_find_object
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((visibility("hidden")))

OURS char __libc_single_threaded = 0;  // "threads may run": always correct, only a little slower

OURS int close_range(unsigned first, unsigned last, int flags) {
  return (int)syscall(SYS_close_range, first, last, flags);
}

OURS uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
  }
  return number;
}

typedef int Wait(pthread_cond_t*, pthread_mutex_t*, clockid_t, struct timespec const*);

// Waits by the wall clock if libc has no such function. Callers wait by the steady clock and look at it again when they
// wake, so waking too early is harmless. The wait is too long if the wall clock is set back meanwhile.
OURS int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                struct timespec const* until) {
  Wait* wait = NULL;
  *(void**)&wait = dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  if (wait != NULL) {
    return wait(condition, mutex, clock, until);
  }
  struct timespec now;
  struct timespec wall;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += 1000000000;
    --wall.tv_sec;
  } else if (wall.tv_nsec >= 1000000000) {
    wall.tv_nsec -= 1000000000;
    ++wall.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &wall);
}

struct Wanted {
  uintptr_t address;
  struct dl_find_object* found;
};

// Whether the object contains the address; if so, fills in what the unwinder needs.
static int look(struct dl_phdr_info* object, size_t size, void* wanted) {
  (void)size;
  struct Wanted const* const want = wanted;
  uintptr_t first = UINTPTR_MAX;
  uintptr_t end = 0;
  uintptr_t frames = 0;
  bool inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    ElfW(Phdr) const* const part = &object->dlpi_phdr[i];
    uintptr_t const begins = object->dlpi_addr + part->p_vaddr;
    uintptr_t const ends = begins + part->p_memsz;
    if (part->p_type == PT_GNU_EH_FRAME) {
      frames = begins;
    } else if (part->p_type == PT_LOAD) {
      first = begins < first ? begins : first;
      end = ends > end ? ends : end;
      inside = inside || (want->address >= begins && want->address < ends);
    }
  }
  if (!inside || frames == 0) {
    return 0;
  }
  want->found->dlfo_flags = 0;
  want->found->dlfo_map_start = (void*)first;  // NOLINT(performance-no-int-to-ptr)
  want->found->dlfo_map_end = (void*)end;      // NOLINT(performance-no-int-to-ptr)
  want->found->dlfo_link_map = NULL;
  want->found->dlfo_eh_frame = (void*)frames;  // NOLINT(performance-no-int-to-ptr)
  return 1;
}

OURS __attribute__((nothrow)) int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Wanted want = {(uintptr_t)address, found};
  return dl_iterate_phdr(look, &want) == 1 ? 0 : -1;
}
