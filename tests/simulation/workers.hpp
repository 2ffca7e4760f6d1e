// Workers: the processes of one generation on one node, as a model: when they execute, and how they end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/workers/stop_order.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

class Workers {
 public:
  struct Handlers {
    std::function<void(rendezvous::WorkerExit)> ended;  ///< one worker, badly
    /// But for those that wait for the next generation. Once more when these have ended.
    std::function<void(std::vector<rendezvous::WorkerExit>, std::vector<std::string> unkillable, bool waiting)>
        all_ended;
    std::function<void()> changed;  ///< what executes
  };

  Workers(World& world, rendezvous::Generation generation, Micros kill_takes, Handlers on)
      : generation_(std::move(generation)), world_(world), kill_takes_(kill_takes), on_(std::move(on)) {}

  [[nodiscard]] rendezvous::Generation const& generation() const { return generation_; }
  /// User code may run right now, as far as the processes themselves are concerned.
  [[nodiscard]] bool executing() const { return alive_ && !stopped_; }
  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool reaped() const { return reaped_; }
  /// All of them have ended by themselves, their work done.
  [[nodiscard]] bool succeeded() const;
  /// Some have parked, and live.
  [[nodiscard]] bool waiting() const { return waiting_; }
  /// They have ended, or parked: what is missing is started, and waits too.
  void fill() { waiting_ = true; }
  bool unkillable = false;  ///< sleeps for ever in the kernel: executes no user code any more once killed

  /// SIGTERM now, SIGKILL after the grace; those of the agent that gives the order. `by_agent` runs what its timers do.
  void stop(launcher::StopOrder const& order, std::function<void(std::function<void()>)> const& by_agent);
  /// SIGKILL now: executes nothing any more at the latest after K.
  void kill();
  void freeze();
  void thaw();
  /// One of them fails by itself; the others hang, or end too.
  void fail(ExitStatus status, bool all);
  void succeed();
  /// The host is gone: nobody reaps, nobody is told.
  void vanish();

 private:
  void end_all(ExitStatus status, bool ours);
  [[nodiscard]] bool survive() const;
  void stop_waiting();
  void reap_soon(std::vector<std::string> lines, Micros delay);

  rendezvous::Generation generation_;
  World& world_;
  Micros kill_takes_;
  Handlers on_;
  bool alive_ = true;
  bool stopped_ = false;  ///< SIGSTOP
  bool asked_ = false;
  bool killed_ = false;
  bool reaped_ = false;
  bool park_ = false;     ///< the order keeps those that survive
  bool waiting_ = false;  ///< they have parked
  std::vector<rendezvous::WorkerExit> exits_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
};

}  // namespace cxxrun::simulation
