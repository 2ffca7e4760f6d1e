/* stamp_exec FILE PROGRAM ARGS...: stamps the moment ("begin NS PID") and becomes the program. */
#include "stamp.h"

int main(int argc, char** argv) {
  long long const began = monotonic_ns();
  int const fd = argc > 2 ? open_stamps(argv[1]) : -1;
  if (fd < 0) {
    return 2;
  }
  stamp(fd, "begin %lld %d\n", began, getpid());
  execvp(argv[2], argv + 2);
  return 127;
}
