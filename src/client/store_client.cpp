#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "cxxrun/store.hpp"
#include "src/client/dial.hpp"
#include "src/client/interruption.hpp"
#include "src/core/time.hpp"
#include "src/wire/store_protocol.hpp"

namespace cxxrun {
namespace {

using namespace cxxrun::wire;  // NOLINT(google-build-using-namespace): the request types

constexpr Millis kFirstPause{20};
constexpr Millis kLongestPause{1000};
constexpr Millis kCancelGrace{5000};  // how long the server may take to confirm a CANCEL_WAIT
constexpr Millis kProbe{2000};        // for an old store to answer
constexpr std::size_t kReadBytes = 64UL * 1024;

std::string name_of(StoreAddress const& address) {
  return "store at " + address.host + " port " + std::to_string(address.port);
}

std::string shared_key(std::string_view key) {
  return "/" + std::string(key);
}

std::vector<std::string> shared_keys(std::vector<std::string> const& keys) {
  std::vector<std::string> all;
  all.reserve(keys.size());
  for (std::string const& key : keys) {
    all.push_back(shared_key(key));
  }
  return all;
}

TimePoint deadline_after(Millis timeout) {
  TimePoint const now = Clock::now();
  return timeout > std::chrono::duration_cast<Millis>(TimePoint::max() - now) ? TimePoint::max() : now + timeout;
}

}  // namespace

struct Store::Impl {
  StoreAddress address;
  Millis timeout;
  os::UniqueFd fd{};
  std::string_view unread{};      // received, not yet used; points into the buffer
  std::optional<Error> broken{};  // why this connection cannot be used any more
  std::array<char, kReadBytes> buffer{};

  Error breaks(Errc code, std::string const& why, int os_errno = 0) {
    broken = fail(code, name_of(address) + ": " + why, os_errno);
    fd.reset();
    return *broken;
  }

  // Not a timeout, after which some try again.
  Error interrupted() { return breaks(Errc::closed, "nothing more is wanted of it"); }

  Result<void> send(std::string_view bytes, TimePoint deadline) {
    if (broken) {
      return *broken;
    }
    while (!bytes.empty()) {
      ssize_t const n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        if (!socket_ready(fd.get(), POLLOUT, deadline)) {
          return client::Interruptible::interrupted() ? interrupted()
                                                      : breaks(Errc::timeout, "does not take a request");
        }
      } else if (errno != EINTR) {
        return breaks(Errc::closed, "the connection is gone", errno);
      }
    }
    return {};
  }

  // The next `size` bytes. A deadline that passes does not break the connection here: the caller knows whether
  // it may go on.
  Result<std::string> receive(std::size_t size, TimePoint deadline) {
    if (broken) {
      return *broken;
    }
    std::string bytes;
    while (bytes.size() < size) {
      if (unread.empty()) {
        if (auto filled = fill(deadline); !filled) {
          return filled.error();
        }
      }
      std::string_view const part = unread.substr(0, size - bytes.size());
      bytes += part;
      unread.remove_prefix(part.size());
    }
    return bytes;
  }

  // Waits for the server to send something, and takes what there is.
  Result<void> fill(TimePoint deadline) {
    while (unread.empty()) {
      if (!socket_ready(fd.get(), POLLIN, deadline)) {
        if (client::Interruptible::interrupted()) {
          return interrupted();
        }
        return fail(Errc::timeout, name_of(address) + " did not answer in time");
      }
      ssize_t const n = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
      if (n > 0) {
        unread = {buffer.data(), static_cast<std::size_t>(n)};
      } else if (n == 0) {
        return breaks(Errc::closed, "the server closed the connection: it ended, or refused the last request");
      } else if (errno != EAGAIN && errno != EINTR) {
        return breaks(Errc::closed, "the connection is gone", errno);
      }
    }
    return {};
  }

  // A reply that must come: without it the connection is of no more use.
  Result<std::string> expect(std::size_t size, TimePoint deadline) {
    auto bytes = receive(size, deadline);
    if (!bytes && !broken) {
      return breaks(Errc::timeout, "did not answer in time");
    }
    return bytes;
  }

  template <class Number>
  Result<Number> expect_number(TimePoint deadline) {
    auto const bytes = expect(sizeof(Number), deadline);
    if (!bytes) {
      return bytes.error();
    }
    Number number{};
    std::memcpy(&number, bytes->data(), sizeof number);
    return number;
  }

  Result<std::string> expect_value(TimePoint deadline) {
    auto const length = expect_number<std::uint64_t>(deadline);
    if (!length) {
      return length.error();
    }
    if (*length > kMaxStoreReplyBytes) {
      return breaks(Errc::protocol, "announced a value of " + std::to_string(*length) + " bytes");
    }
    return expect(static_cast<std::size_t>(*length), deadline);
  }

  Result<void> request(StoreRequest const& what, TimePoint deadline) {
    return send(encode_request(what, StoreDialect::greeted), deadline);
  }

  Result<void> wait(std::vector<std::string> const& keys, Millis limit) {
    TimePoint const deadline = deadline_after(limit);
    if (auto sent = request(WaitRequest{shared_keys(keys)}, deadline); !sent) {
      return sent;
    }
    auto const answer = receive(1, deadline);
    if (!answer) {
      return broken ? Result<void>(answer.error()) : give_up(keys, limit);
    }
    if (answer->front() != kStoreStopWaiting) {
      return breaks(Errc::protocol, "answered a WAIT with " + std::to_string(answer->front()));
    }
    return {};
  }

  // After a WAIT that took too long: takes it back, so that its answer cannot be mistaken for another's.
  // Succeeds when the keys came at the very last moment.
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
    constexpr std::size_t kShown = 3;
    std::string names;
    for (std::size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
      names += (i == 0 ? "\"" : ", \"") + keys[i] + "\"";
    }
    if (keys.size() > kShown) {
      names += " and " + std::to_string(keys.size() - kShown) + " more";
    }
    return fail(Errc::timeout,
                name_of(address) + ": not written within " + std::to_string(limit.count()) + " ms: " + names);
  }

  // Greeting and first reply; proves that a c10d store is at the other end.
  Result<void> greet(TimePoint deadline) {
    auto const nonce = static_cast<std::uint32_t>(::getpid());
    std::string const hello = encode_greeting() + encode_request(PingRequest{nonce}, StoreDialect::greeted);
    if (auto sent = send(hello, deadline); !sent) {
      return sent;
    }
    auto const echo = expect_number<std::uint32_t>(deadline);
    if (!echo) {
      return echo.error();
    }
    if (*echo != nonce) {
      return breaks(Errc::protocol, "what listens there is not a c10d store");
    }
    return {};
  }

  // On a new connection: whether the store there is one from before the greeting, which it answers by closing.
  bool is_ungreeted(TimePoint deadline) {
    constexpr std::int64_t kMostKeys = 1LL << 32;  // words of another protocol make a larger number
    if (!send(encode_request(NumKeysRequest{}, StoreDialect::plain), deadline)) {
      return false;
    }
    auto const keys = expect_number<std::int64_t>(deadline);
    return keys && *keys >= 0 && *keys < kMostKeys;
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
    auto impl = std::make_unique<Impl>(Impl{address, timeout});
    auto fd = dial(address, deadline);
    Result<void> greeted = fd ? Result<void>() : fd.error();
    if (fd) {
      impl->fd = std::move(*fd);
      greeted = impl->greet(deadline);
    }
    if (greeted) {
      return Store(std::move(impl));
    }
    if (greeted.error().code == Errc::protocol || client::Interruptible::interrupted()) {
      return greeted.error();
    }
    if (fd && greeted.error().code == Errc::closed) {  // it ends or begins just now, or takes the greeting for an error
      TimePoint const soon = std::min(deadline, deadline_after(kProbe));
      impl = std::make_unique<Impl>(Impl{address, timeout});
      if (auto again = dial(address, soon)) {
        impl->fd = std::move(*again);
        if (impl->is_ungreeted(soon)) {
          return impl->breaks(Errc::protocol,
                              "speaks the protocol of PyTorch 2.0 and older, which cannot be used; start with torchrun "
                              "--rdzv-backend c10d, where rank 0 hosts the store, or with cxxrun");
        }
      }
    }
    if (Clock::now() + pause >= deadline) {
      return fail(Errc::timeout,
                  "no connection to the " + name_of(address) + " within " + std::to_string(timeout.count()) +
                      " ms: " + greeted.error().context,
                  greeted.error().os_errno);
    }
    client::Interruptible::pause(pause / 2 + Millis(random() % static_cast<unsigned>(pause.count())) / 2);
    pause = std::min(pause * 3 / 2, kLongestPause);
  }
}

Result<void> Store::set(std::string_view key, std::string_view value) {
  return impl_->request(SetRequest{shared_key(key), std::string(value)}, deadline_after(impl_->timeout));
}

Result<std::string> Store::get(std::string_view key) {
  return get(key, impl_->timeout);
}

Result<std::string> Store::get(std::string_view key, Millis timeout) {
  if (auto there = impl_->wait({std::string(key)}, timeout); !there) {
    return there.error();
  }
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(GetRequest{shared_key(key)}, deadline); !sent) {
    return sent.error();
  }
  return impl_->expect_value(deadline);
}

Result<std::int64_t> Store::add(std::string_view key, std::int64_t delta) {
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(AddRequest{shared_key(key), delta}, deadline); !sent) {
    return sent.error();
  }
  return impl_->expect_number<std::int64_t>(deadline);
}

Result<void> Store::wait(std::vector<std::string> const& keys) {
  return wait(keys, impl_->timeout);
}

Result<void> Store::wait(std::vector<std::string> const& keys, Millis timeout) {
  return impl_->wait(keys, timeout);
}

Result<bool> Store::check(std::vector<std::string> const& keys) {
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(CheckRequest{shared_keys(keys)}, deadline); !sent) {
    return sent.error();
  }
  auto const answer = impl_->expect_number<char>(deadline);
  if (!answer) {
    return answer.error();
  }
  return *answer == kStoreReady;
}

Result<std::string> Store::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  TimePoint const deadline = deadline_after(impl_->timeout);
  CompareSetRequest const request{shared_key(key), std::string(expected), std::string(desired)};
  if (auto sent = impl_->request(request, deadline); !sent) {
    return sent.error();
  }
  return impl_->expect_value(deadline);
}

Result<bool> Store::delete_key(std::string_view key) {
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(DeleteRequest{shared_key(key)}, deadline); !sent) {
    return sent.error();
  }
  auto const deleted = impl_->expect_number<std::int64_t>(deadline);
  if (!deleted) {
    return deleted.error();
  }
  return *deleted > 0;
}

Result<std::int64_t> Store::num_keys() {
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(NumKeysRequest{}, deadline); !sent) {
    return sent.error();
  }
  return impl_->expect_number<std::int64_t>(deadline);
}

Result<void> Store::append(std::string_view key, std::string_view value) {
  return impl_->request(AppendRequest{shared_key(key), std::string(value)}, deadline_after(impl_->timeout));
}

Result<std::vector<std::string>> Store::multi_get(std::vector<std::string> const& keys) {
  return multi_get(keys, impl_->timeout);
}

Result<std::vector<std::string>> Store::multi_get(std::vector<std::string> const& keys, Millis timeout) {
  if (auto there = impl_->wait(keys, timeout); !there) {
    return there.error();
  }
  TimePoint const deadline = deadline_after(impl_->timeout);
  if (auto sent = impl_->request(MultiGetRequest{shared_keys(keys)}, deadline); !sent) {
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
  MultiSetRequest request;
  request.pairs.reserve(pairs.size());
  for (auto const& [key, value] : pairs) {
    request.pairs.emplace_back(shared_key(key), value);
  }
  return impl_->request(request, deadline_after(impl_->timeout));
}

}  // namespace cxxrun
