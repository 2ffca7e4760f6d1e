// A crowd of strangers: one process, one thread, COUNT connections to a coordinator that know the first frame and
// nothing else, each of which is made anew as soon as it has ended. tests/bench/crowd_bench.py measures beside it.
//
// Usage: stranger_bench PORT COUNT
// Prints "ready" once COUNT connections have been made, and ends when its standard input does: with one JSON object.
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "rendezvous/trust/handshake.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/random.hpp"
#include "src/base/wire/frame.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

constexpr int kCallsPerTurn = 64;

class Strangers {
 public:
  Strangers(std::uint16_t port, std::size_t count)
      : port_(port), epoll_(::epoll_create1(EPOLL_CLOEXEC)), connections_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      idle_.push_back(i);
    }
  }

  void run() {
    pollfd end{STDIN_FILENO, POLLIN, 0};
    while (::poll(&end, 1, 0) == 0) {
      for (int i = 0; i < kCallsPerTurn && !idle_.empty(); ++i) {
        call(idle_.back());
      }
      int const n =
          ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), idle_.empty() ? 10 : 0);
      for (int k = 0; k < n; ++k) {
        auto const& event = events_[static_cast<std::size_t>(k)];
        serve(event.data.u64, event.events);
      }
      if (calls_ >= connections_.size() && !std::exchange(ready_, true)) {
        std::puts("ready");
        std::fflush(stdout);
      }
    }
    std::printf("{\"calls\": %zu, \"answered\": %zu, \"turned_away\": %zu}\n", calls_, answered_, turned_away_);
  }

 private:
  struct Connection {
    os::UniqueFd fd;
    bool spoken = false;
    bool answered = false;
  };

  void call(std::size_t i) {
    Connection& connection = connections_[i];
    connection = {os::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    if (!connection.fd || (::connect(connection.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
                           errno != EINPROGRESS)) {
      return;  // out of ports, most likely: later
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.u64 = i;
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.fd.get(), &event);
    idle_.pop_back();
    ++calls_;
  }

  void serve(std::size_t i, std::uint32_t what) {
    Connection& connection = connections_[i];
    if ((what & EPOLLOUT) != 0 && !connection.spoken) {
      std::string const said = wire::frame(rendezvous::write_call({random_bytes<rendezvous::Nonce{}.size()>(), {}}));
      connection.spoken = ::send(connection.fd.get(), said.data(), said.size(), MSG_NOSIGNAL) > 0;
    }
    char chunk[4096];
    ssize_t size = 0;
    while ((size = ::recv(connection.fd.get(), chunk, sizeof chunk, 0)) > 0) {
      answered_ += std::exchange(connection.answered, true) ? 0 : 1;
    }
    if (size == 0 || errno != EAGAIN) {
      ++turned_away_;
      connection.fd.reset();
      idle_.push_back(i);
    }
  }

  std::uint16_t port_;
  os::UniqueFd epoll_;
  std::vector<Connection> connections_;
  std::vector<std::size_t> idle_;
  std::vector<epoll_event> events_{1024};
  std::size_t calls_ = 0;
  std::size_t answered_ = 0;
  std::size_t turned_away_ = 0;
  bool ready_ = false;
};

}  // namespace

int main(int argc, char* argv[]) {
  if (argc != 3) {
    std::fprintf(stderr, "Usage: stranger_bench PORT COUNT\n");
    return 2;
  }
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  Strangers(static_cast<std::uint16_t>(std::stoul(argv[1])), std::stoul(argv[2])).run();
  return 0;
}
