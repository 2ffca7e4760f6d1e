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
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/core/time.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

/// Where and as whom to call.
struct CallPlan {
  std::vector<std::string> addresses;  ///< names or literals of one host
  std::vector<std::uint16_t> ports;    ///< tried in order, again and again until `patience` is over
  std::string coordinator;             ///< only the one of this nonce is meant; "" = whoever has the run
  std::string run_id;
  Hello::Asks asks = Hello::Asks::meet;
  NodeInfo node;  ///< node.incarnation is the nonce of the handshake
  std::optional<Terms> terms;
  Millis patience{600'000};
  /// Only present oneself: nothing is sent behind the greeting; Elector is the owner's to send. Hello asks `follow`.
  bool follow = false;
  /// Each address and port is tried once: `failed` comes at once when nobody listens, and after `patience` without an
  /// answer. For successors, of whom there are others.
  bool once = false;
};

struct LinkHandlers {
  std::function<void(HelloReply const&)> joined;
  /// Could not join; nothing follows. `refused`: by the host, since nobody listens there.
  std::function<void(Error, bool refused)> failed;
  std::function<void(ToAgent)> message;
  std::function<void(BeatAck)> beat;  ///< may be empty
  /// The connection ended; nothing follows. `fin`: in order, the other process closed it or is dead.
  std::function<void(std::string how, bool fin)> closed;
};

class CoordinatorLink {
 public:
  CoordinatorLink(boost::asio::io_context& io, LinkHandlers handlers);
  ~CoordinatorLink();
  CoordinatorLink(CoordinatorLink const&) = delete;
  CoordinatorLink& operator=(CoordinatorLink const&) = delete;

  /// Starts to call; `joined` or `failed` follows.
  void call(CallPlan plan);
  /// Sends, or drops when there is no connection.
  void send(ToCoordinator const& message);
  /// On a connection of its own, which the first beat opens (beat_line.hpp). Dropped before `joined`.
  void send_beat(Beat const& beat);
  /// The other end, once the connection stands.
  struct Reached {
    std::string address;
    std::uint16_t port = 0;
  };
  [[nodiscard]] std::optional<Reached> reached() const;
  /// Says goodbye; no handler runs afterwards.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
