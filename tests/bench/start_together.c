/* start_together FILE N program arguments…: starts N launchers at once and sees them end. Stamps "exec NS PID" right
 * before each exec and "end NS PID STATUS" when wait4 returns; STATUS is the exit code, or minus the signal.
 * Static and tiny, so that neither its fork nor its wake-up is a cost of what it measures. */
#include <stdlib.h>
#include <sys/wait.h>

#include "stamp.h"

int main(int argc, char** argv) {
  int const count = argc > 3 ? atoi(argv[2]) : 0;
  int const fd = count > 0 ? open_stamps(argv[1]) : -1;
  if (fd < 0) {
    return 2;
  }
  for (int i = 0; i < count; ++i) {
    pid_t const pid = fork();
    if (pid < 0) {
      return 1;
    }
    if (pid == 0) {
      stamp(fd, "exec %lld %d\n", monotonic_ns(), getpid());
      execvp(argv[3], argv + 3);
      _exit(127);
    }
  }
  int status = 0;
  for (pid_t pid = 0; (pid = wait4(-1, &status, 0, NULL)) > 0;) {
    long long const ended = monotonic_ns();
    stamp(fd, "end %lld %d %d\n", ended, pid, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return 0;
}
