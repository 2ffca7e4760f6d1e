// A shell: moves bytes between sockets and KvStore, on one thread. Asio is the reactor; reading, writing and
// accepting are plain non-blocking calls, because Asio's accept does not set close-on-exec.
#include "rendezvous/store_server.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <future>
#include <map>
#include <pthread.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rendezvous/kv_store.hpp"
#include "rendezvous/store_listen.hpp"
#include "src/os/log.hpp"

namespace cxxrun::rendezvous {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Descriptor = asio::posix::stream_descriptor;
using wire::StoreDecoder;

constexpr std::size_t kReadBytes = 64UL * 1024;               // the buffer all connections share
constexpr std::size_t kOutputCap = 1024UL * 1024;             // unsent replies above which a connection is not read
constexpr std::size_t kKeptOutput = 64UL * 1024;              // capacity a drained output buffer may keep
constexpr int kAcceptsPerTurn = 64;                           // a connection storm does not starve those already in
constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // after accept ran out of descriptors
constexpr int kLoggedClosings = 16;                           // per store; a hostile client must not flood the log

struct Connection {
  Connection(asio::io_context& io, int fd, ConnectionId name) : id(name), socket(io, fd) {}

  [[nodiscard]] std::size_t unsent() const { return out.size() - sent; }

  ConnectionId id;
  Descriptor socket;
  StoreDecoder decoder;
  std::string out;  // replies; the first `sent` bytes are gone already
  std::size_t sent = 0;
  std::string held;      // read but not decoded, because too much output is waiting
  bool reading = false;  // a wait for input is pending
  bool writing = false;  // a wait for room in the socket is pending
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct Listener {
  Listener(asio::io_context& io, int fd) : socket(io, fd), pause(io) {}
  Descriptor socket;
  asio::steady_timer pause;  // runs while no descriptor is left for another connection
};
using ListenerPtr = std::shared_ptr<Listener>;

// What all stores of a server share; used by its thread only.
struct Reactor {
  asio::io_context io{1};
  std::array<char, kReadBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): pages touched when used
};

// One generation: listeners, keys, connections.
class GenerationStore : public std::enable_shared_from_this<GenerationStore> {
 public:
  explicit GenerationStore(Reactor& reactor) : reactor_(reactor) {}

  void start(std::vector<int> const& listeners) {
    for (int const fd : listeners) {
      listeners_.push_back(std::make_shared<Listener>(reactor_.io, fd));
      arm_accept(listeners_.back());
    }
  }

  void stop() {
    for (ListenerPtr const& listener : listeners_) {
      listener->pause.cancel();
      close(listener->socket);
    }
    for (auto const& [id, connection] : connections_) {
      close(connection->socket);
    }
    connections_.clear();
  }

 private:
  static void close(Descriptor& socket) {
    error_code ignored;
    socket.close(ignored);
  }

  void arm_accept(ListenerPtr const& listener) {
    listener->socket.async_wait(Descriptor::wait_read, [self = shared_from_this(), listener](error_code ec) {
      if (!ec && listener->socket.is_open()) {
        self->accept_some(listener);
      }
    });
  }

  void accept_some(ListenerPtr const& listener) {
    for (int n = 0; n < kAcceptsPerTurn; ++n) {
      int const fd = accept_for_store(listener->socket.native_handle());
      if (fd >= 0) {
        admit(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        pause_accepting(listener, errno);
        return;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        break;
      }
    }
    arm_accept(listener);
  }

  // The waiting connections stay in the kernel's queue; being told of them again at once would only spin.
  void pause_accepting(ListenerPtr const& listener, int why) {
    if (!std::exchange(out_of_descriptors_, true)) {
      log(Level::warn, fail(Errc::io, "store cannot accept a connection; it keeps trying", why).message());
    }
    listener->pause.expires_after(kAcceptPause);
    listener->pause.async_wait([self = shared_from_this(), listener](error_code ec) {
      if (!ec && listener->socket.is_open()) {
        self->accept_some(listener);
      }
    });
  }

  void admit(int fd) {
    auto connection = std::make_shared<Connection>(reactor_.io, fd, next_id_++);
    connections_.emplace(connection->id, connection);
    arm_read(connection);
  }

  void arm_read(ConnectionPtr const& c) {
    c->reading = true;
    c->socket.async_wait(Descriptor::wait_read, [this, c](error_code ec) {
      c->reading = false;
      if (!ec && c->socket.is_open()) {  // closed: `this` may be gone
        on_readable(c);
      }
    });
  }

  void on_readable(ConnectionPtr const& c) {
    ssize_t const n = ::recv(c->socket.native_handle(), reactor_.buffer.data(), reactor_.buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      serve(c, {reactor_.buffer.data(), static_cast<std::size_t>(n)});
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      arm_read(c);
    } else {
      drop(c);
    }
  }

  // Decodes and applies, sends what is due to everybody, and goes on listening to this connection.
  void serve(ConnectionPtr const& c, std::string_view input) {
    std::vector<ConnectionPtr> woken = std::exchange(woken_, {});
    bool const keep = consume(*c, input, woken);
    send(c);
    for (ConnectionPtr const& other : woken) {
      send(other);
    }
    woken.clear();
    woken_ = std::move(woken);  // for its capacity
    if (!c->socket.is_open()) {
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
    while (c.unsent() <= kOutputCap) {
      auto const status = c.decoder.next(input, request);
      if (status == StoreDecoder::Status::need_more) {
        return true;
      }
      if (status == StoreDecoder::Status::broken) {
        complain(c, c.decoder.error());
        return false;
      }
      StoreOutcome outcome = kv_.apply(c.id, c.decoder.dialect(), std::move(request));
      if (c.out.empty()) {
        c.out = std::move(outcome.reply);
      } else {
        c.out += outcome.reply;
      }
      for (ConnectionId const id : outcome.woken) {
        ConnectionPtr const& other = connections_.at(id);
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

  // One attempt; what the socket does not take now waits for room.
  void send(ConnectionPtr const& c) {
    if (c->writing || c->unsent() == 0 || !c->socket.is_open()) {
      return;
    }
    ssize_t const n =
        ::send(c->socket.native_handle(), c->out.data() + c->sent, c->unsent(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
      drop(c);
      return;
    }
    c->sent += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (c->unsent() > 0) {
      arm_write(c);
      return;
    }
    c->sent = 0;
    if (c->out.capacity() > kKeptOutput) {
      c->out = {};
    } else {
      c->out.clear();
    }
  }

  void arm_write(ConnectionPtr const& c) {
    c->writing = true;
    c->socket.async_wait(Descriptor::wait_write, [this, c](error_code ec) {
      c->writing = false;
      if (!ec && c->socket.is_open()) {  // closed: `this` may be gone
        send(c);
        go_on(c);
      }
    });
  }

  // Reads on, unless the client does not take its replies.
  void go_on(ConnectionPtr const& c) {
    if (c->reading || !c->socket.is_open() || c->unsent() > kOutputCap) {
      return;
    }
    if (c->held.empty()) {
      arm_read(c);
      return;
    }
    c->reading = true;  // posted, not called: others get their turn
    asio::post(reactor_.io, [self = shared_from_this(), c] {
      c->reading = false;
      if (c->socket.is_open()) {
        std::string const held = std::exchange(c->held, {});
        self->serve(c, held);
      }
    });
  }

  void drop(ConnectionPtr const& c) {
    kv_.forget(c->id);
    close(c->socket);
    connections_.erase(c->id);
    out_of_descriptors_ = false;
  }

  void complain(Connection& c, std::string const& why) {
    if (closings_++ < kLoggedClosings) {
      log(Level::warn, "store closes the connection of " + peer_of(c.socket.native_handle()) + ": " + why);
    }
  }

  Reactor& reactor_;
  KvStore kv_;
  std::vector<ListenerPtr> listeners_;
  std::unordered_map<ConnectionId, ConnectionPtr> connections_;
  std::vector<ConnectionPtr> woken_;
  ConnectionId next_id_ = 1;
  int closings_ = 0;
  bool out_of_descriptors_ = false;
};

// Starts a thread in which every signal is blocked, so that none is delivered there.
template <class Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_setname_np(thread.native_handle(), "cxxrun-store");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

struct StoreServer::Impl {
  Reactor reactor;
  std::map<std::uint64_t, std::shared_ptr<GenerationStore>> stores;  // touched by the thread only
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(reactor.io);
  std::thread thread = start_quiet_thread([this] { reactor.io.run(); });

  // Runs `task` on the store's thread and waits for its answer.
  template <class Task>
  auto on_thread(Task task) {
    std::packaged_task<std::invoke_result_t<Task>()> packaged(std::move(task));
    auto answer = packaged.get_future();
    asio::post(reactor.io, [packaged = std::move(packaged)]() mutable { packaged(); });
    return answer.get();
  }

  void close(std::uint64_t generation) {
    auto const found = stores.find(generation);
    if (found != stores.end()) {
      found->second->stop();
      stores.erase(found);
    }
  }
};

StoreServer::StoreServer() : impl_(std::make_unique<Impl>()) {}

StoreServer::~StoreServer() {
  try {
    impl_->on_thread([this] {
      while (!impl_->stores.empty()) {
        impl_->close(impl_->stores.begin()->first);
      }
      impl_->work.reset();
    });
    impl_->thread.join();
  } catch (...) {
    std::abort();  // no memory left even to say goodbye
  }
}

Result<std::uint16_t> StoreServer::open(std::uint64_t generation, StoreBind const& where) {
  return impl_->on_thread([&]() -> Result<std::uint16_t> {
    if (impl_->stores.contains(generation)) {
      return fail(Errc::usage, "generation " + std::to_string(generation) + " already has a store");
    }
    auto listeners = listen_for_store(where);
    if (!listeners) {
      return listeners.error();
    }
    auto store = std::make_shared<GenerationStore>(impl_->reactor);
    store->start(listeners->sockets);
    impl_->stores.emplace(generation, std::move(store));
    return listeners->port;
  });
}

void StoreServer::close(std::uint64_t generation) {
  impl_->on_thread([this, generation] { impl_->close(generation); });
}

}  // namespace cxxrun::rendezvous
