#include "rendezvous/net/peers.hpp"

#include <utility>

#include <boost/asio/io_context.hpp>

#include "src/base/os/local_address.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr auto kHelloDeadline = std::chrono::seconds(10);
constexpr std::size_t kLongestGreeting = 16U << 10U;  ///< of whoever has not said yet who it is

void make_known(AgentId id, Peer& peer) {
  peer.channel->limit(wire::kMaxFrame);
  peer.deadline.cancel();
  if (peer.among) {
    leave(*peer.among, id, peer.from);
    peer.among.reset();
  }
}

}  // namespace

Peers::Peers(boost::asio::io_context& io, std::shared_ptr<KeyRing> keys, Handlers handlers)
    : io_(io), keys_(std::move(keys)), handlers_(std::move(handlers)) {}

Result<void> Peers::listen(os::UniqueFd socket) {
  auto const listener = std::make_shared<Listener>(io_);
  if (auto const error = listener->adopt(std::move(socket)); error) {
    return fail(Errc::io, "cannot listen on a socket that is open: " + error.message(), error.value());
  }
  auto const strangers = std::make_shared<Strangers>();
  auto const accepted = [weak = weak_from_this(), strangers](Channel::Socket socket) {
    if (auto const self = weak.lock()) {
      self->greet(std::move(socket), strangers);
    }
  };
  auto const hold = [weak = weak_from_this(), strangers] {
    Admission const admission = room(*strangers, Clock::now());
    if (auto const self = weak.lock(); self && admission.goes) {
      self->forget(*admission.goes);
    }
    return admission.hold;
  };
  listener->accept(accepted, hold);
  listeners_.push_back(listener);
  return {};
}

/// Before it costs anything: connections from other hosts are not known here, and go on.
bool Peers::is_of_another_user(int socket) {
  TcpEnds const ends{os::other_end(socket), os::own_end(socket)};
  auto const owner = owners_.whose(ends);
  bool const other = owner.kind == store::Owner::Kind::other;
  if (other) {
    handlers_.turned_away(address_text(ends.caller), owner.uid);
  }
  return other;
}

void Peers::greet(Channel::Socket socket, std::shared_ptr<Strangers> const& strangers) {
  if (keys_ && crowded(*strangers) && is_of_another_user(socket.native_handle())) {
    return;
  }
  AgentId const id = ++last_id_;
  auto const peer = std::make_shared<Peer>(io_, std::move(socket));
  peers_.emplace(id, peer);
  come(*strangers, id, peer->from, Clock::now());
  peer->among = strangers;
  peer->deadline.after(kHelloDeadline, [this, late = peer.get(), id] {  // once it is known it has none
    late->channel->close();
    lost(id, late->at == Peer::At::hello ? "no hello within 10 s" : "it said hello and did not join within 10 s",
         Ended::broken);
  });
  Channel::Handlers on;
  on.frame = [weak = weak_from_this(), id](std::string const& payload) {
    auto const self = weak.lock();
    if (!self) {
      return;
    }
    if (auto const it = self->peers_.find(id); it != self->peers_.end()) {
      auto const caller = it->second;
      if (caller->among) {
        speak(*caller->among, id, caller->from, self->keys_ ? Shown::proven : Shown::called);
      }
      self->handlers_.frame(id, *caller, payload);
    }
  };
  on.called = [weak = std::weak_ptr(peer), id] {
    if (auto const caller = weak.lock(); caller && caller->among) {
      speak(*caller->among, id, caller->from, Shown::called);
    }
  };
  on.closed = [weak = weak_from_this(), id](std::string how, Ended ended) {
    if (auto const self = weak.lock()) {
      self->lost(id, std::move(how), ended);
    }
  };
  peer->channel->limit(kLongestGreeting);
  peer->channel->start(std::move(on), Channel::End::called, keys_);
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
    peers_.at(before)->other = 0;  // a fresh connection replaces it
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

void Peers::lost(AgentId id, std::string how, Ended ended) {
  if (auto const it = peers_.find(id); it != peers_.end()) {
    auto const peer = it->second;
    erase(it);
    handlers_.lost(id, *peer, std::move(how), ended);
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
      forget(peer->other);  // nobody hears the beats of who is gone
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
