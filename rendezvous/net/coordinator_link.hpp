// CoordinatorLink: an agent's connection to a coordinator, or to an agent that may become one. Finds it, greets it,
// joins it or follows it, carries messages and beats. It judges nobody: whoever gives the beats does.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/net/call_plan.hpp"
#include "rendezvous/protocol/live_messages.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/ended.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

struct LinkHandlers {
  std::function<void(HelloReply const&)> joined;
  /// Could not join; nothing follows. `refused`: by the host, since nobody listens there.
  std::function<void(Error, bool refused)> failed;
  std::function<void(ToAgent)> message;
  std::function<void(BeatAck)> beat;
  std::function<void(LiveDown)> live{};  ///< may be empty
  /// The connection ended; nothing follows.
  std::function<void(std::string how, Ended ended)> closed;
};

class CoordinatorLink {
 public:
  CoordinatorLink(boost::asio::io_context& io, LinkHandlers handlers);
  ~CoordinatorLink();
  CoordinatorLink(CoordinatorLink const&) = delete;
  CoordinatorLink& operator=(CoordinatorLink const&) = delete;

  /// Starts to call; `joined` or `failed` follows.
  void call(CallPlan plan);
  /// This port of the same host, too, and first, unless it is among them. Nothing where a call is over, or one port is
  /// meant.
  void try_also(std::uint16_t port);
  /// Sends, or drops when there is no connection.
  void send(ToCoordinator const& message);
  /// The same; false: it was dropped.
  bool send(LiveUp const& message);
  /// On a connection of its own, which the first beat opens (beat_line.hpp). Dropped before `joined`.
  void send_beat(Beat const& beat);
  /// The other end, once the connection stands.
  struct Reached {
    std::string address;
    std::uint16_t port = 0;
    bool relayed = false;  ///< the other side sees other ends: it is not proven to be the coordinator's own
  };
  [[nodiscard]] std::optional<Reached> reached() const;
  /// Says goodbye; no handler runs afterwards.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
