#include "launcher/doctor/board.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/doctor/pings.hpp"
#include "launcher/place/secret_file.hpp"
#include "rendezvous/net/peers.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::launcher::doctor {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using rendezvous::AgentId;
using rendezvous::Channel;
using rendezvous::Peers;

constexpr Millis kProbe{2000};  // munged may be slow; a key that arrives later is used by the next probe
constexpr Millis kPause{20};
constexpr Millis kEnd{2000};
constexpr std::size_t kNameDigits = 32;

/// The first byte of a message. The key follows up to the first zero byte, then the text.
constexpr char kHello = 'i', kPut = 't', kGet = 'w', kValue = 'v';

std::string message(char kind, std::string const& key, std::string const& text = "") {
  return std::string(1, kind) + key + '\0' + text;
}

/// The key and the text.
std::pair<std::string, std::string> read_message(std::string const& payload) {
  auto const end = std::min(payload.find('\0'), payload.size());
  return {payload.substr(1, end - 1), payload.substr(std::min(end + 1, payload.size()))};
}

/// Refuses the key of the job itself, and that of the doctor of another job.
rendezvous::KeyTransports scoped(rendezvous::KeyTransports transports, std::string const& id) {
  transports.opens = {"doctor " + id};
  transports.looks_for = transports.opens;
  return transports;
}

/// Where the board may be on the node of this name.
Result<std::vector<tcp::endpoint>> endpoints_of(std::string const& host, std::vector<std::uint16_t> const& ports) {
  auto const found = os::resolve_within(kNaming, host, 0, SOCK_STREAM);
  if (!found) {
    return found.error();
  }
  std::vector<tcp::endpoint> endpoints;
  for (auto const* each = found->get(); each != nullptr; each = each->ai_next) {
    boost::system::error_code error;
    auto const address = asio::ip::make_address(address_text(os::tcp_end_of(each->ai_addr)), error);
    for (auto const port : ports) {
      if (!error) {
        endpoints.emplace_back(address, port);
      }
    }
  }
  return endpoints;
}

}  // namespace

/// Used by the thread that runs `io` alone, except for what the mutex guards.
struct Board::Shared final : rendezvous::PeersInbox,
                             rendezvous::ChannelInbox,
                             std::enable_shared_from_this<Board::Shared> {
  Shared(StepMeeting const& meeting, Transports const& transports, bool is_host)
      : id(meeting.id),
        hosts(is_host),
        keys(transports ? std::make_shared<rendezvous::KeyRing>(io, scoped(*transports, meeting.id)) : nullptr),
        peers(std::make_shared<Peers>(io, keys, *this)) {}

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::string id;
  bool hosts;
  std::string name;
  std::uint16_t port = 0;
  std::shared_ptr<rendezvous::KeyRing> keys;
  std::shared_ptr<Peers> peers;
  // On the first node:
  std::map<AgentId, std::set<std::string>> clients;  // with the keys that they wait for
  // On the others:
  std::set<std::string> requested;  // keys that were asked for
  std::shared_ptr<Channel> to_first;
  bool connected = false;        // the first node has answered
  std::optional<Error> refusal;  // why the last probe failed

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::map<std::string, std::string> values;  // on the others: those that were received
  bool first_ended = false;

  Result<std::uint16_t> listen(std::vector<std::uint16_t> const& ports) {
    Error refused = fail(Errc::in_use, "no port");
    for (auto const each : ports) {
      auto opened = os::listen_at({each, false});
      if (!opened) {
        refused = opened.error();
        continue;
      }
      for (auto& socket : opened->sockets) {
        if (auto const adopted = peers->listen(std::move(socket)); !adopted) {
          return adopted.error();
        }
      }
      return opened->port;
    }
    return refused;
  }

  void keep(std::string const& key, std::string const& text) {
    std::lock_guard const lock(mutex);
    values[key] = text;
    changed.notify_all();
  }

  // ---- serving: every node answers for its clock, the first one for the board

  void on_peer_frame(AgentId agent, rendezvous::Peer& peer, std::string const& payload) override {
    if (peer.at != rendezvous::Peer::At::member) {  // its first frame: it is authenticated
      peer.hello.nonce = std::to_string(agent);
      (void)peers->admit(agent, 1, "");
    }
    if (payload == kAskClock) {
      peers->send(agent, std::to_string(wall_us()));
      return;
    }
    auto const [key, text] = read_message(payload);
    bool const is_client = clients.contains(agent);
    if (payload.starts_with(kHello) && hosts && key == id) {
      clients[agent];
      peers->send(agent, message(kHello, name));
    } else if (payload.starts_with(kPut) && is_client) {
      put(key, text);
    } else if (payload.starts_with(kGet) && is_client) {
      clients[agent].insert(key);
      answer_waiting(key);
    } else {
      peers->forget(agent);
      clients.erase(agent);
    }
  }

  void on_peer_lost(AgentId agent, rendezvous::Peer const& /*peer*/, std::string /*how*/,
                    rendezvous::Ended /*ended*/) override {
    clients.erase(agent);
  }

  void put(std::string const& key, std::string const& text) {
    keep(key, text);
    answer_waiting(key);
  }

  /// Sends the value, if there is one, to the clients that wait for it.
  void answer_waiting(std::string const& key) {
    std::unique_lock lock(mutex);
    auto const it = values.find(key);
    std::string const answer = it == values.end() ? "" : message(kValue, key, it->second);
    lock.unlock();
    for (auto& [agent, waits_for] : clients) {
      if (!answer.empty() && waits_for.erase(key) > 0) {
        peers->send(agent, answer);
      }
    }
  }

  // ---- calling the first node

  /// Whether the board of this step answers there. Runs `io` on the calling thread: its own thread is not started yet.
  bool probe(tcp::endpoint const& endpoint) {
    io.restart();
    auto const socket = std::make_shared<tcp::socket>(io);
    refusal.reset();
    socket->async_connect(endpoint, [this, socket](boost::system::error_code const& error) {
      if (error) {
        refusal = fail(Errc::refused, error.message());
      } else {
        on_connected(std::move(*socket));
      }
    });
    for (auto const until = Clock::now() + kProbe; !connected && !refusal && Clock::now() < until;) {
      io.run_one_for(kPause);
    }
    if (!connected) {
      auto const why = refusal.value_or(fail(Errc::timeout, "no answer"));
      boost::system::error_code ignored;
      socket->close(ignored);
      if (to_first) {
        to_first->close();
      }
      io.poll();  // runs the cancelled handlers, which may overwrite `refusal`
      refusal = why;
    }
    return connected;
  }

  void on_connected(tcp::socket socket) {
    to_first = std::make_shared<Channel>(std::move(socket));
    to_first->start(weak_from_this(), Channel::End::caller, keys);
    to_first->send(message(kHello, id));
  }

  void on_frame(std::string payload) override {
    auto const [key, text] = read_message(payload);
    if (payload.starts_with(kHello)) {
      name = key;
      connected = true;
    } else if (payload.starts_with(kValue)) {
      keep(key, text);
    }
  }

  void on_closed(std::string how, rendezvous::Ended ended) override {
    // It closed the connection without trying to authenticate and without a reason.
    bool const silent = ended != rendezvous::Ended::broken || how == "connection reset";
    bool const harmless = silent || rendezvous::is_of_another_run(how);
    refusal = fail(harmless ? Errc::refused : Errc::permission, silent ? "another program answers" : how);
    std::lock_guard const lock(mutex);
    first_ended = connected;
    changed.notify_all();
  }
};

Board::Board(std::shared_ptr<Shared> shared, std::unique_ptr<os::BoundedThread> thread)
    : shared_(std::move(shared)), thread_(std::move(thread)) {}

Board::~Board() {
  try {
    asio::post(shared_->io, [shared = shared_.get()] {
      shared->peers->close();
      shared->io.stop();
    });
    thread_->join_until(Clock::now() + kEnd);
  } catch (...) {  // out of memory: end without closing the connections in order
    return;
  }
}

/// Opens the port for calls and starts the thread.
Result<std::unique_ptr<Board>> Board::start(std::shared_ptr<Shared> shared) {
  auto const port = shared->listen({0});
  if (!port) {
    return fail(port.error().code, "cannot listen for the calls of other nodes: " + port.error().message());
  }
  shared->port = *port;
  shared->io.restart();
  auto thread = os::BoundedThread::start("doctor", [shared] { shared->io.run(); });
  if (!thread) {
    return fail(Errc::io, "no thread can be started for the calls of other nodes");
  }
  return std::unique_ptr<Board>(new Board(std::move(shared), std::move(thread)));
}

Result<std::unique_ptr<Board>> Board::host(StepMeeting const& meeting, Transports const& transports) {
  auto const shared = std::make_shared<Shared>(meeting, transports, true);
  shared->name = random_hex(kNameDigits);
  auto const hidden = shared->listen(transports ? hidden_ports_of(*transports, meeting.ports) : meeting.ports);
  auto const open_to_all = transports ? shared->listen(meeting.ports) : hidden;
  if (!hidden && !open_to_all) {
    return fail(Errc::in_use, "cannot listen where the nodes are to meet: " + open_to_all.error().message());
  }
  if (auto const made = shared->keys ? shared->keys->make(true) : Result<void>(); !made) {
    return fail(Errc::permission, made.error().message());
  }
  return start(shared);
}

Result<std::unique_ptr<Board>> Board::connect(StepMeeting const& meeting, Transports const& transports,
                                              TimePoint deadline) {
  auto const shared = std::make_shared<Shared>(meeting, transports, false);
  auto ports = transports ? hidden_ports_of(*transports, meeting.ports) : std::vector<std::uint16_t>();
  ports.insert(ports.end(), meeting.ports.begin(), meeting.ports.end());
  Error last_error;
  std::vector<tcp::endpoint> endpoints;
  std::deque<std::string> to_resolve = {meeting.first};
  if (meeting.by_address && !meeting.names.empty()) {
    // The given address may be that of another node that is to host the job; the first node hosts the board.
    to_resolve.push_back(meeting.names.front());
  }
  while (Clock::now() < deadline) {
    if (!to_resolve.empty()) {
      if (auto const resolved = endpoints_of(to_resolve.front(), ports)) {
        endpoints.insert(endpoints.end(), resolved->begin(), resolved->end());
      } else {
        last_error = resolved.error();
      }
      if (!endpoints.empty()) {  // resolve again only while there is nothing to call
        to_resolve.pop_front();
      }
    }
    for (auto const& endpoint : endpoints) {
      if (shared->probe(endpoint)) {
        if (shared->keys) {
          shared->keys->take(*shared->to_first->key());
        }
        return start(shared);
      }
      auto const& why = *shared->refusal;
      if (last_error.code != Errc::permission || why.code == Errc::permission) {  // the more telling one is kept
        last_error = why;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
  bool const untrusted = last_error.code == Errc::permission;
  return fail(untrusted ? Errc::permission : Errc::timeout,
              "the first node, " + meeting.first + (untrusted ? ", is not trusted: " : ", could not be reached: ") +
                  last_error.message());
}

void Board::put(std::string const& key, std::string const& text) {
  asio::post(shared_->io, [shared = shared_.get(), key, text] {
    shared->hosts ? shared->put(key, text) : shared->to_first->send(message(kPut, key, text));
  });
}

std::optional<std::string> Board::peek(std::string const& key) {
  std::unique_lock lock(shared_->mutex);
  auto const it = shared_->values.find(key);
  if (it != shared_->values.end()) {
    return it->second;
  }
  lock.unlock();
  asio::post(shared_->io, [shared = shared_.get(), key] {
    if (!shared->hosts && shared->requested.insert(key).second) {
      shared->to_first->send(message(kGet, key));
    }
  });
  return std::nullopt;
}

Result<std::string> Board::wait_for(std::string const& key, TimePoint deadline) {
  if (auto value = peek(key)) {
    return *std::move(value);
  }
  std::unique_lock lock(shared_->mutex);
  auto const is_there = [&] { return shared_->values.contains(key) || shared_->first_ended; };
  shared_->changed.wait_for(lock, std::max(Clock::duration{0}, deadline - Clock::now()), is_there);
  auto const it = shared_->values.find(key);
  return it != shared_->values.end() ? Result<std::string>(it->second)
         : shared_->first_ended      ? fail(Errc::closed, "the first node has ended")
                                     : fail(Errc::timeout, "nothing was told");
}

std::string const& Board::name() const {
  return shared_->name;
}

std::uint16_t Board::port() const {
  return shared_->port;
}

/// Safe from any thread: once the board is started the key does not change.
std::optional<rendezvous::Key> Board::key() const {
  return shared_->keys ? shared_->keys->own() : std::nullopt;
}

}  // namespace cxxrun::launcher::doctor
