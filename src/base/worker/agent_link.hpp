// AgentLink: a worker's connection to its agent, and the ControlPage that both share. Shell.
//
// One per process, made with its first Communicator and kept until the process ends; docs/design/survival.md has the
// rules. A thread of the link sleeps on the page's bell and calls the Watches of a generation when it is over.
//
// Threads: all members may be called from any thread. A forked child must not use its parent's link: process_link()
// returns null there, and destroying a copied Watch does nothing.
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
#include "src/base/os/system.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/control_page.hpp"

namespace cxxrun::worker {

/// Looks up a variable of the environment; null when it is not set. The text lives as long as the function.
using Lookup = std::function<char const*(char const*)>;

/// This process's own variables.
[[nodiscard]] Lookup own_variables();
/// These variables ("K=V"; the first of a name counts), and this process's own where they have none.
[[nodiscard]] Lookup variables_of(std::vector<std::string> const& environment);

class AgentLink {
 public:
  /// How long a parked worker waits as long as its agent knows of no failure.
  static constexpr Millis kQuiet = std::chrono::seconds(60);

  /// Connects to the local socket `name`, registers and maps the page; waits at most 10 s for the agent.
  /// Errors: closed (nobody listens), refused (the agent says no), timeout, permission, protocol, io.
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> connect(std::string const& name, Register const& me);
  ~AgentLink();
  AgentLink(AgentLink const&) = delete;
  AgentLink& operator=(AgentLink const&) = delete;

  [[nodiscard]] ControlPage& page() const { return *page_; }
  [[nodiscard]] bool survives() const { return survives_; }
  /// Whether the agent has declared this generation over.
  [[nodiscard]] bool is_over(std::uint64_t generation) const {
    return page_->over.load(std::memory_order_acquire) >= generation;
  }
  /// True for the first caller with this generation, unless a later one has been claimed: its collectives go to the
  /// page.
  [[nodiscard]] bool claim(std::uint64_t generation);

  /// Other ranks blame this process, so it must stop waiting itself. The thread that gives up its wait calls `answer`.
  using Hurry = std::function<void(std::function<void()> answer)>;

  /// While the Watch exists, calls `tell` once when `generation` is over or this process parks: on the link's thread,
  /// or at once in watch(). It must be quick and must not use the link. The same holds for `hurry`, which is called
  /// when the agent asks this process to give up.
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
    /// After this, `tell` is not running and will not be called.
    void reset() noexcept;

   private:
    friend class AgentLink;
    Watch(AgentLink* link, std::uint64_t number) : link_(link), number_(number) {}
    AgentLink* link_ = nullptr;
    std::uint64_t number_ = 0;
  };
  [[nodiscard]] Watch watch(std::uint64_t generation, std::function<void()> tell, Hurry hurry = {});

  /// Tells the agent that this process holds nothing of `parked.generation` any more, and blocks until the agent names
  /// a later one: at most `quiet` as long as the agent knows of no failure, without limit after that. Returns at once
  /// when another Communicator of this process has already got a later one. Throws Failure: closed (the job or the
  /// connection ends), timeout, protocol.
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
  void notify_up_to(std::uint64_t generation);
  void ask_to_hurry(std::uint64_t generation);
  void end_if_job_ends(Parked const& parked) const;
  [[nodiscard]] std::optional<Resume> receive(std::uint64_t after);

  pid_t pid_;
  os::UniqueFd connection_;
  os::UniqueFd rung_;  ///< eventfd that repeats the bell, for the thread that polls the connection
  os::Mapping memory_;
  ControlPage* page_;  ///< in memory_
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

/// This process's link, made by the first call that finds an agent under CXXRUN_AGENT. Later calls return the same one
/// and ignore `me`. Null: no agent, a refusal, or a forked child. Never destroyed.
[[nodiscard]] AgentLink* process_link(Lookup const& lookup, Register const& me);
/// The page of that link. Null when there is no link, and in a forked child.
[[nodiscard]] ControlPage* process_page();

}  // namespace cxxrun::worker
