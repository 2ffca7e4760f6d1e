#include "src/os/death_notice.hpp"

#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <poll.h>

#include "src/os/poll_time.hpp"

namespace cxxrun::os {
namespace {

struct Call {
  UniqueFd socket;
  std::size_t sent = 0;
  bool taken = false;  // all of it, and the end of the connection behind it

  [[nodiscard]] bool over() const { return !socket; }
};

Call dial(sockaddr_storage const& to) {
  Call call;
  call.socket.reset(socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  socklen_t const size = to.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (call.socket && connect(call.socket.get(), reinterpret_cast<sockaddr const*>(&to), size) != 0 &&
      errno != EINPROGRESS) {
    call.socket.reset();
  }
  return call;
}

void write_more(Call& call, std::string const& words) {
  ssize_t const written =
      send(call.socket.get(), words.data() + call.sent, words.size() - call.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      call.socket.reset();
    }
    return;
  }
  call.sent += static_cast<std::size_t>(written);
  if (call.sent == words.size()) {
    shutdown(call.socket.get(), SHUT_WR);
    call.taken = true;
  }
}

/// A socket closed with unread bytes sends a reset, which may overtake what we have said: the answer is read away.
void read_away(Call& call) {
  std::array<char, 4096> bytes{};
  ssize_t got = 0;
  do {
    got = recv(call.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (got > 0);
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    call.socket.reset();
  }
}

}  // namespace

std::size_t deliver(DeathNotice const& death_notice, Millis limit) {
  auto const deadline = Clock::now() + limit;
  std::vector<Call> calls;
  for (auto const& recipient : death_notice.recipients) {
    calls.push_back(dial(recipient));
  }
  while (std::any_of(calls.begin(), calls.end(), [](Call const& call) { return !call.over(); })) {
    std::vector<pollfd> watched;
    for (auto const& call : calls) {
      short const events = call.taken ? POLLIN : POLLOUT;
      watched.push_back({call.over() ? -1 : call.socket.get(), events, 0});
    }
    if (Clock::now() >= deadline || poll(watched.data(), watched.size(), poll_time(deadline)) == 0) {
      break;
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (watched[i].revents != 0 && calls[i].taken) {
        read_away(calls[i]);
      } else if (watched[i].revents != 0) {
        write_more(calls[i], death_notice.words);
      }
    }
  }
  return static_cast<std::size_t>(
      std::count_if(calls.begin(), calls.end(), [](Call const& call) { return call.taken; }));
}

}  // namespace cxxrun::os
