#include "launcher/doctor/pings.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "src/os/fd_io.hpp"
#include "src/os/listening.hpp"
#include "src/os/local_address.hpp"
#include "src/os/poll_time.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr Millis kPatience{3000};
constexpr Millis kForCaller{1000};  // others wait while one is answered
constexpr int kAsks = 5;

/// For people and for the difference of two clocks; nothing is decided by it.
std::int64_t wall_us() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count();
}

/// Whether the socket is ready for `events` before the deadline.
bool ready(int socket, short events, TimePoint deadline) {
  pollfd entry{socket, events, 0};
  return os::retried([&] { return ::poll(&entry, 1, os::poll_time(deadline)); }) == 1;
}

/// Eight bytes, however they come.
bool receive(int socket, std::int64_t& value, TimePoint deadline) {
  std::array<char, sizeof value> bytes{};
  std::size_t got = 0;
  while (got < bytes.size() && ready(socket, POLLIN, deadline)) {
    auto const size = os::retried([&] { return ::recv(socket, &bytes.at(got), bytes.size() - got, 0); });
    if (size <= 0) {
      return false;
    }
    got += static_cast<std::size_t>(size);
  }
  std::memcpy(&value, bytes.data(), bytes.size());
  return got == bytes.size();
}

/// They fit into the buffer of whoever reads the answers.
bool send_value(int socket, std::int64_t value) {
  return os::retried([&] { return ::send(socket, &value, sizeof value, MSG_NOSIGNAL); }) == sizeof value;
}

void without_delay(int socket) {
  int const yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/// Whoever says nothing for long, or more than nodes do, is let go.
void answer(int caller) {
  without_delay(caller);
  auto const deadline = Clock::now() + kForCaller;
  std::int64_t asked = 0;
  for (int left = kAsks; left > 0 && receive(caller, asked, deadline) && send_value(caller, wall_us()); --left) {
  }
}

/// 0, or why no connection came about.
int connect_to(addrinfo const& address, os::UniqueFd& made, TimePoint deadline) {
  made = os::UniqueFd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made || (::connect(made.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return errno;
  }
  if (!ready(made.get(), POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Result<std::unique_ptr<Answerer>> Answerer::start() {
  auto listening = os::listen_at({});
  if (!listening) {
    return listening.error();
  }
  std::unique_ptr<Answerer> made(new Answerer);
  made->port_ = listening->port;
  made->shared_ =
      std::make_shared<Shared>(Shared{std::move(listening->sockets.front()), os::UniqueFd(::eventfd(0, EFD_CLOEXEC))});
  made->thread_ = os::BoundedThread::start("doctor", [shared = made->shared_] {
    std::array<pollfd, 2> entries{pollfd{shared->listener.get(), POLLIN, 0}, pollfd{shared->ended.get(), POLLIN, 0}};
    while (os::retried([&] { return ::poll(entries.data(), entries.size(), -1); }) > 0 && entries[1].revents == 0) {
      os::UniqueFd const caller(::accept4(shared->listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (caller) {
        answer(caller.get());
      }
    }
  });
  return made;
}

Answerer::~Answerer() {
  ::eventfd_write(shared_->ended.get(), 1);
  if (thread_) {
    thread_->join_until(Clock::now() + kPatience);
  }
}

Call Callee::call() {
  Call call{index_, "", 0, 0};
  auto const addresses = name_.take();
  if (!addresses) {
    call.error = addresses.error().context;
    return call;
  }
  auto const deadline = Clock::now() + kPatience;
  os::UniqueFd socket;
  int error = EHOSTUNREACH;
  int left = 0;
  for (auto const* each = addresses->get(); each != nullptr; each = each->ai_next) {
    ++left;
  }
  for (auto const* each = addresses->get(); each != nullptr && error != 0; each = each->ai_next, --left) {
    error = connect_to(*each, socket, Clock::now() + (deadline - Clock::now()) / left);
  }
  if (error != 0) {
    call.error = std::strerror(error);
    return call;
  }
  without_delay(socket.get());
  std::optional<double> shortest;
  for (int i = 0; i < kAsks; ++i) {
    auto const asked = Clock::now();
    auto const wall = wall_us();
    std::int64_t theirs = 0;
    if (!send_value(socket.get(), 0) || !receive(socket.get(), theirs, deadline)) {
      break;
    }
    double const took = std::chrono::duration<double, std::micro>(Clock::now() - asked).count();
    if (!shortest || took < *shortest) {
      shortest = call.round_trip = took;
      call.ahead = static_cast<double>(theirs - wall) - took / 2;
    }
  }
  call.error = shortest ? "" : "connected, and then no answer";
  return call;
}

}  // namespace cxxrun::launcher::doctor
