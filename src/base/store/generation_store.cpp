// A shell: admits connections, and moves bytes between their sockets and KvStore.
#include "src/base/store/generation_store.hpp"

#include <cerrno>
#include <new>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace cxxrun::store {
namespace {

using wire::StoreDecoder;

constexpr std::size_t kOutputCap = 1024UL * 1024;  // a connection with more unsent bytes is not read
constexpr std::size_t kKeptOutput = 64UL * 1024;   // capacity that an empty output buffer may keep
constexpr int kAcceptsPerTurn = 64;                // a storm of connections must not starve the existing ones
constexpr auto kTellAgain = std::chrono::minutes(1);
constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // after accept ran out of descriptors
constexpr Millis kCrowdPause{50};                             // while crowded()
constexpr Millis kStalled{2000};                              // while crowded(), a client may take nothing for so long

// Frees the memory; assigning an empty string would keep it.
void give_back(std::string& text) {
  std::string().swap(text);
}

}  // namespace

GenerationStore::GenerationStore(Reactor& reactor, StoreDoor door)
    : reactor_(reactor),
      door_(std::move(door)),
      kv_(reactor.limits.held),
      waiting_(reactor.owners ? reactor.owners->own() : 0) {}

GenerationStore::~GenerationStore() {
  stop();
}

bool GenerationStore::start(std::vector<os::UniqueFd> listeners) {
  bool watched = true;
  for (auto& socket : listeners) {
    listeners_.push_back(std::make_shared<Listener>(*this, socket.release()));
    watched = watched && listeners_.back()->watch(reactor_.poller, EPOLLIN, listeners_.back());
  }
  return watched;
}

std::vector<os::UniqueFd> GenerationStore::stop() {
  for (ConnectionPtr const& c : due_) {
    send(c);
  }
  due_.clear();
  std::vector<os::UniqueFd> sockets;
  for (ListenerPtr const& listener : listeners_) {
    sockets.push_back(listener->give_back(reactor_.poller));
  }
  for (auto const& [name, connection] : connections_) {
    connection->close(reactor_.poller);
  }
  listeners_.clear();
  reactor_.connections -= connections_.size();
  connections_.clear();
  return sockets;
}

void GenerationStore::accept_some(Listener& listener) {
  for (int n = 0; n < kAcceptsPerTurn; ++n) {
    if (waiting_.full()) {
      listener.want(reactor_.poller, 0);  // until the next verdict
      return;
    }
    if (reactor_.connections >= reactor_.most_connections) {
      pause_accepting(listener, EMFILE);
      return;
    }
    auto const accepted = os::accept_next(listener.fd.get());
    if (accepted.fd >= 0) {
      on_accepted(accepted);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accepting(listener, errno);
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void GenerationStore::on_accepted(os::Accepted accepted) {
  auto const c = std::make_shared<Connection>(*this, accepted.fd, next_name_++, accepted.ends);
  bool const looks = door_.access == StoreAccess::user;
  Owner const here = looks ? judge(c->ends, reactor_.owners->find({c->ends}).front(), reactor_.owners->own()) : Owner{};
  auto const decided =
      decide_here(door_.access, door_.ask != nullptr, c->ends, here, looks ? reactor_.owners->own() : 0);
  if (!decided) {
    watch(c, EPOLLRDHUP);  // nothing is read; a caller that ends makes room
    waiting_.add({c->name, c->ends}, Clock::now());
    ask_soon();
  } else if (!decided->empty()) {
    warn_of("refused", *decided);
  } else {
    admit(c);
  }
}

// Reads start here. The owner that was found is the caller only if the connection is still established: after its end,
// another process may have taken the port before the lookup.
void GenerationStore::admit(ConnectionPtr const& c) {
  if (door_.access == StoreAccess::user && !os::is_established(c->fd.get())) {
    warn_of("refused", refuse_ended(c->ends));
    drop(c);
  } else if (connections_.contains(c->name)) {
    c->want(reactor_.poller, EPOLLIN);
  } else {
    watch(c, EPOLLIN);
  }
}

void GenerationStore::watch(ConnectionPtr const& c, std::uint32_t events) {
  if (c->watch(reactor_.poller, events, c)) {
    connections_.emplace(c->name, c);
    ++reactor_.connections;
  }
}

void GenerationStore::ask_soon() {
  if (!std::exchange(asking_, true)) {
    reactor_.poller.soon([weak = weak_from_this()] {  // one question for all that come in this turn
      if (auto const self = weak.lock()) {
        self->asking_ = false;
        if (auto questions = self->waiting_.take_questions(); !questions.empty()) {
          self->door_.ask(std::move(questions));
        }
      }
    });
  }
  if (auto const due = waiting_.due(); due && !std::exchange(timing_, true)) {
    reactor_.poller.at(*due, [weak = weak_from_this()] {
      if (auto const self = weak.lock()) {
        self->timing_ = false;
        for (auto const& verdict : self->waiting_.expire(Clock::now())) {
          self->carry_out(verdict);
        }
        self->ask_soon();
      }
    });
  }
}

void GenerationStore::on_news(std::vector<CallerNews> const& news) {
  for (auto const& each : news) {
    if (auto const verdict = waiting_.on_news(each)) {
      carry_out(*verdict);
    }
  }
}

void GenerationStore::carry_out(CallerVerdict const& verdict) {
  if (auto const it = connections_.find(verdict.id); it != connections_.end()) {
    auto const c = it->second;
    if (verdict.refused.empty()) {
      admit(c);
    } else {
      warn_of("refused", verdict.refused);
      drop(c);
    }
  }
  listen_again();
}

void GenerationStore::on_ready(ConnectionPtr const& c, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    send(c);
  }
  if (!c->open()) {
    return;
  }
  if ((c->events & EPOLLIN) == 0) {
    if ((events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0) {
      if ((c->events & EPOLLRDHUP) != 0) {
        warn_of("refused", refuse_ended(c->ends));
      }
      drop(c);
      return;
    }
    read_on(c);
  } else if ((events & ~EPOLLOUT) != 0U) {
    on_readable(c);
  }
}

// The waiting connections stay in the kernel's queue; the poller would report them at once again, and spin.
void GenerationStore::pause_accepting(Listener& listener, int why) {
  if (auto const now = Clock::now(); !told_full_ || now - *told_full_ > kTellAgain) {
    told_full_ = now;
    reactor_.warn(fail(Errc::io, "store cannot accept a connection; it keeps trying", why).message());
  }
  listener.want(reactor_.poller, 0);
  reactor_.poller.at(Clock::now() + kAcceptPause, [weak = weak_from_this()] {
    if (auto const self = weak.lock()) {
      self->listen_again();
    }
  });
}

void GenerationStore::listen_again() {
  for (ListenerPtr const& each : listeners_) {
    each->want(reactor_.poller, EPOLLIN);
  }
}

void GenerationStore::on_readable(ConnectionPtr const& c) {
  ssize_t const n = ::recv(c->fd.get(), reactor_.buffer.data(), reactor_.buffer.size(), MSG_DONTWAIT);
  if (n > 0) {
    serve(c, {reactor_.buffer.data(), static_cast<std::size_t>(n)});
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    drop(c);
  }
}

// Decodes and applies requests. Replies are sent together at the end of the turn: a client that the first byte wakes
// finds all of them. A long reply is sent at once, so that unsent_ counts what clients do not take.
void GenerationStore::serve(ConnectionPtr const& c, std::string_view input) {
  if (due_.empty()) {
    reactor_.poller.soon([weak = weak_from_this()] {
      if (auto const self = weak.lock()) {
        self->send_due();
      }
    });
  }
  due_.push_back(c);
  try {
    c->ending = !consume(*c, input);
  } catch (std::bad_alloc const&) {
    give_back(c->out);
    c->sent = 0;
    c->ending = true;
    complain(*c, "there is not enough memory for its request");
  }
  if (c->unsent() > kKeptOutput) {
    send(c);
  }
}

void GenerationStore::send_due() {
  std::vector<ConnectionPtr> due = std::exchange(due_, {});
  for (ConnectionPtr const& c : due) {
    send(c);
    if (c->open() && c->ending) {
      drop(c);
    } else if (c->open()) {
      read_on(c);
    }
  }
  due.clear();
  due_ = std::move(due);  // for its capacity
}

// False: this connection must be closed.
bool GenerationStore::consume(Connection& c, std::string_view input) {
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
    StoreOutcome outcome = kv_.apply(c.name, c.decoder.dialect(), request);
    c.decoder.let_go();
    if (c.out.empty()) {
      c.out = std::move(outcome.reply);
    } else {
      c.out += outcome.reply;
    }
    for (ConnectionId const name : outcome.woken) {
      ConnectionPtr const& other = connections_.at(name);
      other->out.push_back(wire::kStoreStopWaiting);
      due_.push_back(other);
    }
    if (!outcome.close_reason.empty()) {
      complain(c, outcome.close_reason);
      return false;
    }
  }
  c.held.assign(input);
  return true;
}

bool GenerationStore::has_room_to_read(Connection& c) {
  reading_ -= c.reading;
  c.reading = c.decoder.held_bytes();
  reading_ += c.reading;
  bool const room = kv_.bytes() + reading_ <= reactor_.limits.held;
  if (!room) {
    complain(c, "with its request the store would hold more than " + std::to_string(reactor_.limits.held) + " bytes");
  }
  return room;
}

// Closes the connections that take nothing, so that they do not make others wait.
void GenerationStore::close_stalled() {
  std::vector<ConnectionPtr> stalled;
  for (auto it = connections_.begin(); crowded() && it != connections_.end(); ++it) {
    if (it->second->unsent() > 0 && Clock::now() - it->second->took >= kStalled) {
      stalled.push_back(it->second);
    }
  }
  for (auto const& c : stalled) {
    complain(*c, "it does not read its replies, and others wait for the memory");
    drop(c);
  }
}

void GenerationStore::send(ConnectionPtr const& c) {
  if (c->unsent() > 0 && c->open()) {
    send_some(c);
  }
  unsent_ += (c->open() ? c->unsent() : 0) - c->counted;
  c->counted = c->open() ? c->unsent() : 0;
}

// One attempt; the rest is sent when the socket is writable.
void GenerationStore::send_some(ConnectionPtr const& c) {
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

// Reads more from the client, unless too many of its replies are unsent.
void GenerationStore::read_on(ConnectionPtr const& c) {
  bool const read = c->unsent() <= kOutputCap && c->held.empty();
  c->want(reactor_.poller, (c->events & EPOLLOUT) | (read ? static_cast<std::uint32_t>(EPOLLIN) : 0U));
  if (c->held.empty() || c->unsent() > kOutputCap || std::exchange(c->resuming, true)) {
    return;
  }
  auto const resume = [weak = weak_from_this(), c] {
    c->resuming = false;
    if (auto const self = weak.lock()) {
      self->close_stalled();
      if (c->open()) {
        std::string const held = std::exchange(c->held, {});
        self->serve(c, held);
      }
    }
  };
  if (crowded()) {
    reactor_.poller.at(Clock::now() + kCrowdPause, resume);
  } else {
    reactor_.poller.soon(resume);  // not now: other connections come first
  }
}

void GenerationStore::drop(ConnectionPtr const& c) {
  kv_.forget(c->name);
  if (waiting_.full()) {
    listen_again();
  }
  waiting_.remove(c->name);
  c->close(reactor_.poller);
  unsent_ -= std::exchange(c->counted, 0);
  reading_ -= std::exchange(c->reading, 0);
  reactor_.connections -= connections_.erase(c->name);
}

void GenerationStore::warn_of(std::string_view kind, std::string line) {
  if (auto const text = cxxrun::complain(complaints_, kind, std::move(line), Clock::now()); !text.empty()) {
    reactor_.warn(text);
  }
}

void GenerationStore::complain(Connection& c, std::string const& why) {
  warn_of("closed", "store closes the connection of " + address_text(c.ends.caller) + " port " +
                        std::to_string(c.ends.caller.port) + ": " + why);
}

void Connection::ready(std::uint32_t events_now) {
  store.on_ready(shared_from_this(), events_now);
}

void Listener::ready(std::uint32_t /*events*/) {
  store.accept_some(*this);
}

}  // namespace cxxrun::store
