// A shell: moves bytes between sockets and KvStore, on one thread.
#include "src/store/store_server.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <map>
#include <new>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/os/quiet_thread.hpp"
#include "src/store/kv_store.hpp"
#include "src/store/poller.hpp"
#include "src/store/store_connection.hpp"

namespace cxxrun::store {
namespace {

using wire::StoreDecoder;

constexpr std::size_t kReadBytes = 64UL * 1024;               // the buffer all connections share
constexpr std::size_t kOutputCap = 1024UL * 1024;             // unsent replies above which a connection is not read
constexpr std::size_t kKeptOutput = 64UL * 1024;              // capacity a drained output buffer may keep
constexpr int kAcceptsPerTurn = 64;                           // a connection storm does not starve those already in
constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // after accept ran out of descriptors
constexpr Millis kCrowdPause{50};                             // while there is no room for more replies
constexpr Millis kStalled{2000};     // how long a client may take no reply while others wait for that room
constexpr int kLoggedClosings = 16;  // per store; a hostile client must not flood the log

// Assigning an empty string would keep the memory.
void give_back(std::string& text) {
  std::string().swap(text);
}

// What all stores of a server share; used by its thread only.
struct Reactor {
  Poller poller;
  StoreServer::Warn warn;
  StoreLimits limits;
  std::size_t most_connections = 0;
  std::size_t connections = 0;
  std::array<char, kReadBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): pages touched when used
};

}  // namespace

// One generation: listeners, keys, connections.
class GenerationStore : public std::enable_shared_from_this<GenerationStore> {
 public:
  explicit GenerationStore(Reactor& reactor) : reactor_(reactor), kv_(reactor.limits.held) {}

  ~GenerationStore() { stop(); }
  GenerationStore(GenerationStore const&) = delete;
  GenerationStore& operator=(GenerationStore const&) = delete;

  /// False and errno: the kernel watches no more sockets.
  bool start(std::vector<int> const& listeners) {
    bool watched = true;
    for (int const fd : listeners) {
      listeners_.push_back(std::make_shared<Listener>(*this, fd));
      watched = watched && listeners_.back()->watch(reactor_.poller, EPOLLIN, listeners_.back());
    }
    return watched;
  }

  void stop() {
    for (ListenerPtr const& listener : listeners_) {
      listener->close(reactor_.poller);
    }
    for (auto const& [name, connection] : connections_) {
      connection->close(reactor_.poller);
    }
    listeners_.clear();
    reactor_.connections -= connections_.size();
    connections_.clear();
  }

  void accept_some(Listener& listener) {
    for (int n = 0; n < kAcceptsPerTurn; ++n) {
      if (reactor_.connections >= reactor_.most_connections) {
        pause_accepting(listener, EMFILE);
        return;
      }
      int const fd = accept_for_store(listener.fd.get());
      if (fd >= 0) {
        admit(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        pause_accepting(listener, errno);
        return;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        return;
      }
    }
  }

  void on_ready(ConnectionPtr const& c, std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) {
      send(c);
    }
    if (!c->open()) {
      return;
    }
    if ((c->events & EPOLLIN) == 0) {
      if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        drop(c);
        return;
      }
      go_on(c);
    } else if ((events & ~EPOLLOUT) != 0U) {
      on_readable(c);
    }
  }

 private:
  // The waiting connections stay in the kernel's queue; being told of them again at once would only spin.
  void pause_accepting(Listener& listener, int why) {
    if (!std::exchange(out_of_descriptors_, true)) {
      reactor_.warn(fail(Errc::io, "store cannot accept a connection; it keeps trying", why).message());
    }
    listener.want(reactor_.poller, 0);
    reactor_.poller.at(Clock::now() + kAcceptPause, [weak = weak_from_this()] {
      if (auto const self = weak.lock()) {
        for (ListenerPtr const& each : self->listeners_) {
          each->want(self->reactor_.poller, EPOLLIN);
        }
      }
    });
  }

  void admit(int fd) {
    auto connection = std::make_shared<Connection>(*this, fd, next_name_++);
    if (connection->watch(reactor_.poller, EPOLLIN, connection)) {
      connections_.emplace(connection->name, std::move(connection));
      ++reactor_.connections;
    }
  }

  void on_readable(ConnectionPtr const& c) {
    ssize_t const n = ::recv(c->fd.get(), reactor_.buffer.data(), reactor_.buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      serve(c, {reactor_.buffer.data(), static_cast<std::size_t>(n)});
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      drop(c);
    }
  }

  // Decodes and applies, sends what is due to everybody, and goes on listening to this connection.
  void serve(ConnectionPtr const& c, std::string_view input) {
    std::vector<ConnectionPtr> woken = std::exchange(woken_, {});
    bool keep = false;
    try {
      keep = consume(*c, input, woken);
    } catch (std::bad_alloc const&) {
      give_back(c->out);
      c->sent = 0;
      complain(*c, "there is no memory for what it asks");
    }
    send(c);
    for (ConnectionPtr const& other : woken) {
      send(other);
    }
    woken.clear();
    woken_ = std::move(woken);  // for its capacity
    if (!c->open()) {
      return;
    }
    if (!keep) {
      drop(c);
    } else {
      go_on(c);
    }
  }

  // False: this connection has to be closed.
  bool consume(Connection& c, std::string_view input, std::vector<ConnectionPtr>& woken) {
    wire::StoreRequest request;
    while (c.unsent() <= kOutputCap && !crowded()) {
      auto const status = c.decoder.next(input, request);
      if (status == StoreDecoder::Status::need_more) {
        return has_room_to_read(c);
      }
      if (status == StoreDecoder::Status::broken) {
        complain(c, c.decoder.error());
        return false;
      }
      StoreOutcome outcome = kv_.apply(c.name, c.decoder.dialect(), std::move(request));
      if (c.out.empty()) {
        c.out = std::move(outcome.reply);
      } else {
        c.out += outcome.reply;
      }
      for (ConnectionId const name : outcome.woken) {
        ConnectionPtr const& other = connections_.at(name);
        other->out.push_back(wire::kStoreStopWaiting);
        woken.push_back(other);
      }
      if (!outcome.close_reason.empty()) {
        complain(c, outcome.close_reason);
        return false;
      }
    }
    c.held.assign(input);
    return true;
  }

  bool has_room_to_read(Connection& c) {
    reading_ -= c.reading;
    c.reading = c.decoder.held_bytes();
    reading_ += c.reading;
    bool const room = kv_.bytes() + reading_ <= reactor_.limits.held;
    if (!room) {
      complain(c, "with its request the store would hold more than " + std::to_string(reactor_.limits.held) + " bytes");
    }
    return room;
  }

  // Nobody is given more replies while so many wait, for a second one may be as large.
  [[nodiscard]] bool crowded() const { return unsent_ > reactor_.limits.unsent; }

  // Who takes nothing is no reason for others to wait.
  void thin_out() {
    std::vector<ConnectionPtr> stalled;
    for (auto it = connections_.begin(); crowded() && it != connections_.end(); ++it) {
      if (it->second->unsent() > 0 && Clock::now() - it->second->took >= kStalled) {
        stalled.push_back(it->second);
      }
    }
    for (auto const& c : stalled) {
      complain(*c, "it does not take its replies, and others wait for the room");
      drop(c);
    }
  }

  void send(ConnectionPtr const& c) {
    if (c->unsent() > 0 && c->open()) {
      send_some(c);
    }
    unsent_ += (c->open() ? c->unsent() : 0) - c->counted;
    c->counted = c->open() ? c->unsent() : 0;
  }

  // One attempt; what the socket does not take now waits for room.
  void send_some(ConnectionPtr const& c) {
    ssize_t const n = ::send(c->fd.get(), c->out.data() + c->sent, c->unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
      drop(c);
      return;
    }
    c->sent += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (n > 0 || c->counted == 0) {
      c->took = Clock::now();
    }
    if (c->unsent() > 0) {
      c->want(reactor_.poller, c->events | EPOLLOUT);
      return;
    }
    c->want(reactor_.poller, c->events & ~static_cast<std::uint32_t>(EPOLLOUT));
    c->sent = 0;
    c->out.clear();
    if (c->out.capacity() > kKeptOutput) {
      give_back(c->out);
    }
  }

  // Reads on, unless the client does not take its replies.
  void go_on(ConnectionPtr const& c) {
    bool const read = c->unsent() <= kOutputCap && c->held.empty();
    c->want(reactor_.poller, (c->events & EPOLLOUT) | (read ? static_cast<std::uint32_t>(EPOLLIN) : 0U));
    if (c->held.empty() || c->unsent() > kOutputCap || std::exchange(c->resuming, true)) {
      return;
    }
    auto const resume = [weak = weak_from_this(), c] {
      c->resuming = false;
      if (auto const self = weak.lock()) {
        self->thin_out();
        if (c->open()) {
          std::string const held = std::exchange(c->held, {});
          self->serve(c, held);
        }
      }
    };
    if (crowded()) {
      reactor_.poller.at(Clock::now() + kCrowdPause, resume);
    } else {
      reactor_.poller.soon(resume);  // not now: others get their turn
    }
  }

  void drop(ConnectionPtr const& c) {
    kv_.forget(c->name);
    c->close(reactor_.poller);
    unsent_ -= std::exchange(c->counted, 0);
    reading_ -= std::exchange(c->reading, 0);
    reactor_.connections -= connections_.erase(c->name);
    out_of_descriptors_ = false;
  }

  void complain(Connection& c, std::string const& why) {
    if (closings_++ < kLoggedClosings) {
      reactor_.warn("store closes the connection of " + peer_of(c.fd.get()) + ": " + why);
    }
  }

  Reactor& reactor_;
  KvStore kv_;
  std::uint64_t unsent_ = 0;   // replies of all connections
  std::uint64_t reading_ = 0;  // requests of all connections that have come in part
  std::vector<ListenerPtr> listeners_;
  std::unordered_map<ConnectionId, ConnectionPtr> connections_;
  std::vector<ConnectionPtr> woken_;
  ConnectionId next_name_ = 1;
  int closings_ = 0;
  bool out_of_descriptors_ = false;
};

void Connection::ready(std::uint32_t events_now) {
  store.on_ready(shared_from_this(), events_now);
}

void Listener::ready(std::uint32_t /*events*/) {
  store.accept_some(*this);
}

struct StoreServer::Impl {
  Reactor reactor;
  std::map<std::uint64_t, std::shared_ptr<GenerationStore>> stores;  // touched by the thread only
  std::thread thread;

  // Runs `task` on the store's thread and waits for its answer.
  template <class Task>
  auto on_thread(Task task) {
    auto const packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    auto answer = packaged->get_future();
    reactor.poller.post([packaged] { (*packaged)(); });
    return answer.get();
  }
};

StoreServer::StoreServer(Warn warn, StoreLimits limits) : impl_(std::make_unique<Impl>()) {
  impl_->reactor.warn = warn ? std::move(warn) : [](std::string const&) {};
  impl_->reactor.limits = limits;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  impl_->reactor.most_connections = descriptors.rlim_cur / 2;
  impl_->thread = os::start_quiet_thread([this_impl = impl_.get()] { this_impl->reactor.poller.run(); });
  ::pthread_setname_np(impl_->thread.native_handle(), "cxxrun-store");
}

StoreServer::~StoreServer() {
  try {
    if (impl_->reactor.poller.error() == 0) {
      impl_->on_thread([this] {
        impl_->stores.clear();
        impl_->reactor.poller.stop();
      });
    }
    impl_->thread.join();
  } catch (...) {
    std::abort();  // no memory left even to say goodbye
  }
}

Result<std::uint16_t> StoreServer::open(std::uint64_t generation, StoreBind const& where) {
  if (int const error = impl_->reactor.poller.error(); error != 0) {
    return fail(Errc::io, "store cannot begin", error);
  }
  return impl_->on_thread([&]() -> Result<std::uint16_t> {
    if (impl_->stores.contains(generation)) {
      return fail(Errc::usage, "generation " + std::to_string(generation) + " already has a store");
    }
    auto listeners = listen_for_store(where);
    if (!listeners) {
      return listeners.error();
    }
    auto store = std::make_shared<GenerationStore>(impl_->reactor);
    if (!store->start(listeners->sockets)) {
      return fail(Errc::io, "store cannot watch its port", errno);
    }
    impl_->stores.emplace(generation, std::move(store));
    return listeners->port;
  });
}

void StoreServer::close(std::uint64_t generation) {
  if (impl_->reactor.poller.error() == 0) {
    impl_->on_thread([this, generation] { impl_->stores.erase(generation); });
  }
}

}  // namespace cxxrun::store
