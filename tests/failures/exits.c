/* For LD_PRELOAD: SIGUSR2 ends the program as if it had called exit(17). */
#include <signal.h>
#include <unistd.h>

static void leave(int number) {
  (void)number;
  _exit(17);
}

__attribute__((constructor)) static void listen(void) {
  signal(SIGUSR2, leave);
}
