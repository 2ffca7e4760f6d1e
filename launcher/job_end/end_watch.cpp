#include "launcher/job_end/end_watch.hpp"

#include <chrono>
#include <utility>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

#include "launcher/facts/deadlines.hpp"
#include "launcher/workers/worker_streams.hpp"
#include "src/core/time.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kConfBytes = std::size_t{1024} * 1024;
constexpr std::chrono::seconds kNearly{10};

std::int64_t unix_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

EndPlan plan_for(Options const& options, Environment const& environment) {
  bool const in_job = !value_of(environment, "SLURM_JOB_ID").empty();
  return plan_end(options.checkpoint_signal, options.time_limit,
                  in_job ? value_of(environment, "SLURM_JOB_END_TIME") : "", unix_now(), Clock::now());
}

}  // namespace

std::optional<SlurmConf> read_slurm_conf(Environment const& environment) {
  if (value_of(environment, "SLURM_JOB_ID").empty()) {
    return std::nullopt;
  }
  auto const path = value_of(environment, "SLURM_CONF");
  return parse_slurm_conf(path.empty() ? "" : read_small_file(path, kConfBytes));
}

struct EndWatch::Impl {
  Impl(boost::asio::io_context& io, EndPlan end_plan, Handlers callbacks)
      : plan(std::move(end_plan)), handlers(std::move(callbacks)), timer(io) {}

  void happen(countdown::Event const& event) {
    auto result = countdown::step(state, event, Clock::now(), plan);
    state = result.next;
    for (auto const& action : result.actions) {
      std::visit([this](auto const& what) { perform(what); }, action);
    }
  }

  void perform(countdown::Pass const& what) { happen(countdown::Passed{handlers.pass(what.signal, served)}); }

  void perform(countdown::EndJob const&) {
    log(Level::info, "--time-limit is reached: the job ends as by SIGTERM");
    handlers.end();
  }

  void perform(countdown::Say const& what) { log(Level::info, what.line); }

  void perform(countdown::WakeAt const& what) {
    timer.expires_at(what.at);
    timer.async_wait([this](boost::system::error_code const& error) {
      if (!error) {
        happen(countdown::Tick{});
      }
    });
  }

  EndPlan plan;
  Handlers handlers;
  boost::asio::basic_waitable_timer<Clock> timer;
  countdown::State state;
  std::set<pid_t> served;
};

EndWatch::EndWatch(boost::asio::io_context& io, Options const& options, Environment const& environment,
                   Handlers handlers)
    : impl_(std::make_unique<Impl>(io, plan_for(options, environment), std::move(handlers))) {}

EndWatch::~EndWatch() = default;

void EndWatch::begin() {
  for (auto const& note : impl_->plan.notes) {
    log(Level::warn, note);
  }
  impl_->happen(countdown::Tick{});
}

void EndWatch::workers_run() {
  impl_->served.clear();
  impl_->happen(countdown::WorkersRun{});
}

void EndWatch::workers_end() {
  impl_->happen(countdown::WorkersEnd{});
}

void EndWatch::cancel() {
  impl_->timer.cancel();
}

bool EndWatch::checkpoint_passed() const {
  return impl_->state.passed;
}

bool EndWatch::limit_reached() const {
  return impl_->plan.ours && Clock::now() + kNearly >= *impl_->plan.end;
}

}  // namespace cxxrun::launcher
