// A worker that survives its generations, without the runtime: what it does is told by HOW=RANK arguments, of which
// those that name its rank count in its first generation. It notes "GENERATION RANK WORD…" in $DIR/events.
//
//   die=1       waits at the gate `die` (a FIFO in $DIR) and exits with 3
//   early=2     parks before it is told that anything is wrong
//   stubborn=0  does not park when it is told
//   hangs_up=3  parks and closes the connection
//   mute=1      does not register
//   lingers=0   waits at the gate `linger` when there is to be no other generation
//   asked=0     waits until a checkpoint is wanted
//   children=0  has a process in its session whose parent has ended
// Whoever has come so far in its last generation waits at the gate `finish` and exits with 0.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "src/base/os/local_socket.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/futex.hpp"
#include "src/base/worker/recorder.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

std::vector<std::string> how;
bool first = true;     // generation of the job
bool resumed = false;  // this process was there before

std::string variable(char const* name) {
  char const* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

std::uint64_t generation() {
  return std::strtoull(variable("CXXRUN_GENERATION").c_str(), nullptr, 10);
}

void note(std::string const& words) {
  std::string const line = variable("CXXRUN_GENERATION") + " " + variable("RANK") + " " + words + "\n";
  int const fd = open((variable("DIR") + "/events").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (write(fd, line.data(), line.size()) < 0) {
    std::abort();
  }
  close(fd);
}

bool is_told(char const* what) {
  std::string const word = what + ("=" + variable("RANK"));
  for (auto const& one : how) {
    if (first && one == word) {
      return true;
    }
  }
  return false;
}

void gate(char const* name) {
  close(open((variable("DIR") + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
}

struct Heard {
  std::optional<worker::FromAgent> packet;
  os::UniqueFd descriptor;
};

Heard hear(int fd) {
  std::vector<char> bytes(worker::kMostBytes);
  Heard heard;
  ssize_t const n = os::receive_packet(fd, bytes, heard.descriptor);
  if (n > 0) {
    heard.packet = worker::decode_from_agent({bytes.data(), static_cast<std::size_t>(n)});
  }
  return heard;
}

void say(int fd, worker::FromWorker const& packet) {
  std::string const bytes = encode(packet);
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    note(std::string("cannot say: ") + std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
  }
}

void run(int fd, worker::ControlPage& page) {
  worker::Recorder const recorder(page, generation(), true);
  worker::note_step(page, page.step + 1);
  note((resumed ? "resumed " : "up ") + std::to_string(getpid()) + " " + variable("WORLD_SIZE") + " " +
       variable("CXXRUN_SEGMENT"));
  if (is_told("die")) {
    gate("die");
    _exit(3);
  }
  if (is_told("asked")) {
    while (page.checkpoints == 0) {
      worker::futex_wait(page.bell, page.bell, std::chrono::milliseconds(20));
    }
    note("asked " + std::to_string(page.checkpoints));
  }
  if (generation() > 1) {
    gate("finish");
    _exit(0);
  }
  while (!is_told("early") && page.over < generation()) {
    std::uint32_t const bell = page.bell;
    if (page.over < generation()) {
      worker::futex_wait(page.bell, bell, std::chrono::seconds(1));
    }
  }
  if (is_told("stubborn")) {
    note("stays");
    for (;;) {
      pause();
    }
  }
  (void)signal(SIGTERM, SIG_IGN);  // what the page says is to be seen first
  say(fd, worker::Parked{generation(), "so it was told"});
  if (is_told("hangs_up")) {
    close(fd);
  }
  note("parked");
}

/// Until the next generation.
void wait(int fd, worker::ControlPage const& page) {
  for (;;) {
    pollfd watched{fd, POLLIN, 0};
    if (poll(&watched, 1, 20) > 0) {
      auto const heard = hear(fd);
      if (heard.packet && std::holds_alternative<worker::Resume>(*heard.packet)) {
        for (auto const& word : std::get<worker::Resume>(*heard.packet).environment) {
          auto const equals = word.find('=');
          setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
        }
        (void)signal(SIGTERM, SIG_DFL);
        first = false;
        resumed = true;
        return;
      }
    }
    if (page.ends != 0) {
      note("ends");
      if (is_told("lingers")) {
        gate("linger");
      }
      _exit(0);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  how.assign(words + 1, words + count);
  first = generation() == 1;
  if (is_told("mute")) {
    note("up " + std::to_string(getpid()) + " " + variable("WORLD_SIZE"));
    for (;;) {
      pause();
    }
  }
  if (is_told("children") && fork() == 0) {
    if (fork() == 0) {  // its parent ends: it is the agent's child, and in this worker's session
      note("child " + std::to_string(getpid()));
      for (;;) {
        pause();
      }
    }
    _exit(0);
  }
  auto const connection = os::connect_local(variable("CXXRUN_AGENT"), 30'000);
  if (!connection) {
    note("cannot connect: " + connection.error().message());
    return 9;
  }
  int const fd = connection->get();
  say(fd, worker::Register{generation(), 0, true});
  auto const heard = hear(fd);
  if (!heard.descriptor) {
    note("refused");
    return 9;
  }
  auto* const page = static_cast<worker::ControlPage*>(
      mmap(nullptr, sizeof(worker::ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, heard.descriptor.get(), 0));
  for (;;) {
    run(fd, *page);
    wait(fd, *page);
  }
}
