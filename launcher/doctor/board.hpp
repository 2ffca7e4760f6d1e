// Board: a key-value table through which the nodes of a step exchange text. Shell.
//
// The first node hosts it; the others write and read it over TCP. Connections are authenticated and encrypted as
// between the agents of a job, with the same keys (rendezvous/net/key_ring.hpp). An unauthenticated caller is told
// nothing, and nothing that it sends is used. docs/design/trust.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/step.hpp"
#include "rendezvous/trust/grant.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher::doctor {

/// How the nodes authenticate each other; empty with --auth none.
using Transports = std::optional<rendezvous::KeyTransports>;

/// Connections are served on an internal thread. The member functions may be called from one other thread.
class Board {
 public:
  /// On the first node. Errors: in_use (all its ports are taken), permission (the key cannot be shared with other
  /// nodes).
  [[nodiscard]] static Result<std::unique_ptr<Board>> host(StepMeeting const& meeting, Transports const& transports);
  /// On the others: calls the first node until the deadline. Errors: permission (what answers cannot authenticate),
  /// timeout.
  [[nodiscard]] static Result<std::unique_ptr<Board>> connect(StepMeeting const& meeting, Transports const& transports,
                                                              TimePoint deadline);
  ~Board();
  Board(Board const&) = delete;
  Board& operator=(Board const&) = delete;

  void put(std::string const& key, std::string const& text);
  /// The value if this node has it already; otherwise asks the first node for it, without waiting.
  [[nodiscard]] std::optional<std::string> peek(std::string const& key);
  /// Waits for the value. Errors: timeout; closed, the first node has ended.
  [[nodiscard]] Result<std::string> wait_for(std::string const& key, TimePoint deadline);

  /// Random, the same on all nodes.
  [[nodiscard]] std::string const& name() const;
  /// The port at which this node answers Callee (pings.hpp), on all addresses.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::optional<rendezvous::Key> key() const;

 private:
  struct Shared;
  Board(std::shared_ptr<Shared> shared, std::unique_ptr<os::BoundedThread> thread);
  [[nodiscard]] static Result<std::unique_ptr<Board>> start(std::shared_ptr<Shared> shared);

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<os::BoundedThread> thread_;
};

}  // namespace cxxrun::launcher::doctor
