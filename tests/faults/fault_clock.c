/* For LD_PRELOAD: a wall clock that can jump. The file FAULTS_CLOCK holds the seconds (int64_t) by which it is wrong;
 * it is read at every look at the clock. Other clocks are left alone, and so is what the kernel does by its own wall
 * clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t const* error_seconds;

__attribute__((constructor)) static void open_clock(void) {
  char const* const path = getenv("FAULTS_CLOCK");
  int const fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void* const page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *error_seconds, PROT_READ, MAP_SHARED, fd, 0);
  error_seconds = page == MAP_FAILED ? NULL : page;
  close(fd);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int const result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && error_seconds != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += *error_seconds;
  }
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  int const result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) {
    *result = now.tv_sec;
  }
  return now.tv_sec;
}
