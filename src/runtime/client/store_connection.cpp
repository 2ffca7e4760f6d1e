#include "src/runtime/client/store_connection.hpp"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "src/base/os/local_address.hpp"
#include "src/base/os/spare_ports.hpp"
#include "src/runtime/client/interruption.hpp"

namespace cxxrun::client {
namespace {

// One attempt at one address.
Result<os::UniqueFd> connect_to(addrinfo const& address, TimePoint deadline) {
  os::UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  int const on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (os::connect_from_somewhere(fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return fail(Errc::closed, "cannot connect", errno);
  }
  if (!Interruptible::ready(fd.get(), POLLOUT, deadline)) {
    return fail(Errc::timeout, "no answer to the connection attempt");
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    return fail(Errc::closed, "cannot connect", error);
  }
  return fd;
}

// One attempt at every address of the host, in the resolver's order. Each gets its share of the time, so that one that
// swallows packets does not use up what the others need. The socket is non-blocking, close-on-exec, without Nagle's
// delay. Errors: not_found (the name), closed (the last address' reason), timeout, io.
Result<os::UniqueFd> dial(StoreAddress const& address, TimePoint deadline) {
  auto const found = os::resolve_within(left_until(deadline), address.host, address.port, SOCK_STREAM);
  if (!found) {
    return fail(Errc::not_found, "cannot resolve the name: " + found.error().context);
  }
  int left = 0;
  for (addrinfo const* a = found->get(); a != nullptr; a = a->ai_next) {
    ++left;
  }
  Result<os::UniqueFd> result = fail(Errc::not_found, "the name has no address");
  for (addrinfo const* a = found->get(); a != nullptr; a = a->ai_next, --left) {
    TimePoint const now = Clock::now();
    result = connect_to(*a, now + (deadline - now) / left);
    if (result) {
      break;
    }
  }
  return result;
}

}  // namespace

StoreConnection::StoreConnection(StoreAddress address) : address_(std::move(address)), pid_(::getpid()) {}

Error StoreConnection::breaks(Errc code, std::string const& why, int os_errno) {
  broken_ = fail(code, name() + ": " + why, os_errno);
  fd_.reset();
  return *broken_;
}

Result<void> StoreConnection::open(TimePoint deadline) {
  auto fd = dial(address_, deadline);
  if (!fd) {
    return fd.error();
  }
  fd_ = std::move(*fd);
  auto const nonce = static_cast<std::uint32_t>(::getpid());
  if (auto sent = send(wire::encode_greeting() + encode_request(wire::PingRequest{nonce}, wire::StoreDialect::greeted),
                       deadline);
      !sent) {
    return sent;
  }
  auto const echo = expect_number<std::uint32_t>(deadline);
  if (!echo) {
    return echo.error();
  }
  return *echo == nonce ? Result<void>() : breaks(Errc::protocol, "what listens there is not a c10d store");
}

bool StoreConnection::is_ungreeted(TimePoint deadline) {
  constexpr std::int64_t kMostKeys = 1LL << 32;  // words of another protocol make a larger number
  auto fd = dial(address_, deadline);
  if (!fd) {
    return false;
  }
  fd_ = std::move(*fd);
  if (!send(encode_request(wire::NumKeysRequest{}, wire::StoreDialect::plain), deadline)) {
    return false;
  }
  auto const keys = expect_number<std::int64_t>(deadline);
  return keys && *keys >= 0 && *keys < kMostKeys;
}

Result<void> StoreConnection::request(wire::StoreRequest const& what, TimePoint deadline) {
  if (::getpid() != pid_) {
    return fail(Errc::usage, name() + ": process " + std::to_string(::getpid()) + " was forked from process " +
                                 std::to_string(pid_) +
                                 ", whose connection this is; call Store::connect() in the child");
  }
  std::string const bytes = encode_request(what, wire::StoreDialect::greeted);
  if (auto const why = wire::refusal_of(bytes); !why.empty()) {
    return fail(Errc::usage, name() + ": nothing is sent: " + why);
  }
  return send(bytes, deadline);
}

Result<void> StoreConnection::send(std::string_view bytes, TimePoint deadline) {
  if (broken_) {
    return *broken_;
  }
  while (!bytes.empty()) {
    ssize_t const n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (!Interruptible::ready(fd_.get(), POLLOUT, deadline)) {
        return Interruptible::interrupted() ? interrupted() : breaks(Errc::timeout, "does not take a request");
      }
    } else if (errno != EINTR) {
      return breaks(Errc::closed, "the connection is gone", errno);
    }
  }
  return {};
}

Result<std::string> StoreConnection::receive(std::size_t size, TimePoint deadline) {
  if (broken_) {
    return *broken_;
  }
  std::string bytes;
  while (bytes.size() < size) {
    if (auto filled = fill(deadline); !filled) {
      return filled.error();
    }
    std::string_view const part = unread_.substr(0, size - bytes.size());
    bytes += part;
    unread_.remove_prefix(part.size());
  }
  return bytes;
}

// Waits for the server to send something, and takes what there is.
Result<void> StoreConnection::fill(TimePoint deadline) {
  while (unread_.empty()) {
    if (!Interruptible::ready(fd_.get(), POLLIN, deadline)) {
      return Interruptible::interrupted() ? interrupted() : fail(Errc::timeout, name() + " did not answer in time");
    }
    ssize_t const n = ::recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
    if (n > 0) {
      unread_ = {buffer_.data(), static_cast<std::size_t>(n)};
    } else if (n == 0) {
      return breaks(Errc::closed, "the server closed the connection: it ended, or refused the last request");
    } else if (errno != EAGAIN && errno != EINTR) {
      return breaks(Errc::closed, "the connection is gone", errno);
    }
  }
  return {};
}

Result<std::string> StoreConnection::expect(std::size_t size, TimePoint deadline) {
  auto bytes = receive(size, deadline);
  if (!bytes && !broken_) {
    return breaks(Errc::timeout, "did not answer in time");
  }
  return bytes;
}

Result<std::string> StoreConnection::expect_value(TimePoint deadline) {
  auto const length = expect_number<std::uint64_t>(deadline);
  if (!length) {
    return length.error();
  }
  if (*length > wire::kMaxStoreReplyBytes) {
    return breaks(Errc::protocol, "announced a value of " + std::to_string(*length) + " bytes");
  }
  return expect(static_cast<std::size_t>(*length), deadline);
}

}  // namespace cxxrun::client
