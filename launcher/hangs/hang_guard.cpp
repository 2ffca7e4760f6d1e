#include "launcher/hangs/hang_guard.hpp"

#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/progress_watch.hpp"
#include "launcher/hangs/stack_probe.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/core/rank_name.hpp"
#include "src/core/text.hpp"
#include "src/os/log.hpp"
#include "src/os/process_info.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kShownOperations = 3;
constexpr std::size_t kShownFrames = 8;

}  // namespace

struct HangGuard::Impl : std::enable_shared_from_this<HangGuard::Impl> {
  Impl(boost::asio::io_context& context, Supervisor& supervised, Millis hang_timeout, NodeFacts const& facts,
       Environment variables, std::function<void(agent::StoodStill)> tell_agent)
      : io(context),
        supervisor(supervised),
        host(facts.host),
        log_root(facts.log_root),
        environment(std::move(variables)),
        tell(std::move(tell_agent)),
        policy(watch_policy(hang_timeout)),
        timer(context) {}

  boost::asio::io_context& io;
  Supervisor& supervisor;
  std::string host;
  std::string log_root;  // "" = no files
  Environment environment;
  std::function<void(agent::StoodStill)> tell;
  WatchPolicy policy;
  os::Timer timer;
  std::optional<rendezvous::Generation> generation;  // while its workers run
  WatchState watch;
  bool frozen = false;
  std::set<std::uint32_t> killing;  // local ranks whose stack is being taken

  // ---- looking -----------------------------------------------------------------------------------------------

  void arm() {
    timer.after(policy.sample(), [this] {
      arm();
      if (!frozen) {
        look_around();
      }
    });
  }

  /// The worker's figures, when it has a Communicator of this generation.
  std::optional<worker::Figures> figures_of(std::uint32_t local_rank) {
    auto const* const page = supervisor.page(local_rank);
    if (page == nullptr || !generation) {
      return std::nullopt;
    }
    auto const figures = worker::read_figures(*page);
    return figures.generation == generation->number ? std::optional(figures) : std::nullopt;
  }

  void look_around() {
    std::vector<Look> seen;
    for (std::uint32_t local_rank = 0; local_rank < generation->local_size; ++local_rank) {
      pid_t const pid = supervisor.pid_of(local_rank);
      auto const figures = pid > 0 ? figures_of(local_rank) : std::nullopt;
      if (figures) {
        auto const stat = os::read_stat(pid);
        seen.push_back({generation->rank_base + local_rank, *figures, stat && stat->state == 'T'});
      }
    }
    auto step = look(std::move(watch), seen, Clock::now(), policy);
    watch = std::move(step.next);
    if (!step.tell.empty()) {
      tell({generation->number, std::move(step.tell)});
    }
  }

  // ---- killing -----------------------------------------------------------------------------------------------

  [[nodiscard]] std::string name(agent::KillWorker const& what) const { return rank_name(what.order.rank, host); }

  /// It still is where the coordinator has judged it to be.
  bool holds(agent::KillWorker const& what) {
    auto const figures =
        generation && generation->number == what.order.number ? figures_of(what.local_rank) : std::nullopt;
    return figures && figures->entered == what.order.entered && supervisor.pid_of(what.local_rank) > 0;
  }

  void kill(agent::KillWorker const& what) {
    if (!holds(what)) {
      log(Level::info, name(what) + " has moved: it is not killed");
      return;
    }
    if (!killing.insert(what.local_rank).second) {
      return;
    }
    pid_t const pid = supervisor.pid_of(what.local_rank);
    log(Level::warn, name(what) + " (pid " + std::to_string(pid) + ") " + what.order.why + "; it is to be killed");
    auto const operations = worker::read_operations(*supervisor.page(what.local_rank));
    for (std::size_t i = 0; i < std::min(operations.size(), kShownOperations); ++i) {
      log(Level::warn, name(what) + ": " + worker::describe_entry(operations[i], Clock::now()));
    }
    auto const text = [=, now = Clock::now(), who = name(what)](std::string const& stack) {
      return hang_file(who + " (pid " + std::to_string(pid) + ") " + what.order.why, operations, stack, now);
    };
    probe_stack(io, supervisor, pid, environment, [weak = weak_from_this(), what, text](std::string const& stack) {
      if (auto const self = weak.lock()) {
        self->show_stack(what, stack);
        self->write(what, text(stack));
        self->finish(what);
      }
    });
  }

  void show_stack(agent::KillWorker const& what, std::string const& stack) const {
    auto const frames = main_frames(stack, kShownFrames);
    for (auto const& frame : frames) {
      log(Level::warn, name(what) + ": " + frame);
    }
    if (frames.empty()) {
      log(Level::warn, name(what) + ": no stack: " + why_no_stack(stack));
    }
  }

  void write(agent::KillWorker const& what, std::string const& text) const {
    if (log_root.empty()) {
      return;
    }
    auto const path = worker_log_dir(log_root, what.order.number, what.local_rank) + "/hang.txt";
    std::ofstream file(path, std::ios::app);
    file << text;
    if (file.flush(); !file) {
      log(Level::warn, "cannot write " + path);
    }
  }

  void finish(agent::KillWorker const& what) {
    killing.erase(what.local_rank);
    if (holds(what)) {
      supervisor.kill_worker(what.local_rank, what.order.why);
    } else if (generation && generation->number == what.order.number) {
      log(Level::info, name(what) + " has moved meanwhile: it is not killed");
    }
  }
};

HangGuard::HangGuard(boost::asio::io_context& io, Supervisor& supervisor, Millis hang_timeout, NodeFacts const& facts,
                     Environment environment, std::function<void(agent::StoodStill)> tell)
    : impl_(std::make_shared<Impl>(io, supervisor, hang_timeout, facts, std::move(environment), std::move(tell))) {}

HangGuard::~HangGuard() = default;

void HangGuard::begin(rendezvous::Generation const& generation) {
  impl_->generation = generation;
  impl_->watch = {};
  impl_->killing.clear();
  impl_->frozen = false;
  impl_->arm();
}

void HangGuard::end() {
  impl_->generation.reset();
  impl_->timer.cancel();
}

void HangGuard::pause(bool frozen) {
  impl_->frozen = frozen;
}

void HangGuard::kill(agent::KillWorker const& order) {
  impl_->kill(order);
}

}  // namespace cxxrun::launcher
