/* stamp_worker FILE SECONDS: a worker that costs nothing. It stamps its first instruction ("start NS PID RANK WORLD"),
 * sleeps with every signal at its default, stamps its last instruction ("exit NS PID") and ends with 0. The sleep is
 * its bound: nothing outlives a broken measurement for longer. */
#include <stdlib.h>

#include "stamp.h"

static char const* variable(char const* name) {
  char const* const value = getenv(name);
  return value != NULL && *value != '\0' ? value : "-1";
}

int main(int argc, char** argv) {
  long long const started = monotonic_ns();
  int const fd = argc == 3 ? open_stamps(argv[1]) : -1;
  if (fd < 0) {
    return 2;
  }
  stamp(fd, "start %lld %d %s %s\n", started, getpid(), variable("RANK"), variable("WORLD_SIZE"));
  double const seconds = atof(argv[2]);
  struct timespec const sleep_for = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&sleep_for, NULL);
  stamp(fd, "exit %lld %d\n", monotonic_ns(), getpid());
  _exit(0);
}
