// A shell: the stores' thread.
#include "src/base/store/store_server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/os/thread.hpp"
#include "src/base/store/generation_store.hpp"

namespace cxxrun::store {
namespace {

/// Holds the port of a closed store and closes each connection at once. Workers of that generation may still call, and
/// another user who listened there could pose as the store.
struct ShutDoor final : Socket {
  ShutDoor(Poller& poller, int descriptor) : Socket(descriptor), poller_(poller) {}

  void ready(std::uint32_t /*events*/) override {
    for (int n = 0; n < kAtOnce; ++n) {
      auto const caller = os::accept_next(fd.get());
      if (os::UniqueFd const gone(caller.fd); !gone) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
          want(poller_, 0);  // out of descriptors: callers wait in the kernel's queue
        }
        return;
      }
    }
  }

 private:
  static constexpr int kAtOnce = 64;
  Poller& poller_;
};

struct ShutStore {
  os::ListenAt where;
  std::vector<std::shared_ptr<ShutDoor>> doors;
};

Error cannot_listen(Error const& error) {
  if (error.code == Errc::io && error.os_errno == EADDRINUSE) {
    return fail(Errc::io, "no port of this host is free for a store; `ss -tan` shows who has them", error.os_errno);
  }
  return error.code == Errc::in_use
             ? fail(Errc::in_use, "store " + error.context + " is taken by another program; choose another one or 0",
                    error.os_errno)
             : fail(error.code, "store cannot listen on " + error.context, error.os_errno);
}

}  // namespace

struct StoreServer::Impl {
  Reactor reactor;
  StoreKeep keep;
  struct Open {
    os::ListenAt where;
    std::shared_ptr<GenerationStore> store;
  };
  std::map<std::uint64_t, Open> stores;  // this and `shut` belong to the thread
  std::deque<ShutStore> shut;            // the oldest first
  std::thread thread;

  [[nodiscard]] bool runs() const { return thread.joinable() && reactor.poller.error() == 0; }

  Result<os::Listening> listen(os::ListenAt const& where) {
    auto const before = std::find_if(shut.begin(), shut.end(), [&](ShutStore const& each) {
      return each.where.port == where.port && each.where.loopback_only == where.loopback_only;
    });
    if (before != shut.end()) {
      os::Listening listening{reopen(*before), where.port};
      shut.erase(before);
      return listening;
    }
    auto listening = os::listen_at(where);
    if (listening && keep) {
      for (auto const& socket : listening->sockets) {
        keep(socket.get());
      }
    }
    return listening;
  }

  std::vector<os::UniqueFd> reopen(ShutStore const& store) {
    std::vector<os::UniqueFd> sockets;
    for (auto const& door : store.doors) {
      sockets.push_back(door->give_back(reactor.poller));
    }
    return sockets;
  }

  void close(std::uint64_t generation) {
    auto const it = stores.find(generation);
    if (it == stores.end()) {
      return;
    }
    ShutStore store{it->second.where, {}};
    for (auto& socket : it->second.store->stop()) {
      auto const door = store.doors.emplace_back(std::make_shared<ShutDoor>(reactor.poller, socket.release()));
      static_cast<void>(door->watch(reactor.poller, EPOLLIN, door));  // if not, callers wait there
    }
    stores.erase(it);
    shut.push_back(std::move(store));
    if (shut.size() > kMostShut) {
      static_cast<void>(reopen(shut.front()));
      shut.pop_front();
    }
  }

  // Runs `task` on the store's thread and waits for its answer.
  template <class Task>
  auto on_thread(Task task) {
    auto const packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    auto answer = packaged->get_future();
    reactor.poller.post([packaged] { (*packaged)(); });
    return answer.get();
  }
};

StoreServer::StoreServer(StoreWarn warn, StoreLimits limits, StoreKeep keep) : impl_(std::make_unique<Impl>()) {
  impl_->keep = std::move(keep);
  impl_->reactor.warn = warn ? std::move(warn) : [](std::string const&) {};
  impl_->reactor.limits = limits;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  impl_->reactor.most_connections = descriptors.rlim_cur / 2;
}

void StoreServer::begin() {
  if (!impl_->thread.joinable()) {
    impl_->thread = os::start_quiet_thread([this_impl = impl_.get()] { this_impl->reactor.poller.run(); });
    ::pthread_setname_np(impl_->thread.native_handle(), "cxxrun-store");
  }
}

StoreServer::~StoreServer() {
  try {
    if (impl_->runs()) {
      impl_->on_thread([this] {
        impl_->stores.clear();
        for (auto const& each : impl_->shut) {
          static_cast<void>(impl_->reopen(each));
        }
        impl_->reactor.poller.stop();
      });
    }
    if (impl_->thread.joinable()) {
      impl_->thread.join();
    }
  } catch (...) {
    std::abort();  // not even memory for the task that stops the thread
  }
}

Result<std::uint16_t> StoreServer::open(std::uint64_t generation, os::ListenAt const& where, StoreDoor door) {
  if (int const error = impl_->reactor.poller.error(); error != 0) {
    return fail(Errc::io, "store cannot begin", error);
  }
  try {
    begin();
  } catch (std::system_error const& refused) {
    return fail(Errc::io, "store cannot begin", refused.code().value());
  }
  return impl_->on_thread([&]() -> Result<std::uint16_t> {
    if (impl_->stores.contains(generation)) {
      return fail(Errc::usage, "generation " + std::to_string(generation) + " already has a store");
    }
    auto listening = impl_->listen(where);
    if (!listening) {
      return cannot_listen(listening.error());
    }
    if (door.access == StoreAccess::user && !impl_->reactor.owners) {
      auto owners = os::SocketOwners::open();
      if (!owners) {
        return fail(owners.error().code,
                    "--store-access user: cannot tell whose a connection is: " + owners.error().context +
                        "; give --store-access " + (door.ask ? "hosts or any" : "any"));
      }
      impl_->reactor.owners = std::move(*owners);
    }
    auto store = std::make_shared<GenerationStore>(impl_->reactor, std::move(door));
    if (!store->start(std::move(listening->sockets))) {
      return fail(Errc::io, "store cannot watch its port", errno);
    }
    impl_->stores.emplace(generation, Impl::Open{{listening->port, where.loopback_only}, std::move(store)});
    return listening->port;
  });
}

void StoreServer::close(std::uint64_t generation) {
  if (impl_->runs()) {
    impl_->on_thread([this, generation] { impl_->close(generation); });
  }
}

void StoreServer::tell(std::uint64_t generation, std::vector<CallerNews> news) {
  if (impl_->runs()) {
    impl_->reactor.poller.post([impl = impl_.get(), generation, news = std::move(news)] {
      if (auto const it = impl->stores.find(generation); it != impl->stores.end()) {
        auto const store = it->second.store;
        store->on_news(news);
      }
    });
  }
}

}  // namespace cxxrun::store
