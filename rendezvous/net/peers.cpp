#include "rendezvous/net/peers.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_limits.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr auto kHelloDeadline = std::chrono::seconds(10);
constexpr std::size_t kLongestGreeting = 16U << 10U;  ///< longest frame of a pending connection
constexpr int kBacklog = 4096;
constexpr Millis kAcceptPause{100};  ///< after a failed accept: most likely there is no free descriptor
constexpr Millis kTellAgain{60'000};

/// Ends the limits on a pending connection.
void make_known(AgentId id, Peer& peer) {
  peer.channel->limit(wire::kMaxFrame);
  peer.deadline.cancel();
  if (peer.pending) {
    remove(*peer.pending, id, peer.from);
    peer.pending.reset();
  }
}

}  // namespace

/// One listening socket, its accepting and its pending connections.
class Peers::Listener : public std::enable_shared_from_this<Peers::Listener> {
 public:
  Listener(boost::asio::io_context& io, std::weak_ptr<Peers> peers)
      : acceptor_(io), pause_(io), peers_(std::move(peers)) {}

  /// Takes a bound socket and listens on it.
  [[nodiscard]] ErrorCode adopt(os::UniqueFd socket) {
    int family = 0;
    socklen_t size = sizeof(family);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
      return {errno, boost::system::system_category()};
    }
    fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
    ErrorCode error;
    acceptor_.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
    if (!error) {
      (void)socket.release();
      acceptor_.listen(kBacklog, error);
    }
    return error;
  }

  /// Accepts until `close`. While too many connections are pending, callers are left in the backlog.
  void accept() {
    Admission const admission = next_admission(*pending_, Clock::now());
    if (auto const peers = peers_.lock(); peers && admission.evicts) {
      peers->forget(*admission.evicts);
    }
    if (admission.hold > Millis{0}) {
      pause_.after(admission.hold, [this] { accept(); });
      return;
    }
    acceptor_.async_accept([this, self = shared_from_this()](ErrorCode const& error, Channel::Socket socket) {
      if (!acceptor_.is_open()) {
        return;
      }
      if (error) {
        if (auto const now = Clock::now(); !told_ || now - *told_ > kTellAgain) {
          told_ = now;
          log(Level::warn, os::explain_refusal("cannot accept a connection (retrying)", error.value()));
        }
        pause_.after(kAcceptPause, [this] { accept(); });
        return;
      }
      if (auto const peers = peers_.lock()) {
        peers->on_accept(std::move(socket), pending_);
      }
      if (acceptor_.is_open()) {
        accept();
      }
    });
  }

  void close() {
    ErrorCode ignored;
    pause_.cancel();
    acceptor_.close(ignored);
  }

 private:
  tcp::acceptor acceptor_;
  os::Timer pause_;
  std::weak_ptr<Peers> peers_;
  std::shared_ptr<PendingConnections> pending_ = std::make_shared<PendingConnections>();
  std::optional<TimePoint> told_;  // when the last failure was logged
};

Peers::Peers(boost::asio::io_context& io, std::shared_ptr<KeyRing> keys, PeersInbox& inbox)
    : io_(io), keys_(std::move(keys)), inbox_(inbox) {}

Result<void> Peers::listen(os::UniqueFd socket) {
  auto const listener = std::make_shared<Listener>(io_, weak_from_this());
  if (auto const error = listener->adopt(std::move(socket)); error) {
    return fail(Errc::io, "cannot listen on a socket that is open: " + error.message(), error.value());
  }
  listener->accept();
  listeners_.push_back(listener);
  return {};
}

/// Checked before anything is read. The owner of a connection from another host is not known here: it passes.
bool Peers::is_of_another_user(int socket) {
  TcpEnds const ends{os::other_end(socket), os::own_end(socket)};
  auto const owner = owners_.whose(ends);
  bool const other = owner.kind == store::Owner::Kind::other;
  if (other) {
    inbox_.on_peer_turned_away(address_text(ends.caller), owner.uid);
  }
  return other;
}

void Peers::on_accept(Channel::Socket socket, std::shared_ptr<PendingConnections> const& pending) {
  if (keys_ && crowded(*pending) && is_of_another_user(socket.native_handle())) {
    return;
  }
  AgentId const id = ++last_id_;
  auto const peer = std::make_shared<Peer>(io_, weak_from_this(), id, std::move(socket));
  peers_.emplace(id, peer);
  add(*pending, id, peer->from, Clock::now());
  peer->pending = pending;
  peer->deadline.after(kHelloDeadline, [this, late = peer.get(), id] {  // make_known() cancels it
    late->channel->close();
    on_closed(id, late->at == Peer::At::hello ? "no hello within 10 s" : "it said hello and did not join within 10 s",
              Ended::broken);
  });
  peer->channel->limit(kLongestGreeting);
  peer->channel->start(peer, Channel::End::called, keys_);
}

void Peer::on_frame(std::string payload) {
  auto const all = peers.lock();
  if (!all || !all->find(id)) {  // forgotten meanwhile
    return;
  }
  if (pending) {
    advance(*pending, id, from, all->keys_ ? CallerStage::proven : CallerStage::called);
  }
  all->inbox_.on_peer_frame(id, *this, payload);
}

void Peer::on_called() {
  if (pending) {
    advance(*pending, id, from, CallerStage::called);
  }
}

void Peer::on_closed(std::string how, Ended ended) {
  if (auto const all = peers.lock()) {
    all->on_closed(id, std::move(how), ended);
  }
}

AgentId Peers::admit(AgentId id, RunKey run, std::string host) {
  Peer& peer = *peers_.at(id);
  peer.run = run;
  peer.host = std::move(host);
  peer.at = Peer::At::member;
  make_known(id, peer);
  members_[peer.hello.nonce] = id;
  auto const beats = early_.extract(peer.hello.nonce);
  return beats.empty() ? 0 : beats.mapped();
}

AgentId Peers::pair(AgentId beats) {
  Peer& peer = *peers_.at(beats);
  if (peer.other != 0) {
    return peer.other;
  }
  auto const named = members_.find(peer.hello.nonce);
  if (named == members_.end()) {
    early_[peer.hello.nonce] = beats;
    return 0;
  }
  auto const member = peers_.at(named->second);
  if (AgentId const before = std::exchange(member->other, beats); before != 0) {
    peers_.at(before)->other = 0;  // the new connection replaces it
    forget(before);
  }
  peer.other = named->second;
  make_known(beats, peer);
  return peer.other;
}

std::shared_ptr<Peer> Peers::find(AgentId id) const {
  auto const it = peers_.find(id);
  return it == peers_.end() ? nullptr : it->second;
}

void Peers::send(AgentId id, std::string const& payload) {
  if (auto const it = peers_.find(id); it != peers_.end()) {
    it->second->channel->send(payload);
  }
}

void Peers::send_beat(AgentId member, std::string const& payload) {
  auto const it = peers_.find(member);
  if (it != peers_.end() && it->second->other != 0) {
    send(it->second->other, payload);
  }
}

void Peers::forget(AgentId id) {
  if (auto const it = peers_.find(id); it != peers_.end()) {
    it->second->channel->close_after_flush();
    erase(it);
  }
}

void Peers::forget_run(RunKey run) {
  std::vector<AgentId> left;
  for (auto const& [id, peer] : peers_) {
    if (peer->run == run) {
      left.push_back(id);
    }
  }
  for (AgentId const id : left) {
    forget(id);
  }
}

void Peers::on_closed(AgentId id, std::string how, Ended ended) {
  if (auto const it = peers_.find(id); it != peers_.end()) {
    auto const peer = it->second;
    erase(it);
    inbox_.on_peer_lost(id, *peer, std::move(how), ended);
  }
}

void Peers::erase(Entry it) {
  auto const peer = it->second;
  AgentId const id = it->first;
  make_known(id, *peer);
  peers_.erase(it);
  auto const named = members_.find(peer->hello.nonce);
  if (named != members_.end() && named->second == id) {
    members_.erase(named);
  }
  if (auto const waits = early_.find(peer->hello.nonce); waits != early_.end() && waits->second == id) {
    early_.erase(waits);
  }
  if (peer->other != 0) {
    peers_.at(peer->other)->other = 0;
    if (peer->at == Peer::At::member) {
      forget(peer->other);  // its connection for beats goes with it
    }
  }
}

void Peers::close() {
  for (auto const& listener : listeners_) {
    listener->close();
  }
  listeners_.clear();
  for (auto const& [id, peer] : peers_) {
    peer->deadline.cancel();
    peer->channel->close();
  }
  peers_.clear();
  members_.clear();
  early_.clear();
}

RunKey Peers::run_of(AgentId id) const {
  auto const it = peers_.find(id);
  return it == peers_.end() ? 0 : it->second->run;
}

}  // namespace cxxrun::rendezvous
