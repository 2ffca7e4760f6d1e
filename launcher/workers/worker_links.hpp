// WorkerLinks: the connections between this agent and those of its workers that use the library. Shell.
//
// One unix socket for the agent's life, whose name the workers get as CXXRUN_AGENT. A worker registers there
// and gets a page of shared memory (src/base/worker/control_page.hpp; what is said: src/base/worker/agent_packets.hpp).
// Only what workers have started is let in (launcher/workers/admission.hpp), one for each worker, so that nothing here
// grows without bounds; whatever else they send ends their connection. Who asks about the job is handed on. Others are
// refused, and the log tells of a few. Who asks for proofs need not have registered, and one connection for each worker
// is kept. What a worker writes into its page is never used as an offset or a size. Runs on the thread of the
// io_context; members never call handlers.
#pragma once

#include <cstdint>
#include <functional>
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

class WorkerLinks {
 public:
  struct Handlers {
    /// The local rank of a process that is a worker of this agent now; nothing: it is none.
    std::function<std::optional<std::uint32_t>(pid_t)> who;
    /// It can wait for another generation; `shrinks`: and the others need not wait for it.
    std::function<void(std::uint32_t local_rank, bool shrinks)> survives;
    /// It holds nothing of the generation that was begun last.
    std::function<void(std::uint32_t local_rank, std::string const& why)> parked;
    /// What the agent says of its connection to a rank of another node; none: it has no key. Errors: refused.
    std::function<Result<wire::RailVerdict>(std::uint32_t local_rank, wire::RailClaim const& claim)> prove{};
    /// The worker of that rank; 0: none of this agent's lives. None: nobody is admitted by its environment.
    std::function<pid_t(std::uint32_t rank)> pid_of_rank{};
    /// A process of this user that need not be a worker asks about the job. The connection is the callee's; none: who
    /// asks is hung up on.
    std::function<void(os::UniqueFd connection, std::string question)> asked{};
  };

  /// Listens at once, on a socket in `directory` (host::listen_for_segments); without a descriptor to spare name() is
  /// "" and workers do without.
  WorkerLinks(boost::asio::io_context& io, Handlers handlers, std::string const& directory = "");
  ~WorkerLinks();  ///< no handler is called any more
  WorkerLinks(WorkerLinks const&) = delete;
  WorkerLinks& operator=(WorkerLinks const&) = delete;

  [[nodiscard]] std::string name() const;

  /// From now on workers register for this generation; a registration for another one is refused.
  void begin(std::uint64_t generation);
  /// Another process comes in its place: what is known of the old one is forgotten.
  void forget(std::uint32_t local_rank);
  /// The generation begun last is over: tells those that survive.
  void over();
  /// Nobody need wait for another generation: tells everybody, and whoever registers in this one.
  void ends();
  /// A checkpoint is wanted now; false: this worker has no page.
  bool checkpoint(std::uint32_t local_rank);
  /// Whatever it waits for in this generation it is to give up at once.
  void ask_to_give_up(std::uint32_t local_rank);
  /// Sends it; false: there is nobody to take it, or it does not read. The packet is queued by the kernel, so true does
  /// not mean that it was read.
  [[nodiscard]] bool resume(std::uint32_t local_rank, worker::Resume const& packet);

  /// To look at, also after the worker's death, until forget(); null: it has not registered. Stays where it is.
  [[nodiscard]] worker::ControlPage const* page(std::uint32_t local_rank) const;
  /// Who has registered: the worker, or a process in its session; 0: nobody. It may have ended since.
  [[nodiscard]] pid_t pid(std::uint32_t local_rank) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::launcher
