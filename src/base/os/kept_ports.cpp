#include "src/base/os/kept_ports.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <system_error>

#include "src/base/os/descriptor_packet.hpp"

namespace cxxrun::os {
namespace {

using Words = std::array<char, sizeof(std::int64_t)>;  // how long, in milliseconds

ssize_t say(int channel, Millis hold, int listener) {
  auto const words = std::bit_cast<Words>(static_cast<std::int64_t>(hold.count()));
  return send_packet(channel, {words.data(), words.size()}, listener, MSG_DONTWAIT);
}

ino_t number_of(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

bool is_tcp(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6) &&
         ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace

Result<void> PortKeeper::keep(int listener, Millis hold) {
  kept_.push_back(number_of(listener));
  hold_ = hold;
  return say(channel_.get(), hold, listener) >= 0 ? Result<void>()
                                                  : fail(Errc::io, "the parent process does not take a socket", errno);
}

void PortKeeper::release() {
  kept_.clear();
  static_cast<void>(say(channel_.get(), Millis{0}, -1));  // else they are held in vain
}

// By the kernel's list: who has opened them runs in other threads, and finds them ended.
void PortKeeper::hang_up_on_all() const {
  std::error_code failed;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    int const fd = std::atoi(entry.path().filename().c_str());
    if (is_tcp(fd) && std::find(kept_.begin(), kept_.end(), number_of(fd)) == kept_.end()) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }
}

void KeptPorts::take() {
  for (;;) {
    Words words{};
    UniqueFd socket;
    auto const n = receive_packet(channel_.get(), words, socket, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      channel_.reset();
      return;
    }
    if (!socket) {
      sockets_.clear();
      continue;
    }
    hold_ = Millis{std::bit_cast<std::int64_t>(words)};
    sockets_.push_back(std::move(socket));
    if (sockets_.size() > kMost) {
      sockets_.pop_front();
    }
  }
}

Result<PortKeeping> keep_ports() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Errc::io, "no socket to the parent process", errno);
  }
  return PortKeeping{std::make_shared<PortKeeper>(UniqueFd(ends[0])), KeptPorts(UniqueFd(ends[1]))};
}

}  // namespace cxxrun::os
