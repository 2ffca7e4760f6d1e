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
#include "rendezvous/trust/grant.hpp"
#include "src/base/os/listening.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::launcher::doctor {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using rendezvous::AgentId;
using rendezvous::Channel;
using rendezvous::Peers;

constexpr Millis kKnock{2000};  // munged may take its time; a key that comes late is known at the next knock
constexpr Millis kPause{20};
constexpr Millis kEnd{2000};
constexpr std::size_t kNameDigits = 32;

/// What is said, by the first byte; names end at the first zero byte.
constexpr char kThis = 'i', kTell = 't', kWant = 'w', kTold = 'v';

std::string words(char word, std::string const& key, std::string const& text = "") {
  return std::string(1, word) + key + '\0' + text;
}

std::pair<std::string, std::string> read_words(std::string const& payload) {
  auto const end = std::min(payload.find('\0'), payload.size());
  return {payload.substr(1, end - 1), payload.substr(std::min(end + 1, payload.size()))};
}

/// A key of the job itself, or of the doctor of another one, is not taken.
rendezvous::KeyTransports scoped(rendezvous::KeyTransports transports, std::string const& id) {
  transports.opens = {"doctor " + id};
  transports.looks_for = transports.opens;
  return transports;
}

/// Where a node of this name may have the board.
Result<std::vector<tcp::endpoint>> places_of(std::string const& host, std::vector<std::uint16_t> const& ports) {
  auto const found = os::resolve_within(kNaming, host, 0, SOCK_STREAM);
  if (!found) {
    return found.error();
  }
  std::vector<tcp::endpoint> places;
  for (auto const* each = found->get(); each != nullptr; each = each->ai_next) {
    boost::system::error_code error;
    auto const address = asio::ip::make_address(address_text(os::tcp_end_of(each->ai_addr)), error);
    for (auto const port : ports) {
      if (!error) {
        places.emplace_back(address, port);
      }
    }
  }
  return places;
}

}  // namespace

/// All of it but what the mutex guards is of the thread that runs `io`.
struct Board::Shared : std::enable_shared_from_this<Board::Shared> {
  Shared(Meeting const& meeting, Transports const& transports, bool is_host)
      : id(meeting.id),
        hosts(is_host),
        keys(transports ? std::make_shared<rendezvous::KeyRing>(io, scoped(*transports, meeting.id)) : nullptr),
        peers(std::make_shared<Peers>(
            io, keys,
            Peers::Handlers{[this](AgentId agent, auto& peer, auto const& payload) { received(agent, peer, payload); },
                            [this](AgentId agent, auto const&...) { guests.erase(agent); }, [](auto const&...) {}})) {}

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::string id;
  bool hosts;
  std::string name;
  std::uint16_t port = 0;
  std::shared_ptr<rendezvous::KeyRing> keys;
  std::shared_ptr<Peers> peers;
  std::map<AgentId, std::set<std::string>> guests;  // and what they wait for
  std::set<std::string> wanted;                     // of a guest: what it has asked for
  std::shared_ptr<Channel> first;                   // of a guest: to the first node
  bool found = false;                               // it has answered
  std::optional<Error> turned_away;                 // while it is looked for

  std::mutex mutex;
  std::condition_variable news;
  std::map<std::string, std::string> told;
  bool over = false;

  Result<std::uint16_t> listen(std::vector<std::uint16_t> const& ports) {
    Result<std::uint16_t> listens = fail(Errc::in_use, "no port");
    for (auto const each : ports) {
      auto opened = os::listen_at({each, false});
      if (!opened) {
        listens = opened.error();
        continue;
      }
      for (auto& socket : opened->sockets) {
        if (auto const adopted = peers->listen(std::move(socket)); !adopted) {
          return adopted.error();
        }
      }
      return opened->port;
    }
    return listens;
  }

  void learn(std::string const& key, std::string const& text) {
    std::lock_guard const lock(mutex);
    told[key] = text;
    news.notify_all();
  }

  // ---- who is called: on every node for its clock, on the first one for the board

  void received(AgentId agent, rendezvous::Peer& peer, std::string const& payload) {
    if (peer.at != rendezvous::Peer::At::member) {  // it has proven itself
      peer.hello.nonce = std::to_string(agent);
      (void)peers->admit(agent, 1, "");
    }
    if (payload == kAskClock) {
      peers->send(agent, std::to_string(wall_us()));
      return;
    }
    auto const [key, text] = read_words(payload);
    bool const is_guest = guests.contains(agent);
    if (payload.starts_with(kThis) && hosts && key == id) {
      guests[agent];
      peers->send(agent, words(kThis, name));
    } else if (payload.starts_with(kTell) && is_guest) {
      put(key, text);
    } else if (payload.starts_with(kWant) && is_guest) {
      guests[agent].insert(key);
      tell_those_who_want(key);
    } else {
      peers->forget(agent);
      guests.erase(agent);
    }
  }

  void put(std::string const& key, std::string const& text) {
    learn(key, text);
    tell_those_who_want(key);
  }

  void tell_those_who_want(std::string const& key) {
    std::unique_lock lock(mutex);
    auto const it = told.find(key);
    std::string const said = it == told.end() ? "" : words(kTold, key, it->second);
    lock.unlock();
    for (auto& [agent, wants] : guests) {
      if (!said.empty() && wants.erase(key) > 0) {
        peers->send(agent, said);
      }
    }
  }

  // ---- who calls

  /// Whether this board answers there; on the thread that is about to use it.
  bool knock(tcp::endpoint const& place) {
    io.restart();
    auto const socket = std::make_shared<tcp::socket>(io);
    turned_away.reset();
    socket->async_connect(place, [this, socket](boost::system::error_code const& error) {
      if (error) {
        turned_away = fail(Errc::refused, error.message());
      } else {
        greet(std::move(*socket));
      }
    });
    for (auto const until = Clock::now() + kKnock; !found && !turned_away && Clock::now() < until;) {
      io.run_one_for(kPause);
    }
    if (!found) {
      auto const why = turned_away.value_or(fail(Errc::timeout, "no answer"));
      boost::system::error_code ignored;
      socket->close(ignored);
      if (first) {
        first->close();
      }
      io.poll();  // what waits for it ends, and has nothing to add
      turned_away = why;
    }
    return found;
  }

  void greet(tcp::socket socket) {
    first = std::make_shared<Channel>(std::move(socket));
    Channel::Handlers on;
    on.frame = [weak = weak_from_this()](std::string const& payload) {
      if (auto const self = weak.lock()) {
        self->answered(payload);
      }
    };
    on.closed = [weak = weak_from_this()](std::string const& how, rendezvous::Ended ended) {
      if (auto const self = weak.lock()) {
        self->lost(how, ended != rendezvous::Ended::broken || how == "connection reset");
      }
    };
    first->start(std::move(on), Channel::End::caller, keys);
    first->send(words(kThis, id));
  }

  void answered(std::string const& payload) {
    auto const [key, text] = read_words(payload);
    if (payload.starts_with(kThis)) {
      name = key;
      found = true;
    } else if (payload.starts_with(kTold)) {
      learn(key, text);
    }
  }

  /// `silent`: without a word of proof, or of why not.
  void lost(std::string const& how, bool silent) {
    bool const honest = silent || rendezvous::is_of_another_run(how);
    turned_away = fail(honest ? Errc::refused : Errc::permission, silent ? "another program answers" : how);
    std::lock_guard const lock(mutex);
    over = found;
    news.notify_all();
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
  } catch (...) {  // out of memory: the process ends without a goodbye
    return;
  }
}

/// Answers calls, and is served from now on.
Result<std::unique_ptr<Board>> Board::open(std::shared_ptr<Shared> shared) {
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

Result<std::unique_ptr<Board>> Board::host(Meeting const& meeting, Transports const& transports) {
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
  return open(shared);
}

Result<std::unique_ptr<Board>> Board::find(Meeting const& meeting, Transports const& transports, TimePoint deadline) {
  auto const shared = std::make_shared<Shared>(meeting, transports, false);
  auto ports = transports ? hidden_ports_of(*transports, meeting.ports) : std::vector<std::uint16_t>();
  ports.insert(ports.end(), meeting.ports.begin(), meeting.ports.end());
  Error trouble;
  std::vector<tcp::endpoint> places;
  std::deque<std::string> unknown = {meeting.first};
  if (meeting.by_address && !meeting.names.empty()) {
    unknown.push_back(meeting.names.front());  // the address may be that of another node, which is to host the job
  }
  while (Clock::now() < deadline) {
    if (!unknown.empty()) {
      if (auto const named = places_of(unknown.front(), ports)) {
        places.insert(places.end(), named->begin(), named->end());
      } else {
        trouble = named.error();
      }
      if (!places.empty()) {  // else it is asked again; a name server that is down holds up nobody who has a place to
                              // call
        unknown.pop_front();
      }
    }
    for (auto const& place : places) {
      if (shared->knock(place)) {
        if (shared->keys) {
          shared->keys->take(*shared->first->key());
        }
        return open(shared);
      }
      auto const& why = *shared->turned_away;
      trouble = trouble.code == Errc::permission && why.code != Errc::permission ? trouble : why;
    }
    std::this_thread::sleep_for(kPause);
  }
  bool const answered = trouble.code == Errc::permission;
  return fail(answered ? Errc::permission : Errc::timeout,
              "the first node, " + meeting.first + (answered ? ", is not trusted: " : ", could not be reached: ") +
                  trouble.message());
}

void Board::tell(std::string const& key, std::string const& text) {
  asio::post(shared_->io, [shared = shared_.get(), key, text] {
    shared->hosts ? shared->put(key, text) : shared->first->send(words(kTell, key, text));
  });
}

std::optional<std::string> Board::look(std::string const& key) {
  std::unique_lock lock(shared_->mutex);
  auto const it = shared_->told.find(key);
  if (it != shared_->told.end()) {
    return it->second;
  }
  lock.unlock();
  asio::post(shared_->io, [shared = shared_.get(), key] {
    if (!shared->hosts && shared->wanted.insert(key).second) {
      shared->first->send(words(kWant, key));
    }
  });
  return std::nullopt;
}

Result<std::string> Board::ask(std::string const& key, TimePoint deadline) {
  if (auto found = look(key)) {
    return *std::move(found);
  }
  std::unique_lock lock(shared_->mutex);
  auto const there = [&] { return shared_->told.contains(key) || shared_->over; };
  shared_->news.wait_for(lock, std::max(Clock::duration{0}, deadline - Clock::now()), there);
  auto const it = shared_->told.find(key);
  return it != shared_->told.end() ? Result<std::string>(it->second)
         : shared_->over           ? fail(Errc::closed, "the first node has ended")
                                   : fail(Errc::timeout, "nothing was told");
}

std::string const& Board::name() const {
  return shared_->name;
}

std::uint16_t Board::port() const {
  return shared_->port;
}

/// It does not change any more.
std::optional<rendezvous::Key> Board::key() const {
  return shared_->keys ? shared_->keys->own() : std::nullopt;
}

}  // namespace cxxrun::launcher::doctor
