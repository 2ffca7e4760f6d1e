#include <algorithm>
#include <deque>
#include <iterator>
#include <random>
#include <type_traits>
#include <utility>

#include "cxxrun/store.hpp"
#include "src/base/core/text.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/client/store_connection.hpp"

namespace cxxrun {
namespace {

using namespace cxxrun::wire;  // NOLINT(google-build-using-namespace): the request types

constexpr Millis kFirstPause{20};
constexpr Millis kLongestPause{1000};
constexpr Millis kCancelGrace{5000};  // how long the server may take to confirm a CANCEL_WAIT
constexpr Millis kProbe{2000};        // for an old store to answer

std::string shared_key(std::string_view key) {
  return "/" + std::string(key);
}

// The keys of a request, and what they point into.
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

}  // namespace

struct Store::Impl : client::StoreConnection {
  Millis timeout;

  Impl(StoreAddress const& address, Millis limit) : StoreConnection(address), timeout(limit) {}

  /// Sends a request that is answered with one number, or with one value where Reply is std::string.
  template <class Reply>
  Result<Reply> ask(StoreRequest const& what) {
    TimePoint const deadline = deadline_after(timeout);
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
    std::vector<std::string> names;
    std::transform(keys.begin(), keys.end(), std::back_inserter(names),
                   [](std::string const& key) { return "\"" + key + "\""; });
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
    if (impl->is_broken() &&
        why.code == Errc::closed) {  // it ends or begins just now, or takes the greeting for an error
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
  if (auto there = impl_->wait({std::string(key)}, timeout); !there) {
    return there.error();
  }
  return impl_->ask<std::string>(GetRequest{shared_key(key)});
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
  if (auto there = impl_->wait(keys, timeout); !there) {
    return there.error();
  }
  TimePoint const deadline = deadline_after(impl_->timeout);
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
