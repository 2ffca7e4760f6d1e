// Peers: all connections of a coordinator, from the listening socket to the last byte, and which of them belong
// together.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/net/channel.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "rendezvous/net/pending_connections.hpp"
#include "rendezvous/net/run_table.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {

class Peers;

/// One connection: an agent's, one for beats, or one for a death notice.
struct Peer final : ChannelInbox {
  Peer(boost::asio::io_context& io, std::weak_ptr<Peers> all, AgentId number, Channel::Socket socket)
      : peers(std::move(all)), id(number), channel(std::make_shared<Channel>(std::move(socket))), deadline(io) {}
  void on_frame(std::string payload) override;
  void on_closed(std::string how, Ended ended) override;
  void on_called() override;

  std::weak_ptr<Peers> peers;
  AgentId id;
  std::shared_ptr<Channel> channel;
  std::string from = channel->remote_address();  ///< kept here, since a closed socket has no address any more
  std::shared_ptr<PendingConnections> pending;   ///< those of its listener, as long as it is one of them
  os::Timer deadline;                            ///< for hello and join
  Hello hello;
  bool relayed = false;       ///< it may be a relay's (trust/both_ends.hpp)
  std::string host;           ///< of a member; for people
  RunKey run = 0;             ///< of a member
  AgentId other = 0;          ///< of a member: its connection for beats, and the other way round; 0: none yet
  std::optional<Beat> early;  ///< the last beat that came before its member
  enum class At { hello, first, member, beat, death_notice } at = At::hello;
};

/// Where the events of Peers go: to Coordinator::Impl and Board::Shared.
struct PeersInbox {
  virtual void on_peer_frame(AgentId id, Peer& peer, std::string const& payload) = 0;
  /// It is removed already.
  virtual void on_peer_lost(AgentId id, Peer const& peer, std::string how, Ended ended) = 0;
  /// Closed unread: in a crowd, a process of this other user on this host called.
  virtual void on_peer_turned_away(std::string const& /*from*/, std::uint32_t /*uid*/) {}
};

class Peers : public std::enable_shared_from_this<Peers> {
 public:
  /// `keys`: how callers prove themselves; null: they need not. `inbox` outlives it.
  Peers(boost::asio::io_context& io, std::shared_ptr<KeyRing> keys, PeersInbox& inbox);

  /// Accepts on this socket, too, which is bound already. Errors: io.
  [[nodiscard]] Result<void> listen(os::UniqueFd socket);
  /// The agent has joined, or follows. Connections with its nonce belong to it; returns the one for beats that came
  /// before it, or 0.
  [[nodiscard]] AgentId admit(AgentId id, RunKey run, std::string host);
  /// Assigns a connection for beats to its member and returns the member; 0: no agent has joined with its nonce yet,
  /// and `admit` will return this connection.
  AgentId pair(AgentId beats);
  /// Null: the connection is gone.
  [[nodiscard]] std::shared_ptr<Peer> find(AgentId id) const;
  void send(AgentId id, std::string const& payload);
  void send_beat(AgentId member, std::string const& payload);
  /// Closes when everything is written, with a member its connection for beats, too; no event follows.
  void forget(AgentId id);
  void forget_run(RunKey run);
  /// Closes all connections and listening sockets.
  void close();
  /// 0: the connection is gone, or belongs to no run.
  [[nodiscard]] RunKey run_of(AgentId id) const;

 private:
  friend Peer;
  class Listener;
  using Entry = std::map<AgentId, std::shared_ptr<Peer>>::iterator;
  [[nodiscard]] bool is_of_another_user(int socket);
  void on_accept(Channel::Socket socket, std::shared_ptr<PendingConnections> const& pending);
  void on_closed(AgentId id, std::string how, Ended ended);
  void erase(Entry it);

  boost::asio::io_context& io_;
  std::shared_ptr<KeyRing> keys_;
  PeersInbox& inbox_;
  HostOwners owners_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::map<AgentId, std::shared_ptr<Peer>> peers_;
  std::map<std::string, AgentId> members_;  // by nonce
  std::map<std::string, AgentId> early_;    // by nonce: connections for beats that came before their member
  AgentId last_id_ = 0;
};

}  // namespace cxxrun::rendezvous
