// Board: what the nodes of a step tell each other. Shell.
//
// The first node keeps it; the others write there, and read what others have written. Every connection is proven and
// sealed as those of a job's agents are, with the same keys (rendezvous/net/key_ring.hpp): whoever does not prove
// himself is told nothing and is not read. docs/design/trust.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/meeting.hpp"
#include "rendezvous/trust/transports.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/bounded_thread.hpp"

namespace cxxrun::launcher::doctor {

/// How the nodes prove themselves; nothing with --auth none.
using Transports = std::optional<rendezvous::KeyTransports>;

/// Its connections are served on a thread of its own. The functions are for one other thread.
class Board {
 public:
  /// On the first node. Errors: in_use (its ports), permission (no way for the key to other nodes).
  [[nodiscard]] static Result<std::unique_ptr<Board>> host(Meeting const& meeting, Transports const& transports);
  /// On the others; calls until the deadline. Errors: permission (who answers does not prove himself), timeout.
  [[nodiscard]] static Result<std::unique_ptr<Board>> find(Meeting const& meeting, Transports const& transports,
                                                           TimePoint deadline);
  ~Board();
  Board(Board const&) = delete;
  Board& operator=(Board const&) = delete;

  void tell(std::string const& key, std::string const& text);
  /// What has been told under that name; nothing yet.
  [[nodiscard]] std::optional<std::string> look(std::string const& key);
  /// The same, once it is there. Errors: timeout; closed, the first node has ended.
  [[nodiscard]] Result<std::string> ask(std::string const& key, TimePoint deadline);

  /// A name that no other board has.
  [[nodiscard]] std::string const& name() const;
  /// Where this node answers the calls of Callee (pings.hpp), on all addresses.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::optional<rendezvous::Key> key() const;

 private:
  struct Shared;
  Board(std::shared_ptr<Shared> shared, std::unique_ptr<os::BoundedThread> thread);
  [[nodiscard]] static Result<std::unique_ptr<Board>> open(std::shared_ptr<Shared> shared);

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<os::BoundedThread> thread_;
};

}  // namespace cxxrun::launcher::doctor
