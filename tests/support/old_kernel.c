// Runs a command as a kernel of the time of Linux 4.18 would: calls that are newer are answered with ENOSYS, and what
// newer kernels added to older calls with EINVAL.
//   old_kernel COMMAND …           ENOSYS
//   old_kernel --eperm COMMAND …   EPERM, as filters of containers do; clone3 is ENOSYS there too, or no thread starts
// A filter sees numbers only: what a call finds in memory, in /proc and in sockets is the new kernel's.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  kFirstNewer = 424,      // pidfd_send_signal, on every architecture; what is between rseq and it came later, too
  kNewMemfdFlags = 0x18,  // MFD_NOEXEC_SEAL, MFD_EXEC
  kWaitByPidfd = 3
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no)
#define ANSWER(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)(error))

static int become_old(int answer) {
  struct sock_filter filter[] = {
      LOAD(nr),
      JUMP(BPF_JGE, kFirstNewer, 0, 3),
      JUMP(BPF_JEQ, SYS_clone3, 0, 1),
      ANSWER(ENOSYS),
      ANSWER(answer),
      JUMP(BPF_JEQ, SYS_waitid, 0, 2),
      LOAD(args[0]),
      JUMP(BPF_JEQ, kWaitByPidfd, 4, 3),
      JUMP(BPF_JEQ, SYS_memfd_create, 0, 2),
      LOAD(args[1]),
      JUMP(BPF_JSET, kNewMemfdFlags, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      ANSWER(EINVAL),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) {
    return 0;  // root: sudo and its like go on working
  }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

int main(int count, char** arguments) {
  int const forbids = count > 1 && strcmp(arguments[1], "--eperm") == 0;
  char** const command = arguments + 1 + forbids;
  if (*command == NULL) {
    fprintf(stderr, "old_kernel: usage: old_kernel [--eperm] COMMAND ...\n");
    return 100;
  }
  if (become_old(forbids ? EPERM : ENOSYS) != 0) {
    perror("old_kernel: no filter");
    return 111;
  }
  execvp(*command, command);
  perror(*command);
  return 127;
}
