// Store: requests and replies of the store's protocol (class Store), over one connection (StoreConnection).
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <iterator>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <random>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/wire/store_protocol.hpp"
#include "src/runtime/client/interruption.hpp"

namespace cxxrun::client {

/// StoreConnection: one connection to a store: sends requests and reads replies, each until a deadline.
///
/// After a failure the connection is broken, and every later call returns the same error: bytes of a late reply would
/// be taken for those of the next one.
class StoreConnection {
 public:
  explicit StoreConnection(StoreAddress address);

  /// Connects, sends the greeting and reads the first reply, which proves that the other end is a c10d store.
  [[nodiscard]] Result<void> open(TimePoint deadline);
  /// Instead of open(): whether the server is a store from before the greeting, which answers a greeting by closing.
  [[nodiscard]] bool is_ungreeted(TimePoint deadline);
  [[nodiscard]] bool is_broken() const { return broken_.has_value(); }
  /// "store at node1 port 29400".
  [[nodiscard]] std::string name() const {
    return "store at " + address_.host + " port " + std::to_string(address_.port);
  }
  Error breaks(Errc code, std::string const& why, int os_errno = 0);

  /// Errors: usage for a request that no server accepts, in which case nothing is sent; and those of the connection.
  [[nodiscard]] Result<void> request(wire::StoreRequest const& what, TimePoint deadline);
  /// The next `size` bytes. If the deadline passes, the connection is not broken: the caller knows whether it can go
  /// on.
  [[nodiscard]] Result<std::string> receive(std::size_t size, TimePoint deadline);
  /// A reply that must come: without it the connection is useless.
  [[nodiscard]] Result<std::string> expect(std::size_t size, TimePoint deadline);
  [[nodiscard]] Result<std::string> expect_value(TimePoint deadline);
  template <class Number>
  [[nodiscard]] Result<Number> expect_number(TimePoint deadline) {
    auto const bytes = expect(sizeof(Number), deadline);
    if (!bytes) {
      return bytes.error();
    }
    Number number{};
    std::memcpy(&number, bytes->data(), sizeof number);
    return number;
  }

 private:
  [[nodiscard]] Result<void> send(std::string_view bytes, TimePoint deadline);
  [[nodiscard]] Result<void> fill(TimePoint deadline);
  /// Not a timeout, because callers retry after some timeouts.
  Error interrupted() { return breaks(Errc::closed, "the wait was interrupted"); }

  StoreAddress address_;
  os::UniqueFd fd_;
  std::string_view unread_;      // received but not yet used; points into the buffer
  int pid_;                      // a forked child's data would be mixed with its parent's
  std::optional<Error> broken_;  // why this connection cannot be used any more
  std::array<char, 64UL * 1024> buffer_{};
};

namespace {

// Tries one address.
Result<os::UniqueFd> connect_to(addrinfo const& address, TimePoint deadline) {
  auto fd = os::begin_connect(address.ai_addr, address.ai_addrlen);
  if (!fd) {
    return fd;
  }
  int const on = 1;
  ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!Interruptible::ready(fd->get(), POLLOUT, deadline)) {
    return fail(Errc::timeout, "no answer to the connection attempt");
  }
  if (int const error = os::connect_error(fd->get()); error != 0) {
    return fail(Errc::closed, "cannot connect", error);
  }
  return fd;
}

// Tries every address of the host once, in the resolver's order. Each gets an equal share of the time, so that one that
// drops packets does not use up the time of the others. The socket is non-blocking, close-on-exec, without Nagle's
// delay. Errors: not_found (the name), closed (the reason of the last address), timeout, io.
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
  constexpr std::int64_t kMostKeys = 1LL << 32;  // data of another protocol would give a larger number
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
        return Interruptible::interrupted() ? interrupted() : breaks(Errc::timeout, "does not accept a request");
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

// Waits until the server sends something, and reads what is available.
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

namespace cxxrun {
namespace {

using namespace cxxrun::wire;  // NOLINT(google-build-using-namespace): the request types

constexpr Millis kFirstPause{20};
constexpr Millis kLongestPause{1000};
constexpr Millis kCancelGrace{5000};  // time for the server to confirm a CANCEL_WAIT, or to answer after a WAIT
constexpr Millis kProbe{2000};        // time for an old store to answer

std::string shared_key(std::string_view key) {
  return "/" + std::string(key);
}

// The keys of a request, and views of them.
struct SharedKeys {
  explicit SharedKeys(std::vector<std::string> const& plain) {
    keys.reserve(plain.size());
    std::transform(plain.begin(), plain.end(), std::back_inserter(keys), shared_key);
    texts.assign(keys.begin(), keys.end());
  }
  std::vector<std::string> keys;
  std::vector<Text> texts;
};

TimePoint deadline_after(Millis timeout) {
  TimePoint const now = Clock::now();
  return timeout > std::chrono::duration_cast<Millis>(TimePoint::max() - now) ? TimePoint::max() : now + timeout;
}

// For the request after a WAIT with this deadline: the keys may have come at the last moment.
TimePoint after_wait(TimePoint deadline) {
  return std::max(deadline, deadline_after(kCancelGrace));
}

}  // namespace

struct Store::Impl : client::StoreConnection {
  Millis timeout;

  Impl(StoreAddress const& address, Millis limit) : StoreConnection(address), timeout(limit) {}

  /// Sends a request whose reply is one number, or one value if Reply is std::string.
  template <class Reply>
  Result<Reply> ask(StoreRequest const& what) {
    return ask<Reply>(what, deadline_after(timeout));
  }
  template <class Reply>
  Result<Reply> ask(StoreRequest const& what, TimePoint deadline) {
    if (auto sent = request(what, deadline); !sent) {
      return sent.error();
    }
    if constexpr (std::is_same_v<Reply, std::string>) {
      return expect_value(deadline);
    } else {
      return expect_number<Reply>(deadline);
    }
  }

  Result<void> wait(std::vector<std::string> const& keys, Millis limit) {
    TimePoint const deadline = deadline_after(limit);
    if (auto sent = request(WaitRequest{SharedKeys(keys).texts}, deadline); !sent) {
      return sent;
    }
    auto const answer = receive(1, deadline);
    if (!answer) {
      return is_broken() ? Result<void>(answer.error()) : give_up(keys, limit);
    }
    if (answer->front() != kStoreStopWaiting) {
      return breaks(Errc::protocol, "answered a WAIT with " + std::to_string(answer->front()));
    }
    return {};
  }

  // Cancels a WAIT that took too long, so that its answer cannot be taken for that of another request. Succeeds if the
  // keys appeared at the last moment.
  Result<void> give_up(std::vector<std::string> const& keys, Millis limit) {
    TimePoint const deadline = deadline_after(kCancelGrace);
    if (auto sent = request(CancelWaitRequest{}, deadline); !sent) {
      return sent;
    }
    auto answer = expect(1, deadline);
    bool const came_late = answer && answer->front() == kStoreStopWaiting;
    if (came_late) {
      answer = expect(1, deadline);
    }
    if (!answer) {
      return answer.error();
    }
    if (answer->front() != kStoreWaitCancelled) {
      return breaks(Errc::protocol, "answered a CANCEL_WAIT with " + std::to_string(answer->front()));
    }
    if (came_late) {
      return {};
    }
    auto names = list_of(keys, [](std::string const& key) { return "\"" + key + "\""; });
    return fail(Errc::timeout, name() + ": not written within " + std::to_string(limit.count()) +
                                   " ms: " + join_first(3, std::move(names)));
  }
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::connect(StoreAddress const& address, Millis timeout) {
  if (address.host.empty() || address.port == 0) {
    return fail(Errc::usage, "the address of a store needs a host and a port, not \"" + address.host + "\" port " +
                                 std::to_string(address.port));
  }
  TimePoint const deadline = deadline_after(timeout);
  std::minstd_rand random(std::random_device{}());  // ranks that start together must not retry together
  Millis pause = kFirstPause;
  for (;;) {
    auto impl = std::make_unique<Impl>(address, timeout);
    auto const opened = impl->open(deadline);
    if (opened) {
      return Store(std::move(impl));
    }
    Error const& why = opened.error();
    if (why.code == Errc::protocol || client::Interruptible::interrupted()) {
      return why;
    }
    // The server is ending or starting right now, or it takes the greeting for an error.
    if (impl->is_broken() && why.code == Errc::closed) {
      auto const other = std::make_unique<client::StoreConnection>(address);
      if (other->is_ungreeted(std::min(deadline, deadline_after(kProbe)))) {
        return other->breaks(Errc::protocol,
                             "speaks the protocol of PyTorch 2.0 and older, which cannot be used; start with torchrun "
                             "--rdzv-backend c10d, where rank 0 hosts the store, or with cxxrun");
      }
    }
    if (Clock::now() + pause >= deadline) {
      return fail(
          Errc::timeout,
          "no connection to the " + impl->name() + " within " + std::to_string(timeout.count()) + " ms: " + why.context,
          why.os_errno);
    }
    client::Interruptible::pause(pause / 2 + Millis(random() % static_cast<unsigned>(pause.count())) / 2);
    pause = std::min(pause * 3 / 2, kLongestPause);
  }
}

Result<void> Store::set(std::string_view key, std::string_view value) {
  return impl_->request(SetRequest{shared_key(key), value}, deadline_after(impl_->timeout));
}

Result<std::string> Store::get(std::string_view key) {
  return get(key, impl_->timeout);
}

Result<std::string> Store::get(std::string_view key, Millis timeout) {
  TimePoint const deadline = deadline_after(timeout);
  if (auto there = impl_->wait({std::string(key)}, timeout); !there) {
    return there.error();
  }
  return impl_->ask<std::string>(GetRequest{shared_key(key)}, after_wait(deadline));
}

Result<std::int64_t> Store::add(std::string_view key, std::int64_t delta) {
  return impl_->ask<std::int64_t>(AddRequest{shared_key(key), delta});
}

Result<void> Store::wait(std::vector<std::string> const& keys) {
  return wait(keys, impl_->timeout);
}

Result<void> Store::wait(std::vector<std::string> const& keys, Millis timeout) {
  return impl_->wait(keys, timeout);
}

Result<bool> Store::check(std::vector<std::string> const& keys) {
  auto const answer = impl_->ask<char>(CheckRequest{SharedKeys(keys).texts});
  return answer ? Result<bool>(*answer == kStoreReady) : answer.error();
}

Result<std::string> Store::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return impl_->ask<std::string>(CompareSetRequest{shared_key(key), expected, desired});
}

Result<bool> Store::delete_key(std::string_view key) {
  auto const deleted = impl_->ask<std::int64_t>(DeleteRequest{shared_key(key)});
  return deleted ? Result<bool>(*deleted > 0) : deleted.error();
}

Result<std::int64_t> Store::num_keys() {
  return impl_->ask<std::int64_t>(NumKeysRequest{});
}

Result<void> Store::append(std::string_view key, std::string_view value) {
  return impl_->request(AppendRequest{shared_key(key), value}, deadline_after(impl_->timeout));
}

Result<std::vector<std::string>> Store::multi_get(std::vector<std::string> const& keys) {
  return multi_get(keys, impl_->timeout);
}

Result<std::vector<std::string>> Store::multi_get(std::vector<std::string> const& keys, Millis timeout) {
  TimePoint deadline = deadline_after(timeout);
  if (auto there = impl_->wait(keys, timeout); !there) {
    return there.error();
  }
  deadline = after_wait(deadline);
  if (auto sent = impl_->request(MultiGetRequest{SharedKeys(keys).texts}, deadline); !sent) {
    return sent.error();
  }
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = impl_->expect_value(deadline);
    if (!value) {
      return value.error();
    }
    values.push_back(std::move(*value));
  }
  return values;
}

Result<void> Store::multi_set(std::vector<std::pair<std::string, std::string>> const& pairs) {
  std::deque<std::string> keys;
  MultiSetRequest request;
  request.pairs.reserve(pairs.size());
  for (auto const& [key, value] : pairs) {
    request.pairs.emplace_back(keys.emplace_back(shared_key(key)), value);
  }
  return impl_->request(request, deadline_after(impl_->timeout));
}

}  // namespace cxxrun
