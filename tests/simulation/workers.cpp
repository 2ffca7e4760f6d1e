#include "tests/simulation/workers.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace cxxrun::simulation {

void Workers::stop(launcher::StopOrder const& order, std::function<void(std::function<void()>)> const& by_agent) {
  if (!alive_) {
    if (waiting_ && !order.park) {
      stop_waiting();
    }
    return;
  }
  park_ = order.park && (!asked_ || park_) && survive();
  asked_ = true;
  auto& random = world_.random();
  std::weak_ptr<bool> const here = here_;
  if (order.signal == SIGKILL || order.grace.count() == 0) {
    kill();
    return;
  }
  bool const obeys = random.chance(85) && !unkillable;
  if (order.send_signal && obeys) {
    world_.after(random.pick(100, micros(order.grace) / 4 + 100), [this, here] {
      if (here.lock() && alive_ && !stopped_) {
        end_all(ExitStatus::signalled(SIGTERM), true);
      }
    });
  }
  world_.after(micros(order.grace), [this, here, by_agent] {
    if (here.lock()) {
      by_agent([this, here] {
        if (here.lock() && alive_) {
          kill();
        }
      });
    }
  });
}

/// Those of some nodes do, always.
bool Workers::survive() const {
  return (generation_.rank_base + generation_.local_size) % 3 != 0;
}

/// They have parked, and are not to wait any more. They end before they are reaped, as the others did.
void Workers::stop_waiting() {
  waiting_ = false;
  if (reaped_) {
    reaped_ = false;
    exits_.clear();
    reap_soon({}, 200);
  }
}

void Workers::kill() {
  waiting_ = false;
  park_ = false;
  if (std::exchange(killed_, true)) {
    return;
  }
  asked_ = true;
  std::weak_ptr<bool> const here = here_;
  world_.after(world_.random().pick(0, kill_takes_), [this, here] {
    if (here.lock() && alive_) {
      end_all(ExitStatus::signalled(SIGKILL), true);
    }
  });
}

void Workers::freeze() {
  stopped_ = true;
  on_.changed();
}

void Workers::thaw() {
  stopped_ = false;
  on_.changed();
}

void Workers::fail(ExitStatus status, bool all) {
  if (!alive_ || asked_ || reaped_) {
    return;
  }
  rendezvous::WorkerExit exit;
  exit.local_rank = static_cast<std::uint32_t>(world_.random().pick(0, generation_.local_size - 1));
  exit.rank = generation_.rank_base + exit.local_rank;
  exit.status = status;
  for (auto const& before : exits_) {
    if (before.rank == exit.rank) {
      return;
    }
  }
  exits_.push_back(exit);
  on_.ended(exit);
  if (all || generation_.local_size == exits_.size()) {
    end_all(status, false);
  }
}

void Workers::succeed() {
  if (alive_ && !asked_ && exits_.empty()) {
    end_all(ExitStatus::exited(0), false);
  }
}

bool Workers::succeeded() const {
  return reaped_ && !exits_.empty() && std::all_of(exits_.begin(), exits_.end(), [](auto const& exit) {
           return !exit.ours && exit.status == ExitStatus::exited(0);
         });
}

void Workers::vanish() {
  alive_ = false;
  waiting_ = false;
  reaped_ = true;
  on_.changed();
}

void Workers::end_all(ExitStatus status, bool ours) {
  alive_ = false;
  waiting_ = park_;
  std::uint32_t const first = waiting_ ? generation_.local_size : 0;  // of those that end
  for (std::uint32_t local = first; local < generation_.local_size; ++local) {
    rendezvous::WorkerExit exit;
    exit.local_rank = local;
    exit.rank = generation_.rank_base + local;
    exit.status = status;
    exit.ours = ours;
    bool known = false;
    for (auto const& before : exits_) {
      known = known || before.rank == exit.rank;
    }
    if (!known) {
      exits_.push_back(exit);
    }
  }
  on_.changed();
  std::vector<std::string> lines;
  if (unkillable && killed_) {
    lines.emplace_back("process 1 survived SIGKILL");
  }
  reap_soon(std::move(lines), world_.random().pick(10, 500));
}

void Workers::reap_soon(std::vector<std::string> lines, Micros delay) {
  std::weak_ptr<bool> const here = here_;
  world_.after(delay, [this, here, lines = std::move(lines)] {
    if (here.lock() && !reaped_) {
      reaped_ = true;
      on_.all_ended(exits_, lines, waiting_);
    }
  });
}

}  // namespace cxxrun::simulation
