// Coordinator: the shell around membership. Listens, greets, turns frames and timers into events, performs actions.
//
// Runs on the thread of the io_context given to it. It decides nothing: membership.hpp does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/membership.hpp"
#include "rendezvous/silence.hpp"
#include "rendezvous/store_server.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

struct CoordinatorConfig {
  std::string run_id;
  std::string nonce;  ///< of the agent that hosts
  Policy policy;
  SilencePolicy silence;  ///< when an agent that sends no heartbeats any more counts as lost
  bool loopback_only = false;
  bool agent_store = true;        ///< MASTER_PORT is the store; false: a port left free for rank 0
  std::uint16_t master_port = 0;  ///< exact MASTER_PORT, 0: the kernel's choice
};

struct CoordinatorHandlers {
  std::function<void(Verdict const&)> concluded;  ///< once
  std::function<void()> closed;                   ///< once, after `concluded`: nobody is left
};

class Coordinator {
 public:
  Coordinator(boost::asio::io_context& io, StoreServer& stores, CoordinatorConfig config, CoordinatorHandlers handlers);
  ~Coordinator();
  Coordinator(Coordinator const&) = delete;
  Coordinator& operator=(Coordinator const&) = delete;

  /// Listens on the first of `ports` that is free (0: any) and returns it. Errors: in_use naming the ports.
  Result<std::uint16_t> listen(std::vector<std::uint16_t> const& ports);
  /// Starts the clocks of the first generation.
  void open();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
