/* One line per event, in one write to a file opened for appending: "EVENT CLOCK_MONOTONIC_NS PID …". */
#ifndef CXXRUN_TESTS_BENCH_STAMP_H
#define CXXRUN_TESTS_BENCH_STAMP_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int open_stamps(char const* path) {
  return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

__attribute__((format(printf, 2, 3))) static void stamp(int fd, char const* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  int const length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0 || length >= (int)sizeof line || write(fd, line, (size_t)length) != length) {
    _exit(99);
  }
}

#endif
