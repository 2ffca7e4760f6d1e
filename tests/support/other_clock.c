/* Preloaded into a program whose clock is to be wrong: CXXRUN_TEST_CLOCK seconds ahead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t ahead(void) {
  char const* const seconds = getenv("CXXRUN_TEST_CLOCK");
  return seconds == NULL ? 0 : (time_t)strtol(seconds, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int (*real)(clockid_t, struct timespec*) = NULL;
  *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
  int const result = real(clock, now);
  if (clock == CLOCK_REALTIME) {
    now->tv_sec += ahead();
  }
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where != NULL) {
    *where = now.tv_sec;
  }
  return now.tv_sec;
}
