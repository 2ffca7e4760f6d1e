#include "launcher/agent/agent.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/agent/agent_links.hpp"
#include "launcher/agent/hosting.hpp"
#include "launcher/agent/job_record.hpp"
#include "launcher/agent/joining.hpp"
#include "launcher/agent/live_node.hpp"
#include "launcher/agent/refusing.hpp"
#include "launcher/hangs/hang_guard.hpp"
#include "launcher/hangs/nccl_ras.hpp"
#include "launcher/job_end/end_watch.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/logs/log_dir.hpp"
#include "launcher/logs/log_pump.hpp"
#include "launcher/place/machine.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/workers/signal_policy.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_memory.hpp"
#include "rendezvous/trust/rail_check.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/state_machine.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kFlushDeadlineMs = 5000;
constexpr Millis kFarewell{1000};

SignalContext signal_context(os::AgentSide const& side, AgentConfig const& config) {
  SignalContext context;
  context.parent = side.parent;
  context.interrupt_ignored = side.interrupt_ignored;
  context.also_stop = config.options.stop_signals;
  if (config.environment.contains("SLURM_JOB_ID")) {
    context.slurmstepd = os::find_ancestor("slurmstepd");
  }
  return context;
}

/// Not to a standard error that takes nothing either: that would wait for its reader.
void tell_lost_output() {
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0) {
    std::fputs("cxxrun: output of the workers is lost: the console was not read, or its disk is full\n", stderr);
  }
}

/// The way of an event:
///
///   a worker exits        Supervisor → on_worker_exit, on_generation_ended → WorkerEnded, GroupEnded
///   a message comes       AgentLinks                                       → LinkUp, FromLink, BeatAnswered, …
///   a signal comes        SignalWatch → on_signal                          → EndSignal, KillSignal
///   a worker stands still HangGuard                                        → StoodStill
///   the time is up        EndWatch                                         → EndSignal
///   the timer rings       timer_                                           → Tick
///
/// → feed() → agent::step() (launcher/life/agent_fsm.cpp) → perform() for each action. A message to the coordinator is
/// TellLink → AgentLinks::tell(); its way at the other end is in rendezvous/net/coordinator.cpp. The whole way from a
/// worker's exit to the report: docs/design/architecture.md.
class Agent final : public SupervisorInbox, public AgentLinksInbox, public HostingInbox {
 public:
  Agent(AgentConfig config, os::AgentSide const& side)
      : config_(std::move(config)),
        policy_(agent_policy(config_.options, config_.topology, read_slurm_conf(config_.environment))),
        find_cpus_(start_finding_cpus(config_.cpus.mode, config_.facts.workers,
                                      find_value(config_.environment, "CUDA_VISIBLE_DEVICES"))),
        parent_watch_(io_, fcntl(side.parent_watch.get(), F_DUPFD_CLOEXEC, 3)),
        signal_context_(signal_context(side, config_)),
        page_(*side.page),
        keeper_(*side.keeper),
        hosting_(io_, config_, side.standby.get(), port_keeper(), keys_, *this) {
    config_.facts.agent_socket = supervisor_->socket();
    config_.facts.prover = keys_ ? supervisor_->socket() : "";
  }

  ~Agent() { log_through({}); }  // an exception from run() is logged after pump_ is gone
  Agent(Agent const&) = delete;
  Agent& operator=(Agent const&) = delete;

  int run(os::AgentSide const& side) {
    if (auto const watched = signals_.begin(side.signals); !watched) {
      failed_ = watched.error();
      return conclude();
    }
    parent_watch_.async_wait(asio::posix::stream_descriptor::wait_read, [this, &side](error_code const& error) {
      if (!error) {
        on_parent_death(side);
      }
    });
    log_through([this](std::string line) { pump_.say(std::move(line)); });  // a blocked stderr does not block us
    pump_.on_error([](std::string const& line) { log(Level::error, line); });
    end_watch_.begin();
    if (auto const& warm = config_.options.warm; warm == kWarmAuto && config_.facts.bootstrap.empty()) {
      log(Level::warn,
          "--warm=auto has no effect: workers tell what they import only through the Python package (--watch auto)");
    } else if (!warm.empty()) {  // it imports while the nodes meet
      supervisor_->warm_up(plan_zygote(config_.options, config_.facts, config_.environment), warm);
    }
    joining_.begin();
    if (!failed_) {
      run_loop();
    }
    int const code = conclude();
    if (failed_ && joining_.others_wait()) {
      tell_refusal(config_, failed_->message());
    }
    return code;
  }

 private:
  /// An exception means that the system has refused a thread, timer or descriptor. While no workers run, the other
  /// nodes are told why this agent leaves; otherwise its loss says enough.
  void run_loop() {
    try {
      io_.run();
    } catch (std::exception const& error) {
      auto const& state = machine_.state;
      if (state.workers || exit_) {
        throw;
      }
      failed_ = fail(Errc::io, os::explain_refusal("the agent cannot run", error));
      links_.tell(agent::kFirstLink,
                  rendezvous::Unfit{state.generation ? state.generation->number : 0, failed_->message()});
      io_.restart();
      io_.run_for(kFarewell);
    }
  }

  // ---- events ------------------------------------------------------------------------------------------------

  void feed(agent::Event event) override { machine_.feed(std::move(event), *this); }

  void on_worker_exit(std::uint64_t generation, rendezvous::WorkerExit exit) override {
    feed(agent::WorkerEnded{generation, std::move(exit)});
  }

  void on_generation_ended(std::uint64_t generation, std::vector<rendezvous::WorkerExit> exits,
                           std::vector<std::string> unkillable, bool waiting, bool lacks) override {
    for (auto const& line : unkillable) {
      log(Level::error, "survived SIGKILL: " + line);
    }
    end_watch_.workers_end();
    hangs_->end();
    memory_.end();
    feed(agent::GroupEnded{generation, std::move(exits), std::move(unkillable), waiting, hangs_->steps(generation),
                           lacks});
  }

  void on_filled(std::uint64_t generation, bool whole) override { feed(agent::Filled{generation, whole}); }

  void on_worker_parked(std::uint64_t generation, rendezvous::Named named) override {
    feed(agent::StoodStill{generation, {}, {named}});
  }

  void on_shrinking_worker() override {
    auto const line = why_no_shrink(config_.options, config_.topology);
    bool const has_rank_0 = machine_.state.generation && machine_.state.generation->rank_base == 0;
    if (!line.empty() && has_rank_0 && !std::exchange(said_no_shrink_, true)) {
      log(Level::warn, line);  // once for the job
    }
  }

  void on_question(os::UniqueFd connection, std::string const& question) override {
    live_node_.on_question(std::move(connection), question);
  }

  Result<wire::RailVerdict> prove(std::uint64_t generation, std::uint32_t rank, wire::RailClaim const& claim) override {
    return keys_ ? check_rail_claim(*keys_->own(), {rank, generation, config_.facts.run_id, config_.options.local_addr},
                                    claim)
                 : SupervisorInbox::prove(generation, rank, claim);
  }

  [[nodiscard]] std::uint32_t parent_kills() const override { return page_.kills(); }

  void on_signal(SignalInfo const& info) {
    auto result = classify(std::move(signal_state_), info, Clock::now(), signal_context_);
    signal_state_ = std::move(result.next);
    log(Level::debug, result.reason);
    switch (result.verdict) {
      case SignalVerdict::ignore: break;
      case SignalVerdict::stop:
        feed(agent::EndSignal{info.signal, true, signal_state_.interrupted, sender_of(info)});
        break;
      case SignalVerdict::stop_without_forwarding:
        feed(agent::EndSignal{info.signal, false, false, sender_of(info)});
        break;
      case SignalVerdict::kill_now: feed(agent::KillSignal{}); break;
      case SignalVerdict::forward_only: supervisor_->forward(info.signal); break;
    }
  }

  /// For the log. Of a signal that the parent has passed on: who sent it to the parent.
  [[nodiscard]] std::string sender_of(SignalInfo info) const {
    if (info.sender == signal_context_.parent) {
      auto const sender = page_.sender();
      info.sender = sender.pid;
      info.uid = sender.uid;
      return sender_text(info, sender.name, signal_context_);
    }
    auto const stat = os::read_stat(info.sender);
    return sender_text(info, stat ? stat->comm : "", signal_context_);
  }

  [[noreturn]] void on_parent_death(os::AgentSide const& side) {
    remove_log_root(config_.logs);
    remove_socket_dir(config_.sockets);
    os::sweep_and_exit(side);
  }

  void on_live_message(agent::LinkId link, rendezvous::LiveDown message) override {
    if (link == machine_.state.follower.main) {
      live_node_.on_message(message);
    }
  }

  void on_stepped_down(rendezvous::SteppedDown const& action) override {
    feed(agent::SteppedDown{action.why, action.campaign_id});
    leave_if_done();
  }

  void on_joined(rendezvous::HelloReply const& reply) override {
    joining_.stop();
    if (!config_.topology.step.empty() && reply.run_id != config_.facts.run_id) {
      return leave_other_run(reply.run_id);
    }
    bool const added = config_.topology.source == JobTopology::Source::join;
    if (added && !reply.terms) {
      return;  // no job runs there: the refusal follows
    }
    auto const& terms = added ? *reply.terms : config_.options.terms;
    adopt_heartbeats(policy_, config_.topology, terms.heartbeat_timeout);
    page_.set_terms({policy_.lease.lease, policy_.lease.timeout});
    config_.facts.run_id = reply.run_id;  // an agent that joins a job by its number learns the id here
    if (added) {
      log(Level::info, "joined " + reply.run_id + " on " + config_.topology.discovered->host);
    }
    if (config_.options.requeue && config_.topology.discovered && !hosting_.active()) {
      log(Level::warn,
          "--requeue has no effect here: cxxrun-rendezvous coordinates, and no agent knows how the job ends");
    }
    // Where addresses are translated, the bind test that chose the host may be wrong.
    if (hosting_.active() && reply.coordinator != config_.nonce) {
      log(Level::warn, "another agent answers at the endpoint: it coordinates");
      hosting_.abandon();
    }
    hosting_.stand_by(added ? terms : terms_of(config_));
    live_node_.begin(std::hash<std::string>()(config_.nonce));
  }

  /// The nodes of this Slurm step were given different run ids. Tells the others, and leaves when the coordinator has
  /// heard it. A coordinator that is known by its step alone may refuse everybody (refusing.hpp): its own words then
  /// come first, and end this agent.
  void leave_other_run(std::string const& theirs) {
    bool const by_step = theirs == config_.topology.step;
    std::string const why = "--rdzv-id is " + config_.topology.run_id + " here, and " +
                            (by_step ? "not given" : theirs) +
                            " where the nodes of this step meet; give the same to all of them, not $RANDOM, or none";
    links_.tell(agent::kFirstLink, rendezvous::Unfit{0, why});
    if (!by_step) {
      failed_ = fail(Errc::usage, why);
    }
    farewell_timer_.after(kFarewell, [this, why] { exit_ ? io_.stop() : on_joining_failed(fail(Errc::usage, why)); });
  }

  void on_joining_failed(Error error) override {
    failed_ = std::move(error);
    io_.stop();
  }

  // ---- actions of the state machine --------------------------------------------------------------------------

  friend os::Machine<agent::State, agent::Event>;

  [[nodiscard]] agent::Policy const& policy() const { return policy_; }
  static void say(Line const& line) { log(line.level, line.text); }
  static void stepped() {}

  void perform(agent::TellLink const& action) { links_.tell(action.link, action.message); }
  void perform(agent::TellBeat const& action) { links_.beat(action); }
  void perform(agent::Dial const& action) { links_.dial(action); }
  void perform(agent::HangUp const& action) { links_.hang_up(action.link); }
  void perform(agent::Rejoin const& action) {
    joining_.rejoin(action, machine_.state.follower.decided.decree.number > 0);
  }
  void perform(agent::StartCampaign const& action) { hosting_.start_campaign(action.campaign); }
  void perform(agent::Withdraw const& action) { hosting_.tell(action); }
  void perform(agent::Learned const& action) { hosting_.tell(action); }
  void perform(agent::HoldLease const& action) { page_.hold_lease(action.until); }
  void perform(agent::WriteDeathNotice const& action) { links_.write_death_notice(page_, action); }

  void perform(agent::Freeze const&) {
    page_.set_frozen(true);
    hangs_->pause(true);
    supervisor_->freeze();
  }
  void perform(agent::Thaw const&) {
    page_.set_frozen(false);
    hangs_->pause(false);
    supervisor_->thaw();
  }

  void perform(agent::StartWorkers const& action) {
    auto const& generation = action.generation;
    hosting_.on_workers_start();
    page_.set_frozen(false);
    if (auto const find = std::exchange(find_cpus_, {})) {  // before the first workers: the same for every generation
      auto plan = find();
      if (!plan.note.empty()) {
        log(config_.cpus.asked ? Level::warn : Level::debug, plan.note);
      }
      config_.facts.cpu_sets = std::move(plan.sets);
    }
    config_.facts.segment = memory_.begin(static_cast<std::size_t>(config_.facts.workers));
    auto const workers = plan_workers(generation, config_.options, facts_of(generation), config_.environment);
    live_node_.on_start(workers);
    supervisor_->start(generation.number, workers);
    // A process manager answers the MPI_Init of a rank once. Asked again it may leave MPI_Init waiting for ever, as
    // srun's does; where it cannot be asked at all, MPI_Init fails.
    config_.facts.mpi_descriptors.clear();
    end_watch_.workers_run(machine_.state.follower.job_end);
    hangs_->begin(generation);
  }

  void perform(agent::FillWorkers const& action) {
    supervisor_->fill(plan_workers(action.generation, config_.options, config_.facts, config_.environment));
  }

  void perform(agent::RunCheck const& action) {
    auto const& generation = action.generation;
    supervisor_->start(generation.number,
                       {plan_check(generation, config_.options, facts_of(generation), config_.environment)});
  }

  /// What to plan this generation with. Where its directories cannot be made, it has no files, and the console has all
  /// output.
  NodeFacts facts_of(rendezvous::Generation const& generation) {
    auto facts = config_.facts;
    if (auto const made = make_worker_dirs(facts.log_root, generation.number, generation.local_size); !made) {
      if (std::exchange(without_files_, generation.number) != generation.number) {  // its check may have said it
        log(Level::error, made.error().message());
      }
      facts.log_root.clear();
    }
    return facts;
  }

  void perform(agent::StopWorkers const& action) {
    end_watch_.workers_end();
    hangs_->stopping(action.order);
    supervisor_->stop(action.order);
  }

  void perform(agent::KillWorker const& action) { hangs_->kill(action); }

  void perform(agent::HandErrorFile const& action) const {
    auto const to = find_value(config_.environment, "TORCHELASTIC_ERROR_FILE");
    if (to && !to->empty() && !config_.facts.log_root.empty()) {
      auto const from = worker_error_file(config_.facts.log_root, action.number, action.exit.local_rank);
      hand_error_file(from, *to, action.exit.status);
    }
  }

  void perform(agent::ArmTimer const& action) {
    timer_.at(action.at, [this] { feed(agent::Tick{}); });
  }

  void perform(agent::Exit const& action) {
    exit_ = action;
    if (!machine_.state.joined) {
      hosting_.abandon();  // no other agent can have joined our coordinator before this one
    }
    links_.hang_up_all();
    page_.write_death_notice({}, "");
    leave_if_done();
  }

  // ---- the end -----------------------------------------------------------------------------------------------

  /// If the coordinator is in this agent, it stays until every other agent has left.
  void leave_if_done() {
    if (exit_ && !hosting_.active()) {
      timer_.cancel();
      end_watch_.cancel();
      io_.stop();
    }
  }

  int conclude() {
    if (!hosting_.tell_verdict(pump_) && exit_ && !exit_->line.empty()) {
      log(Level::error, exit_->line);
    }
    if (failed_) {
      log(Level::error, os::explain(*failed_));
    }
    auto const instead =
        hosting_.requeue({end_watch_.checkpoint_passed(), end_watch_.checkpoint_late(), end_watch_.limit_reached()});
    if (exit_) {
      keeper_.release();  // no other node needs the port: every agent has left, or another node coordinates
    }
    log_through({});
    if (!pump_.finish(kFlushDeadlineMs)) {
      tell_lost_output();
    }
    return exit_code(failed_, exit_, instead);
  }

  void on_run_closed() override { leave_if_done(); }
  void on_hang(rendezvous::story::Hang const& hang) override { hangs_->note(hang); }

  /// Called on the store's thread. This thread waits for that one, so nothing here changes under the call.
  store::StoreKeep port_keeper() {
    return [this](int listener) {
      auto const hold = hold_of_ports(policy_, config_.topology);
      auto const kept = hold > Millis{0} ? keeper_.keep(listener, hold) : Result<void>();
      if (!kept) {
        log(Level::warn, "the port of the store will be free at once if this agent dies: " + kept.error().message());
      }
    };
  }

  AgentConfig config_;
  os::UniqueFd ras_port_ = keep_ras_port(config_.facts);
  agent::Policy policy_;
  std::function<CpuPlan()> find_cpus_;
  // step(): launcher/life/agent_fsm.cpp
  os::Machine<agent::State, agent::Event> machine_;
  asio::io_context io_{1};
  asio::posix::stream_descriptor parent_watch_;
  SignalContext signal_context_;
  SignalState signal_state_;
  os::SignalWatch signals_{io_, [this](SignalInfo const& info) { on_signal(info); }};
  os::Timer timer_{io_};
  os::Timer farewell_timer_{io_};
  LogPump pump_;
  os::SharedPage& page_;
  os::PortKeeper& keeper_;
  std::shared_ptr<rendezvous::KeyRing> keys_ = make_keys(io_, config_);  // null with --auth none
  Hosting hosting_;
  AgentLinks links_{io_, keys_, *this};
  Joining joining_{io_, config_, hosting_, links_, keys_, *this};
  std::shared_ptr<Supervisor> supervisor_ = std::make_shared<Supervisor>(io_, pump_, *this, config_.sockets);
  WorkerMemory memory_{io_, config_.sockets};
  std::shared_ptr<HangGuard> hangs_ =
      std::make_shared<HangGuard>(io_, *supervisor_, config_.options, config_.facts, config_.environment, *this);
  LiveNode live_node_{io_, config_, machine_.state, *supervisor_, *hangs_, links_};
  EndWatch end_watch_{io_, config_.end, *supervisor_, *this};
  std::optional<agent::Exit> exit_;
  std::optional<Error> failed_;
  bool said_no_shrink_ = false;
  std::uint64_t without_files_ = 0;  ///< the newest generation whose directories could not be made
};

}  // namespace

int run_agent(AgentConfig config, os::AgentSide const& side) {
  config.facts.standby_port = os::port_of(side.standby.get());
  Agent agent(std::move(config), side);
  return agent.run(side);
}

}  // namespace cxxrun::launcher
