#include "rendezvous/server.hpp"

#include <map>
#include <utility>
#include <vector>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/channel.hpp"
#include "rendezvous/listener.hpp"
#include "src/core/time.hpp"
#include "src/os/log.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr auto kHelloDeadline = std::chrono::seconds(10);

}  // namespace

/// One connection until it is told apart: an agent's, or one for heartbeats.
struct Peer {
  explicit Peer(boost::asio::io_context& io, tcp::socket socket)
      : channel(std::make_shared<Channel>(std::move(socket))), deadline(io) {}
  std::shared_ptr<Channel> channel;
  boost::asio::basic_waitable_timer<Clock> deadline;  ///< for hello and join
  Hello hello;
  RunKey run = 0;     ///< once a member
  AgentId other = 0;  ///< of a member its connection for heartbeats, of that one its member; 0: none yet
  enum class At { hello, join, member, beat } at = At::hello;
};

struct Coordinator::Impl : std::enable_shared_from_this<Coordinator::Impl> {
  Impl(boost::asio::io_context& context, store::StoreServer& store_server, CoordinatorConfig conf,
       CoordinatorHandlers h)
      : io(context), stores(store_server), config(std::move(conf)), handlers(std::move(h)) {
    table.serves_all = config.serves_all;
    table.only_id = config.only_id;
  }

  boost::asio::io_context& io;
  store::StoreServer& stores;
  CoordinatorConfig config;
  CoordinatorHandlers handlers;
  RunTable table;
  std::map<RunKey, std::shared_ptr<Run>> runs;
  boost::asio::basic_waitable_timer<Clock> accept_pause{io};
  std::unique_ptr<tcp::acceptor> acceptor;
  std::map<AgentId, std::shared_ptr<Peer>> peers;
  std::map<std::string, AgentId> members;  // by nonce: whose heartbeats these are
  AgentId last_id = 0;
  bool shut = false;

  // ---- runs --------------------------------------------------------------------------------------------------

  RunKey open_run(std::string const& id, Terms const& terms) {
    RunEntry const& entry = rendezvous::open_run(table, id, terms);
    RunConfig run;
    run.key = entry.key;
    run.label = config.serves_all ? id : "";
    static_cast<Terms&>(run.policy) = terms;
    run.policy.ends_when_empty = config.serves_all;
    run.number = entry.number;
    run.restarts = entry.restarts;
    run.loopback_only = config.loopback_only;
    run.store_ports = config.store_ports;
    RunKey const key = run.key;
    RunHandlers on;
    on.tell = [this](AgentId agent, ToAgent const& message) {
      if (auto const it = peers.find(agent); it != peers.end()) {
        it->second->channel->send(encode(message));
      }
    };
    on.hang_up = [this](AgentId agent) { forget(agent); };
    on.progressed = [this, key](std::uint64_t number, std::uint32_t restarts) {
      note_progress(table, key, number, restarts);
    };
    on.concluded = [this, key, id](Verdict const& verdict) {
      note_verdict(table, key, verdict);
      handlers.concluded(id, verdict);
    };
    on.closed = [this, key] { closed(key); };
    auto const made = std::make_shared<Run>(io, stores, std::move(run), std::move(on));
    runs.emplace(key, made);
    made->feed(Opened{});
    return key;
  }

  /// Nobody of the run is left. It is on the call stack: it goes when that has unwound.
  void closed(RunKey key) {
    auto const it = runs.find(key);
    boost::asio::post(io, [run = it->second] {});
    runs.erase(it);
    if (!config.serves_all) {
      shutdown();
    }
    std::vector<AgentId> left;
    for (auto const& [id, peer] : peers) {
      if (peer->run == key) {
        left.push_back(id);
      }
    }
    for (AgentId const id : left) {  // with a member goes its connection for heartbeats, which is a peer too
      forget(id);
    }
    handlers.closed();
  }

  void feed(RunKey key, Event event) {
    if (auto const it = runs.find(key); it != runs.end()) {
      auto const run = it->second;
      run->feed(std::move(event));
    }
  }

  void quit(int signal) {
    table.serves_all = false;
    auto const all = runs;
    for (auto const& [key, run] : all) {
      run->feed(Quit{signal});
    }
  }

  void shutdown() {
    shut = true;
    accept_pause.cancel();
    acceptor.reset();
    for (auto const& [id, peer] : peers) {
      peer->deadline.cancel();
      peer->channel->close();
    }
    peers.clear();
  }

  // ---- connections -------------------------------------------------------------------------------------------

  void accept() {
    acceptor->async_accept([weak = weak_from_this()](ErrorCode const& error, tcp::socket socket) {
      auto const self = weak.lock();
      if (!self || self->shut) {
        return;
      }
      if (!error) {
        self->greet(std::move(socket));
        self->accept();
        return;
      }
      // Out of descriptors, most likely: the backlog keeps the callers while we wait for one to be free.
      log(Level::warn, "cannot accept a connection: " + error.message());
      self->accept_pause.expires_after(std::chrono::milliseconds(100));
      self->accept_pause.async_wait([weak](ErrorCode const& cancelled) {
        if (auto const again = weak.lock(); again && !cancelled && !again->shut) {
          again->accept();
        }
      });
    });
  }

  void greet(tcp::socket socket) {
    AgentId const id = ++last_id;
    auto const peer = std::make_shared<Peer>(io, std::move(socket));
    peers.emplace(id, peer);
    peer->deadline.expires_after(kHelloDeadline);
    peer->deadline.async_wait([weak = weak_from_this(), id](ErrorCode const& error) {
      if (auto const self = weak.lock(); self && !error) {
        self->forget_unless_known(id);
      }
    });
    Channel::Handlers on;
    on.frame = [weak = weak_from_this(), id](std::string const& payload) {
      if (auto const self = weak.lock()) {
        self->received(id, payload);
      }
    };
    on.closed = [weak = weak_from_this(), id](std::string how) {
      if (auto const self = weak.lock()) {
        self->lost(id, std::move(how));
      }
    };
    peer->channel->start(std::move(on));
  }

  void erase(std::map<AgentId, std::shared_ptr<Peer>>::iterator it) {
    auto const peer = it->second;
    AgentId const id = it->first;
    peer->deadline.cancel();
    peers.erase(it);
    auto const named = members.find(peer->hello.nonce);
    if (named != members.end() && named->second == id) {
      members.erase(named);
    }
    if (peer->other != 0) {
      peers.at(peer->other)->other = 0;
      if (peer->at == Peer::At::member) {
        forget(peer->other);  // nobody hears the heartbeats of who is gone
      }
    }
  }

  /// A timer that has expired cannot be recalled: its caller may have joined since.
  void forget_unless_known(AgentId id) {
    auto const it = peers.find(id);
    if (it != peers.end() && it->second->at != Peer::At::member && it->second->other == 0) {
      forget(id);
    }
  }

  void forget(AgentId id) {
    if (auto const it = peers.find(id); it != peers.end()) {
      it->second->channel->close_after_flush();
      erase(it);
    }
  }

  void lost(AgentId id, std::string how) {
    auto const it = peers.find(id);
    if (it == peers.end()) {
      return;
    }
    if (it->second->at == Peer::At::beat && it->second->other != 0) {
      // Without its second connection nobody is judged by silence; the first one tells about the rest.
      with_run_of(it->second->other, [](Run& run, AgentId member) { run.unwatch(member); });
    }
    RunKey const run = it->second->run;
    erase(it);
    feed(run, Lost{id, std::move(how)});
  }

  template <class Does>
  void with_run_of(AgentId member, Does does) {
    if (auto const run = runs.find(peers.at(member)->run); run != runs.end()) {
      does(*run->second, member);
    }
  }

  void beat(AgentId id, Peer& peer, std::string const& payload) {
    peer.channel->send(payload);
    if (peer.other == 0 && !pair(id, peer)) {
      return;  // its agent has not joined yet; the deadline runs
    }
    with_run_of(peer.other, [](Run& run, AgentId member) { run.heard(member); });
  }

  /// The connection of an agent's heartbeats finds its member; one that it replaces goes.
  bool pair(AgentId id, Peer& peer) {
    auto const named = members.find(peer.hello.nonce);
    if (named == members.end()) {
      return false;
    }
    auto const member = peers.at(named->second);
    if (AgentId const before = std::exchange(member->other, id); before != 0) {
      peers.at(before)->other = 0;
      forget(before);
    }
    peer.other = named->second;
    peer.deadline.cancel();
    return true;
  }

  void received(AgentId id, std::string const& payload) {
    auto const it = peers.find(id);
    if (it == peers.end()) {
      return;
    }
    auto const peer = it->second;
    switch (peer->at) {
      case Peer::At::hello: hello(id, *peer, payload); break;
      case Peer::At::join: join(id, *peer, payload); break;
      case Peer::At::member: message(id, peer->run, payload); break;
      case Peer::At::beat: beat(id, *peer, payload); break;
    }
  }

  void hello(AgentId id, Peer& peer, std::string const& payload) {
    auto decoded = decode_hello(payload);
    if (!decoded) {
      log(Level::warn, "a stranger called: " + decoded.error().message());
      forget(id);
      return;
    }
    peer.hello = *std::move(decoded);
    HelloReply reply;
    reply.coordinator = config.nonce;
    reply.run_id = peer.hello.run_id;
    Place const where = place(table, peer.hello);
    if (peer.hello.version != kProtocolVersion) {
      reply.why = HelloReply::Why::other_version;
      reply.refused = "this coordinator speaks protocol version " + std::to_string(kProtocolVersion) +
                      ", the agent version " + std::to_string(peer.hello.version);
    } else if (auto const* other = std::get_if<Elsewhere>(&where)) {
      reply.why = HelloReply::Why::other_job;
      reply.refused = other->why;
    } else if (auto const* belongs = std::get_if<Belongs>(&where)) {
      reply.run_id = find_run(table, belongs->run)->id;
      reply.heartbeat_timeout = find_run(table, belongs->run)->terms.heartbeat_timeout;
    }
    peer.hello.run_id = reply.run_id;
    peer.channel->send(encode(reply));
    if (reply.why != HelloReply::Why::accepted) {
      forget(id);
      return;
    }
    peer.at = peer.hello.purpose == Hello::Purpose::beat ? Peer::At::beat : Peer::At::join;
  }

  void join(AgentId id, Peer& peer, std::string const& payload) {
    auto decoded = decode_to_coordinator(payload);
    auto* const join = decoded ? std::get_if<Join>(&*decoded) : nullptr;
    if (join == nullptr) {
      log(Level::warn, "a caller did not join: " + (decoded ? "another message came" : decoded.error().message()));
      forget(id);
      return;
    }
    Place const where = admit(table, peer.hello, *join);
    if (auto const* away = std::get_if<TurnedAway>(&where)) {
      log(Level::info, "refused " + join->node.host + ": " + away->why);
      peer.channel->send(encode(ToAgent(Refused{away->exit_code, away->why})));
      forget(id);
      return;
    }
    auto const* belongs = std::get_if<Belongs>(&where);
    peer.run = belongs != nullptr ? belongs->run : open_run(peer.hello.run_id, *join->terms);
    peer.at = Peer::At::member;
    peer.deadline.cancel();
    members[peer.hello.nonce] = id;
    join->node.reached_at = peer.channel->local_address();
    join->node.calls_from = peer.channel->remote_address();
    feed(peer.run, Joined{id, std::move(join->node)});
  }

  void message(AgentId id, RunKey run, std::string const& payload) {
    auto decoded = decode_to_coordinator(payload);
    if (!decoded) {
      log(Level::error, "message from an agent not understood: " + decoded.error().message());
      forget(id);
      feed(run, Lost{id, "protocol error"});
      return;
    }
    std::visit(
        [&](auto& concrete) {
          using Message = std::decay_t<decltype(concrete)>;
          if constexpr (std::is_same_v<Message, Elector>) {
            feed(run, Followed{id, std::move(concrete)});
          } else if constexpr (std::is_same_v<Message, Gone>) {
            feed(run, Buried{concrete});
          } else if constexpr (!std::is_same_v<Message, Join>) {
            feed(run, Said{id, std::move(concrete)});
          }
        },
        *decoded);
  }
};

Coordinator::Coordinator(boost::asio::io_context& io, store::StoreServer& stores, CoordinatorConfig config,
                         CoordinatorHandlers handlers)
    : impl_(std::make_shared<Impl>(io, stores, std::move(config), std::move(handlers))) {}

Coordinator::~Coordinator() {
  impl_->shutdown();
}

Result<std::uint16_t> Coordinator::listen(std::vector<std::uint16_t> const& ports) {
  std::string tried;
  ErrorCode error;
  for (std::uint16_t const port : ports) {
    impl_->acceptor = listen_on(impl_->io, port, impl_->config.loopback_only, error);
    if (impl_->acceptor) {
      impl_->accept();
      return impl_->acceptor->local_endpoint(error).port();
    }
    tried += (tried.empty() ? "" : ", ") + std::to_string(port);
  }
  return fail(Errc::in_use, "cannot listen on port " + tried + " (choose another one with --rdzv-endpoint HOST:PORT)",
              error.value());
}

void Coordinator::open_run(std::string const& run_id, Terms const& terms) {
  impl_->open_run(run_id, terms);
}

void Coordinator::quit(int signal) {
  impl_->quit(signal);
}

bool Coordinator::idle() const {
  return impl_->runs.empty();
}

}  // namespace cxxrun::rendezvous
