// CoordinatorLink: an agent's connection to the coordinator. Finds it, greets it, joins, carries messages.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/messages.hpp"
#include "rendezvous/silence.hpp"
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
  SilencePolicy silence;  ///< heartbeats on a second connection; timeout 0: none
};

struct LinkHandlers {
  std::function<void(HelloReply const&)> joined;
  std::function<void(Error)> failed;  ///< could not join; nothing follows
  std::function<void(ToAgent)> message;
  std::function<void(std::string how)> closed;  ///< the connection ended; nothing follows
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
  /// Says goodbye; no handler runs afterwards.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
