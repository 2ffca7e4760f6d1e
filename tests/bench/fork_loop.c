/* fork_loop N program arguments…: the least a launcher can do. Forks and executes N workers one after the other, with
 * RANK and WORLD_SIZE in their environment, and waits for them. Nothing is supervised, redirected or prepared. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int const workers = argc > 2 ? atoi(argv[1]) : 0;
  if (workers <= 0) {
    return 2;
  }
  setenv("WORLD_SIZE", argv[1], 1);
  for (int rank = 0; rank < workers; ++rank) {
    pid_t const pid = fork();
    if (pid < 0) {
      return 1;
    }
    if (pid == 0) {
      char text[12];
      snprintf(text, sizeof text, "%d", rank);
      setenv("RANK", text, 1);
      execv(argv[2], argv + 2);
      _exit(127);
    }
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) {
    failed |= status != 0;
  }
  return failed;
}
