// Peers: the connections of a coordinator, from the first byte to the last, and which of them belong together.
//
// Shell header: for server.cpp and launcher/doctor/board.cpp only. Runs on the thread of the io_context given to it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/net/channel.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "rendezvous/net/listener.hpp"
#include "rendezvous/net/run_table.hpp"
#include "rendezvous/net/strangers.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {

/// One connection until it is told apart: an agent's, one for beats, or a death notice.
struct Peer {
  explicit Peer(boost::asio::io_context& io, Channel::Socket socket)
      : channel(std::make_shared<Channel>(std::move(socket))), deadline(io) {}
  std::shared_ptr<Channel> channel;
  std::string from = channel->remote_address();  ///< a closed connection cannot tell any more
  std::shared_ptr<Strangers> among;              ///< those of its listener, until it is known
  os::Timer deadline;                            ///< for hello and join
  Hello hello;
  bool relayed = false;       ///< not proven to be its own
  std::string host;           ///< once a member, for people
  RunKey run = 0;             ///< once a member
  AgentId other = 0;          ///< of a member its connection for beats, of that one its member; 0: none yet
  std::optional<Beat> early;  ///< the last one that came before the member
  enum class At { hello, first, member, beat, death_notice } at = At::hello;
};

class Peers : public std::enable_shared_from_this<Peers> {
 public:
  struct Handlers {
    std::function<void(AgentId, Peer&, std::string const& payload)> frame;
    std::function<void(AgentId, Peer const&, std::string how, Ended ended)> lost;  ///< it is no longer among them
    /// A process of that other user on this host has called in a crowd, and was not heard.
    std::function<void(std::string const& from, std::uint32_t uid)> turned_away;
  };

  /// `keys`: how callers prove themselves; none: whoever calls is let in.
  Peers(boost::asio::io_context& io, std::shared_ptr<KeyRing> keys, Handlers handlers);

  /// Also on this socket, which is bound, and listens, already. Errors: io.
  [[nodiscard]] Result<void> listen(os::UniqueFd socket);
  /// It has joined, or follows: what is sent under its nonce belongs to it. The connection for its beats that was here
  /// first is returned; 0: none was.
  [[nodiscard]] AgentId admit(AgentId id, RunKey run, std::string host);
  /// The connection of an agent's beats finds its member, which is returned; 0: nobody has joined under its nonce yet,
  /// and `admit` will tell.
  AgentId pair(AgentId beats);
  /// Null: it is gone.
  [[nodiscard]] std::shared_ptr<Peer> find(AgentId id) const;
  void send(AgentId id, std::string const& payload);
  void send_beat(AgentId member, std::string const& payload);
  /// Closes once everything is written; no handler follows. With a member goes its connection for beats.
  void forget(AgentId id);
  void forget_run(RunKey run);
  /// Closes everything, and listens no more.
  void close();
  /// 0 when it is not there (any more).
  [[nodiscard]] RunKey run_of(AgentId id) const;

 private:
  using Entry = std::map<AgentId, std::shared_ptr<Peer>>::iterator;
  [[nodiscard]] bool is_of_another_user(int socket);
  void greet(Channel::Socket socket, std::shared_ptr<Strangers> const& strangers);
  void lost(AgentId id, std::string how, Ended ended);
  void erase(Entry it);

  boost::asio::io_context& io_;
  std::shared_ptr<KeyRing> keys_;
  Handlers handlers_;
  HostOwners owners_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::map<AgentId, std::shared_ptr<Peer>> peers_;
  std::map<std::string, AgentId> members_;  // by nonce: whose beats these are
  std::map<std::string, AgentId> early_;    // by nonce: connections for beats that wait for their member
  AgentId last_id_ = 0;
};

}  // namespace cxxrun::rendezvous
