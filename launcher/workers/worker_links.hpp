// WorkerLinks: the connections between this agent and the workers that use the library. Shell.
//
// There is one unix socket for the agent's life, which the workers know as CXXRUN_AGENT. A worker registers there and
// gets a page of shared memory (src/base/worker/control_page.hpp; the packets: src/base/worker/agent_packets.hpp).
// Three kinds of callers are served:
// - a process that belongs to a worker (launcher/workers/worker_processes.hpp) may register: one for each worker, so
//   that nothing here grows without bounds
// - such a process may ask for proofs without registering; one connection for each worker is kept
// - any process of this user may ask about the job; its connection is handed on.
// Others are refused, and the log names the first few of them. An unexpected packet ends the connection. What a worker
// writes to its page is never used as an offset or a size. Runs on the thread of the io_context; members never call the
// inbox.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include "cxxrun/error.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/control_page.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

/// What the connections ask and tell the one that has the workers.
struct WorkerLinksInbox {
  /// The local rank of a process that is a worker of this agent now; nothing when it is not.
  [[nodiscard]] virtual std::optional<std::uint32_t> who(pid_t pid) const = 0;
  /// The pid of this agent's living worker with that rank; 0: there is none.
  [[nodiscard]] virtual pid_t pid_of_rank(std::uint32_t /*rank*/) const { return 0; }
  /// A worker has registered that can wait for another generation. `shrinks`: after its end the other nodes may go on
  /// without this one.
  virtual void on_survivor(std::uint32_t local_rank, bool shrinks) = 0;
  /// A worker holds nothing of the newest generation any more and waits.
  virtual void on_parked(std::uint32_t local_rank, std::string const& why) = 0;
  /// The agent's verdict on the worker's connection to a rank of another node. Errors: refused.
  virtual Result<wire::RailVerdict> prove(std::uint32_t local_rank, wire::RailClaim const& claim) = 0;
  /// A process of this user, worker or not, asks about the job. The callee owns the connection.
  virtual void on_question(os::UniqueFd connection, std::string const& question) = 0;
};

class WorkerLinks {
 public:
  /// Listens at once, on a socket in `directory` (os::listen_local). When no descriptor is left, name() is ""
  /// and workers run without an agent. `inbox` outlives it.
  WorkerLinks(boost::asio::io_context& io, WorkerLinksInbox& inbox, std::string const& directory = "");
  ~WorkerLinks();  ///< the inbox is not called any more
  WorkerLinks(WorkerLinks const&) = delete;
  WorkerLinks& operator=(WorkerLinks const&) = delete;

  [[nodiscard]] std::string name() const;

  /// Workers register for this generation from now on; a registration for another one is refused.
  void begin(std::uint64_t generation);
  /// Forgets the worker of this local rank, because a new process takes its place.
  void forget(std::uint32_t local_rank);
  /// Tells surviving workers that the newest generation is over, and the others that they are to end; also those that
  /// register later in this generation.
  void over();
  /// Tells all workers that there will be no other generation, also those that register later in this one.
  void ends();
  /// Asks a worker for a checkpoint; false: it has no page.
  bool checkpoint(std::uint32_t local_rank);
  /// Asks a worker to give up at once what it waits for in this generation.
  void ask_to_give_up(std::uint32_t local_rank);
  /// Sends the packet; false: the worker is not connected, or does not read. true means only that the kernel has queued
  /// the packet.
  [[nodiscard]] bool resume(std::uint32_t local_rank, worker::Resume const& packet);

  /// The worker's page, to read. Valid until forget(), also after the worker's death; null: it has not registered.
  [[nodiscard]] worker::ControlPage const* page(std::uint32_t local_rank) const;
  /// The registered process: the worker itself, or a process in its session. It may have ended since. 0: none.
  [[nodiscard]] pid_t pid(std::uint32_t local_rank) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::launcher
