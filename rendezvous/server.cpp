#include "rendezvous/server.hpp"

#include <deque>
#include <fcntl.h>
#include <map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rendezvous/channel.hpp"
#include "rendezvous/silence_watch.hpp"
#include "src/os/log.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr auto kHelloDeadline = std::chrono::seconds(10);
constexpr int kBacklog = 4096;

/// A port that is free now, for --agent-store=off: rank 0 will bind it. Somebody else may be faster; with
/// --master-port the user chooses.
std::uint16_t free_port(boost::asio::io_context& io) {
  ErrorCode error;
  tcp::acceptor probe(io);
  probe.open(tcp::v4(), error);
  probe.bind(tcp::endpoint(tcp::v4(), 0), error);
  return error ? std::uint16_t{0} : probe.local_endpoint(error).port();
}

/// A listening socket on every address (IPv6 and IPv4 in one where the machine has IPv6), or nothing and the error.
std::unique_ptr<tcp::acceptor> listen_on(boost::asio::io_context& io, std::uint16_t port, bool loopback_only,
                                         ErrorCode& error) {
  auto acceptor = std::make_unique<tcp::acceptor>(io);
  tcp::endpoint where(tcp::v6(), port);
  acceptor->open(tcp::v6(), error);
  if (!error) {
    acceptor->set_option(boost::asio::ip::v6_only(false), error);
  }
  if (error || loopback_only) {
    where =
        loopback_only ? tcp::endpoint(boost::asio::ip::address_v4::loopback(), port) : tcp::endpoint(tcp::v4(), port);
    ErrorCode ignored;
    acceptor->close(ignored);
    acceptor->open(tcp::v4(), error);
  }
  if (!error) {
    fcntl(acceptor->native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor->bind(where, error);
  }
  if (!error) {
    acceptor->listen(kBacklog, error);
  }
  return error ? nullptr : std::move(acceptor);
}

}  // namespace

/// One connection until it is told apart: an agent's, or one for heartbeats.
struct Peer {
  explicit Peer(boost::asio::io_context& io, tcp::socket socket)
      : channel(std::make_shared<Channel>(std::move(socket))), deadline(io) {}
  std::shared_ptr<Channel> channel;
  boost::asio::steady_timer deadline;  ///< for hello and join
  Hello hello;
  enum class At { hello, join, member, beat } at = At::hello;
};

struct Coordinator::Impl : std::enable_shared_from_this<Coordinator::Impl> {
  Impl(boost::asio::io_context& context, StoreServer& store_server, CoordinatorConfig conf, CoordinatorHandlers h)
      : io(context),
        stores(store_server),
        config(std::move(conf)),
        handlers(std::move(h)),
        timer(context),
        watch(context, config.silence, [this](PeerId id) { silent(id); }) {}

  boost::asio::io_context& io;
  StoreServer& stores;
  CoordinatorConfig config;
  CoordinatorHandlers handlers;
  State state;
  boost::asio::steady_timer timer;
  boost::asio::steady_timer accept_pause{io};
  std::unique_ptr<tcp::acceptor> acceptor;
  std::map<AgentId, std::shared_ptr<Peer>> peers;
  SilenceWatch watch;
  std::map<std::string, AgentId> members;  // by nonce: whose heartbeats these are
  AgentId last_id = 0;
  std::deque<Event> inbox;
  bool stepping = false;
  bool shut = false;

  // ---- the loop: event → step → actions ----------------------------------------------------------------------

  void feed(Event event) {
    inbox.push_back(std::move(event));
    if (stepping) {
      return;
    }
    stepping = true;
    while (!inbox.empty() && !shut) {
      Event const next = std::move(inbox.front());
      inbox.pop_front();
      Step result = step(std::move(state), next, Clock::now(), config.policy);
      state = std::move(result.next);
      if (!result.reason.empty()) {
        log(Level::info, result.reason);
      }
      for (auto& action : result.actions) {
        std::visit([this](auto& concrete) { perform(concrete); }, action);
      }
    }
    stepping = false;
  }

  void perform(Tell const& action) {
    if (auto const it = peers.find(action.agent); it != peers.end()) {
      it->second->channel->send(encode(action.message));
    }
  }
  void perform(HangUp const& action) {
    if (auto const it = peers.find(action.agent); it != peers.end()) {
      it->second->channel->close_after_flush();
      erase(it);
    }
  }
  void perform(OpenStore const& action) {
    StoreBind where;
    where.loopback_only = config.loopback_only;
    where.port = config.agent_store ? config.master_port : std::uint16_t{0};
    auto const port = stores.open(action.number, where);
    if (!port) {
      feed(StoreFailed{action.number, (where.port != 0 ? "--master-port: " : "") + port.error().message()});
      return;
    }
    std::uint16_t master = *port;
    if (!config.agent_store) {
      master = config.master_port != 0 ? config.master_port : free_port(io);
    }
    feed(StoreOpened{action.number, *port, master});
  }
  void perform(CloseStore const& action) { stores.close(action.number); }
  void perform(ArmTimer const& action) {
    timer.expires_at(action.at);
    timer.async_wait([weak = weak_from_this()](ErrorCode const& error) {
      if (auto const self = weak.lock(); self && !error) {
        self->feed(Tick{});
      }
    });
  }
  void perform(Conclude const& action) { handlers.concluded(action.verdict); }
  void perform(Close const&) {
    if (!shut) {
      shutdown();
      handlers.closed();
    }
  }

  void shutdown() {
    shut = true;
    timer.cancel();
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
        self->forget(id);
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
    it->second->deadline.cancel();
    if (it->second->at == Peer::At::member) {
      watch.forget(it->first);
      members.erase(it->second->hello.nonce);
    }
    peers.erase(it);
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
    bool const member = it->second->at == Peer::At::member;
    erase(it);
    if (member) {
      feed(Lost{id, std::move(how)});
    }
  }

  void silent(AgentId id) {
    if (auto const it = peers.find(id); it != peers.end()) {
      it->second->channel->close();
      lost(id, "silent for " + std::to_string(config.silence.timeout.count() / 1000) + " s");
    }
  }

  void beat(Peer& peer, std::string const& payload) {
    peer.channel->send(payload);
    if (auto const member = members.find(peer.hello.nonce); member != members.end()) {
      watch.heard(member->second);
    }
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
      case Peer::At::member: message(id, payload); break;
      case Peer::At::beat: beat(*peer, payload); break;
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
    if (peer.hello.version != kProtocolVersion) {
      reply.why = HelloReply::Why::other_version;
      reply.refused = "this coordinator speaks protocol version " + std::to_string(kProtocolVersion) +
                      ", the agent version " + std::to_string(peer.hello.version);
    } else if (peer.hello.run_id != config.run_id) {
      reply.why = HelloReply::Why::other_job;
      reply.refused = "this is job " + config.run_id + ", not " + peer.hello.run_id;
    }
    peer.channel->send(encode(reply));
    if (reply.why != HelloReply::Why::accepted) {
      forget(id);
      return;
    }
    bool const beats = peer.hello.purpose == Hello::Purpose::beat;
    peer.at = beats ? Peer::At::beat : Peer::At::join;
    if (beats) {
      peer.deadline.cancel();
    }
  }

  void join(AgentId id, Peer& peer, std::string const& payload) {
    auto decoded = decode_to_coordinator(payload);
    auto* const join = decoded ? std::get_if<Join>(&*decoded) : nullptr;
    if (join == nullptr) {
      log(Level::warn, "a caller did not join: " + (decoded ? "another message came" : decoded.error().message()));
      forget(id);
      return;
    }
    peer.at = Peer::At::member;
    peer.deadline.cancel();
    members[peer.hello.nonce] = id;
    join->node.reached_at = peer.channel->local_address();
    feed(Joined{id, std::move(join->node)});
  }

  void message(AgentId id, std::string const& payload) {
    auto decoded = decode_to_coordinator(payload);
    if (!decoded) {
      log(Level::error, "message from an agent not understood: " + decoded.error().message());
      forget(id);
      feed(Lost{id, "protocol error"});
      return;
    }
    std::visit(
        [&](auto& concrete) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(concrete)>, Join>) {
            feed(Said{id, std::move(concrete)});
          }
        },
        *decoded);
  }
};

Coordinator::Coordinator(boost::asio::io_context& io, StoreServer& stores, CoordinatorConfig config,
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

void Coordinator::open() {
  impl_->feed(Opened{});
}

}  // namespace cxxrun::rendezvous
