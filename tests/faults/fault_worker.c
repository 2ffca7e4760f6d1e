/* A worker that shows when it ran: FAULTS_DIR/stamps/GENERATION.HOST.RANK holds its first and newest time of
 * CLOCK_BOOTTIME, which all hosts of one machine share, and is locked as long as it lives. With FAULTS_PEERS it sends
 * to the next host as fast as the wire takes it, and takes what comes. Ends with 0 once FAULTS_DIR/finish is there.
 * With the argument "burn" it only keeps a CPU busy. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kStepMs = 5, kIncoming = 16, kChunk = 1 << 16 };
static char const* const kPort = "7000";

struct Stamps {
  int64_t first;
  int64_t last;
  int64_t gap; /* longest time between two stamps: frozen, or the machine is slow */
  int64_t world;
};

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static char const* variable(char const* name) {
  char const* const value = getenv(name);
  if (value == NULL) {
    fprintf(stderr, "fault_worker: %s is not set\n", name);
    exit(2);
  }
  return value;
}

static void check(int result, char const* what) {
  if (result < 0) {
    perror(what);
    exit(2);
  }
}

/* Under its final name the file is whole and locked. */
static struct Stamps* open_stamps(void) {
  char path[4096];
  char hidden[4096 + 8];
  snprintf(path, sizeof path, "%s/stamps/%s.%s.%s", variable("FAULTS_DIR"), variable("CXXRUN_GENERATION"),
           variable("FAULTS_HOST"), variable("RANK"));
  snprintf(hidden, sizeof hidden, "%s.new", path);
  int const fd = open(hidden, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  check(fd, hidden);
  check(ftruncate(fd, sizeof(struct Stamps)), "ftruncate");
  check(flock(fd, LOCK_EX), "flock");
  struct Stamps* const stamps = mmap(NULL, sizeof *stamps, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(stamps == MAP_FAILED ? -1 : 0, "mmap");
  stamps->world = atoi(variable("WORLD_SIZE"));
  stamps->first = stamps->last = now_ns();
  check(rename(hidden, path), path);
  return stamps;
}

static void stamp(struct Stamps* stamps) {
  int64_t const now = now_ns();
  int64_t const gap = now - stamps->last;
  stamps->last = now;
  stamps->gap = gap > stamps->gap ? gap : stamps->gap;
}

static char peers[4096];
static struct pollfd sockets[2 + kIncoming]; /* the listener, the next host, whoever calls */
static int64_t call_at;

/* A socket bound to, or on its way to, peer number `which`. */
static int peer_socket(int which, int listens) {
  char list[sizeof peers];
  strcpy(list, peers);
  char* rest = NULL;
  char* host = strtok_r(list, ",", &rest);
  for (int i = 0; i < which && host != NULL; ++i) {
    host = strtok_r(NULL, ",", &rest);
  }
  struct addrinfo const hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  struct addrinfo* address = NULL;
  if (host == NULL || getaddrinfo(host, kPort, &hints, &address) != 0) {
    return -1;
  }
  int const fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int const yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  int const done = listens ? bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, kIncoming) == 0
                           : connect(fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
  freeaddrinfo(address);
  if (!done) {
    close(fd);
    return -1;
  }
  return fd;
}

static void open_traffic(int own, int count) {
  for (int i = 0; i < 2 + kIncoming; ++i) {
    sockets[i].fd = -1;
    sockets[i].events = POLLIN;
  }
  sockets[1].events = POLLOUT;
  if (count > 1) {
    sockets[0].fd = peer_socket(own, 1);
    sockets[1].fd = peer_socket((own + 1) % count, 0);
  }
}

static void hang_up(struct pollfd* one) {
  close(one->fd);
  one->fd = -1;
}

static void pass_traffic(int own, int count) {
  static char chunk[kChunk];
  if (sockets[0].revents != 0) {
    int const fd = accept4(sockets[0].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int place = 2;
    while (place < 2 + kIncoming - 1 && sockets[place].fd >= 0) {
      ++place;
    }
    close(sockets[place].fd);
    sockets[place].fd = fd;
  }
  if (sockets[1].fd >= 0 && sockets[1].revents != 0 && send(sockets[1].fd, chunk, sizeof chunk, MSG_NOSIGNAL) < 0 &&
      errno != EAGAIN) {
    hang_up(&sockets[1]);
    call_at = now_ns() + 200000000;
  }
  if (count > 1 && sockets[1].fd < 0 && now_ns() >= call_at) {
    call_at = now_ns() + 200000000;
    sockets[1].fd = peer_socket((own + 1) % count, 0);
  }
  for (int i = 2; i < 2 + kIncoming; ++i) {
    if (sockets[i].fd >= 0 && sockets[i].revents != 0) {
      ssize_t const got = recv(sockets[i].fd, chunk, sizeof chunk, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        hang_up(&sockets[i]);
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "burn") == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned long spin = 0;; ++spin) {
    }
  }
  snprintf(peers, sizeof peers, "%s", getenv("FAULTS_PEERS") != NULL ? getenv("FAULTS_PEERS") : "");
  int const own = atoi(variable("FAULTS_HOST"));
  int count = *peers != '\0';
  for (char const* c = peers; *c != '\0'; ++c) {
    count += *c == ',';
  }
  char finish[4096];
  snprintf(finish, sizeof finish, "%s/finish", variable("FAULTS_DIR"));
  struct Stamps* const stamps = open_stamps();
  open_traffic(own, count);
  while (access(finish, F_OK) != 0) {
    poll(sockets, 2 + kIncoming, kStepMs);
    stamp(stamps);
    pass_traffic(own, count);
  }
  return 0;
}
