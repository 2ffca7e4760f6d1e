// AgentLink: a worker's connection to its agent, and the page that both see. Shell.
//
// One per process, made with its first Communicator and kept until its end; docs/design/survival.md has the rules. A
// thread of the link sleeps on the page's bell and tells whoever watches a generation that it is over.
//
// Threads: all members may be called from any thread. A forked child must not use its parent's: process_link() gives
// it none, and destroying a copied Watch there does nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/mapping.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/control_page.hpp"

namespace cxxrun::worker {

/// A variable of the environment, or null. What it returns lives as long as the function.
using Lookup = std::function<char const*(char const*)>;

/// This process's own variables.
[[nodiscard]] Lookup own_variables();
/// The variables ("K=V"; the first of a name counts) in front of this process's own.
[[nodiscard]] Lookup variables_of(std::vector<std::string> const& environment);

class AgentLink {
 public:
  /// How long a parked worker waits while its agent knows of nothing wrong.
  static constexpr Millis kQuiet = std::chrono::seconds(60);

  /// Connects to the abstract socket `name`, registers and maps the page; waits at most 10 s for the agent.
  /// Errors: closed (nobody listens), refused (the agent says no), timeout, permission, protocol, io.
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> connect(std::string const& name, Register const& me);
  ~AgentLink();
  AgentLink(AgentLink const&) = delete;
  AgentLink& operator=(AgentLink const&) = delete;

  [[nodiscard]] ControlPage& page() const { return *page_; }
  [[nodiscard]] bool survives() const { return survives_; }
  /// Whether the agent has said so.
  [[nodiscard]] bool is_over(std::uint64_t generation) const {
    return page_->over.load(std::memory_order_acquire) >= generation;
  }
  /// True for the first who asks about a generation: whose collectives are in the page.
  [[nodiscard]] bool claim(std::uint64_t generation);

  /// Others wait for this process: what it waits for itself is to be given up, and who does calls `answer`.
  using Hurry = std::function<void(std::function<void()> answer)>;

  /// Has `tell` called once, when `generation` is over or this process parks, until the Watch is gone: on the link's
  /// thread, or at once by watch() itself. It must be quick, and not use the link. `hurry` likewise, if the agent asks
  /// for it.
  class Watch {
   public:
    Watch() = default;
    ~Watch() { reset(); }
    Watch(Watch&& other) noexcept : link_(std::exchange(other.link_, nullptr)), number_(other.number_) {}
    Watch& operator=(Watch&& other) noexcept {
      reset();
      link_ = std::exchange(other.link_, nullptr);
      number_ = other.number_;
      return *this;
    }
    Watch(Watch const&) = delete;
    Watch& operator=(Watch const&) = delete;
    /// When this returns `tell` does not run and will not.
    void reset() noexcept;

   private:
    friend class AgentLink;
    Watch(AgentLink* link, std::uint64_t number) : link_(link), number_(number) {}
    AgentLink* link_ = nullptr;
    std::uint64_t number_ = 0;
  };
  [[nodiscard]] Watch watch(std::uint64_t generation, std::function<void()> tell, Hurry hurry = {});

  /// Says that this process holds nothing of `generation` any more, and blocks until the agent names a later one: for
  /// `quiet` while the agent knows of nothing wrong, then without limit. Where another Communicator of this process has
  /// been told of a later one, that one. Throws Failure: closed (the job or the connection ends), timeout, protocol.
  [[nodiscard]] Resume next_generation(Parked const& parked, Millis quiet = kQuiet);

 private:
  struct Watcher {
    std::uint64_t number = 0;
    std::uint64_t generation = 0;
    std::function<void()> tell;
    Hurry hurry;
  };

  AgentLink(os::UniqueFd connection, os::Mapping memory, bool survives);
  void listen();
  void tell_up_to(std::uint64_t generation);
  void hurry_in(std::uint64_t generation);
  void end_if_job_ends(Parked const& parked) const;
  [[nodiscard]] std::optional<Resume> receive(std::uint64_t after);

  pid_t pid_;
  os::UniqueFd connection_;
  os::UniqueFd rung_;  ///< eventfd: the bell, for one who sleeps on the connection
  os::Mapping memory_;
  ControlPage* page_;  ///< in it
  bool survives_;
  std::atomic<std::uint64_t> claimed_{0};

  std::mutex watching_;
  std::vector<Watcher> watchers_;
  std::uint64_t watches_ = 0;

  std::mutex parking_;
  std::optional<Resume> latest_;
  std::string packet_;

  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// This process's link, made by the first call that finds an agent under CXXRUN_AGENT; whoever calls later gets the
/// same, whatever `me` says. Null: no agent, or one that says no, or a forked child. Never destroyed.
[[nodiscard]] AgentLink* process_link(Lookup const& lookup, Register const& me);
/// The page of that link, if it has been made. Null in a forked child, too.
[[nodiscard]] ControlPage* process_page();

}  // namespace cxxrun::worker
