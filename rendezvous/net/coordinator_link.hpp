// CoordinatorLink: an agent's connection to a coordinator, or to an agent that may become one. It finds the
// coordinator, sends the hello, joins or follows, and carries messages and beats. Its owner decides about silence.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/net/probing.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

/// Where the events of a CoordinatorLink go: to AgentLinks::Link.
struct LinkInbox {
  virtual void on_joined(HelloReply const& reply) = 0;
  /// Could not join; nothing follows. `refused`: the host refused, since nothing listens there.
  virtual void on_failed(Error error, bool refused) = 0;
  virtual void on_message(ToAgent message) = 0;
  virtual void on_beat(BeatAck const& /*ack*/) {}
  virtual void on_live(LiveDown&& /*message*/) {}
  /// The connection ended; nothing follows.
  virtual void on_closed(std::string how, Ended ended) = 0;
};

class CoordinatorLink {
 public:
  /// `inbox` outlives it.
  CoordinatorLink(boost::asio::io_context& io, LinkInbox& inbox);
  ~CoordinatorLink();
  CoordinatorLink(CoordinatorLink const&) = delete;
  CoordinatorLink& operator=(CoordinatorLink const&) = delete;

  /// Starts the call; `on_joined` or `on_failed` follows.
  void call(CallPlan plan);
  /// Tries this port of the same host, too, and next, unless it is a candidate already. No effect after the call, or if
  /// the plan has one port only.
  void try_also(std::uint16_t port);
  /// Sends, or drops the message if there is no connection.
  void send(ToCoordinator const& message);
  /// The same; returns false if it was dropped.
  bool send(LiveUp const& message);
  /// Sends on a separate connection, which the first beat opens (beat_line.hpp). Dropped before `on_joined`.
  void send_beat(Beat const& beat);
  /// The other end, once joined.
  struct Reached {
    std::string address;
    std::uint16_t port = 0;
    bool relayed = false;  ///< the other side sees other ends, so it may be a relay's (trust/both_ends.hpp)
  };
  [[nodiscard]] std::optional<Reached> reached() const;
  /// Says goodbye; no event follows.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
