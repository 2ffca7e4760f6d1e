#include "launcher/agent/agent.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/agent/agent_links.hpp"
#include "launcher/agent/agent_signals.hpp"
#include "launcher/agent/chronicle.hpp"
#include "launcher/agent/hosting.hpp"
#include "launcher/agent/joining.hpp"
#include "launcher/agent/live_node.hpp"
#include "launcher/agent/policies.hpp"
#include "launcher/agent/port_watch.hpp"
#include "launcher/agent/refusing.hpp"
#include "launcher/hangs/hang_guard.hpp"
#include "launcher/job_end/end_watch.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/logs/log_dir.hpp"
#include "launcher/logs/log_pump.hpp"
#include "launcher/place/machine.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_memory.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/limits.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/machine.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kFlushDeadlineMs = 5000;
constexpr Millis kAskPause{500};
constexpr Millis kFarewell{1000};

class Agent {
 public:
  Agent(AgentConfig config, os::AgentSide const& side)
      : config_(std::move(config)),
        policy_(agent_policy(config_.options, config_.topology, read_slurm_conf(config_.environment))),
        find_cpus_(start_finding_cpus(config_.cpus.mode, config_.facts.workers,
                                      find_value(config_.environment, "CUDA_VISIBLE_DEVICES"))),
        parent_watch_(io_, fcntl(side.parent_watch.get(), F_DUPFD_CLOEXEC, 3)),
        signals_(io_, side, config_, signal_handlers()),
        page_(*side.page),
        keeper_(*side.keeper),
        hosting_(io_, config_, side.standby.get(), port_keeper(), keys_, coordinator_handlers()) {
    config_.facts.agent_socket = supervisor_->socket();
    config_.facts.prover = keys_ ? supervisor_->socket() : "";
  }

  ~Agent() { log_through({}); }  // what threw out of run() is told after us, and not through our pump
  Agent(Agent const&) = delete;
  Agent& operator=(Agent const&) = delete;

  int run(os::AgentSide const& side) {
    if (auto const watched = signals_.begin(side.signals); !watched) {
      failed_ = watched.error();
      return conclude();
    }
    parent_watch_.async_wait(asio::posix::stream_descriptor::wait_read, [this, &side](error_code const& error) {
      if (!error) {
        remove_log_root(config_.logs);
        remove_socket_dir(config_.sockets);
        os::sweep_and_exit(side);
      }
    });
    log_through([this](std::string line) { pump_.say(std::move(line)); });  // a stderr that nobody reads stops nobody
    pump_.on_error([](std::string const& line) { log(Level::error, line); });
    end_watch_.begin();
    if (auto const& warm = config_.options.warm; warm == kWarmAuto && config_.facts.bootstrap.empty()) {
      log(Level::warn,
          "--warm=auto has no effect: only with the Python package (--watch auto) workers tell what they import");
    } else if (!warm.empty()) {  // it imports while the nodes meet
      supervisor_->warm_up(plan_zygote(config_.options, config_.facts, config_.environment), warm);
    }
    if (config_.topology.discovered) {
      call_discovered();
    } else {
      meet();
    }
    if (!failed_) {
      run_loop();
    }
    int const code = conclude();
    if (failed_ && tells_others_) {
      tell_refusal(config_, failed_->message());
    }
    return code;
  }

 private:
  /// What throws is a thread, timer or descriptor that the system refuses. Before its workers run the others hear why
  /// this agent leaves; later its loss says enough.
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

  // ---- the loop: event → step → actions ----------------------------------------------------------------------

  friend os::Machine<agent::State, agent::Event>;

  void feed(agent::Event event) { machine_.feed(std::move(event), *this); }

  [[nodiscard]] agent::Policy const& policy() const { return policy_; }
  static void say(Line const& line) { log(line.level, line.text); }
  static void stepped() {}

  void perform(agent::TellLink const& action) { links_.tell(action.link, action.message); }
  void perform(agent::TellBeat const& action) { links_.beat(action); }
  void perform(agent::Dial const& action) { links_.dial(action); }
  void perform(agent::HangUp const& action) { links_.hang_up(action.link); }
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
    hosting_.lead();
    page_.set_frozen(false);
    make_directories(generation);
    if (auto const find = std::exchange(find_cpus_, {})) {  // before the first workers: the same for every generation
      auto plan = find();
      if (!plan.note.empty()) {
        log(config_.cpus.asked ? Level::warn : Level::debug, plan.note);
      }
      config_.facts.cpu_sets = std::move(plan.sets);
    }
    config_.facts.segment = memory_.begin(static_cast<std::size_t>(config_.facts.workers));
    supervisor_->start(generation.number,
                       plan_workers(generation, config_.options, config_.facts, config_.environment));
    // A process manager answers the MPI_Init of a rank once. One that is asked again may leave MPI_Init waiting for
    // ever, as srun's does; one that cannot be asked makes it fail.
    config_.facts.mpi_descriptors.clear();
    end_watch_.workers_run();
    hangs_->begin(generation);
  }

  void perform(agent::FillWorkers const& action) {
    supervisor_->fill(plan_workers(action.generation, config_.options, config_.facts, config_.environment));
  }

  void perform(agent::RunCheck const& action) {
    auto const& generation = action.generation;
    make_directories(generation);
    supervisor_->start(generation.number,
                       {plan_check(generation, config_.options, config_.facts, config_.environment)});
  }

  /// For the output of this node's workers.
  void make_directories(rendezvous::Generation const& generation) const {
    if (auto const made = make_worker_dirs(config_.facts.log_root, generation.number, generation.local_size); !made) {
      log(Level::error, made.error().message());
    }
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
      hosting_.abandon();  // nobody can have joined a coordinator that its own agent has not
    }
    links_.hang_up_all();
    page_.write_death_notice({}, "");
    leave_if_done();
  }

  /// The coordinator's agent stays until it has seen everybody off.
  void leave_if_done() {
    if (exit_ && !hosting_.active()) {
      timer_.cancel();
      end_watch_.cancel();
      io_.stop();
    }
  }

  // ---- meeting the others ------------------------------------------------------------------------------------

  void fail_with(Error error) {
    failed_ = std::move(error);
    io_.stop();
  }

  void meet() {
    auto const hosted = hosting_.begin();
    if (!hosted && hosted.error().code == Errc::timeout && ask_again()) {
      return;
    }
    if (!hosted) {
      auto const code = hosted.error().code;
      return fail_with(
          {code == Errc::timeout ? Errc::not_found : code, hosted.error().context, hosted.error().os_errno});
    }
    hosting_.open();
    auto plan = call_plan(config_, hosting_.port());
    auto const patience = hosting_.port() ? std::nullopt : patience_elsewhere(config_);
    plan.patience = patience.value_or(plan.patience);
    links_.join(agent::kFirstLink, std::move(plan), [this, patience](Error const& error) {
      if (patience && (error.code == Errc::timeout || error.code == Errc::in_use)) {
        tells_others_ = true;
        return fail_with(of_no_node(config_));
      }
      meet_alone(error);
    });
    auto const dir = discovery_dir(config_.environment);
    auto const& file = config_.topology.meeting_file;
    if (!hosting_.port() && !file.empty() && !dir.empty()) {
      port_watch_.begin(dir + "/" + file);
    }
  }

  /// Who was dropped calls there again.
  void try_also(std::uint16_t port) {
    auto& known = config_.topology.meeting.hidden;
    if (std::find(known.begin(), known.end(), port) == known.end()) {
      known.push_back(port);
    }
    links_.try_also(agent::kFirstLink, port);
  }

  /// Whether this is the node that hosts takes an answer of a name server: one that is busy is given some time.
  bool ask_again() {
    auto const now = Clock::now();
    if (!ask_until_) {
      auto const patience = std::min(config_.options.terms.join_timeout, os::kForNameServer);
      ask_until_ = now + patience;
      log(Level::warn, os::unknown_yet(config_.topology.meeting.address, patience));
    }
    bool const again = now < *ask_until_;
    if (again) {
      ask_timer_.after(kAskPause, [this] { meet(); });
    }
    return again;
  }

  [[nodiscard]] bool is_added() const { return config_.topology.source == JobTopology::Source::join; }

  /// The job's own coordinator, unless it is gone.
  void call_discovered() {
    auto const plan = [this] { return discovered_plan(config_); };
    if (is_added()) {
      joining_.begin(agent::kFirstLink, plan,
                     [this](Error const& error) { fail_with(*discovered_failure(config_, error)); });
      return;
    }
    links_.join(agent::kFirstLink, plan(), [this](Error const& error) {
      if (auto failed = discovered_failure(config_, error)) {
        return fail_with(*std::move(failed));
      }
      log(Level::warn, config_.topology.discovered->path + " is ignored: " + error.message());
      asio::post(io_, [this] { meet(); });  // not from within the link that is to go
    });
  }

  /// As somebody new: the coordinator has no place any more for who we were.
  void perform(agent::Rejoin const& action) {
    config_.nonce = random_hex(16);
    hosting_.rename();
    auto const failed = [this, link = action.link](Error const& error) {
      feed(agent::LinkFailed{link, error.message(), false});
    };
    if (is_added() && action.to.address.empty() && !action.once) {
      look_again(action, failed);
    } else {
      links_.join(action.link, rejoin_plan(config_, action), failed);
    }
  }

  /// In the time that is left for it, or anew when it has been a member.
  void look_again(agent::Rejoin const& action, AgentLinks::Failed failed) {
    if (machine_.state.follower.decided.decree.number > 0) {
      config_.join_until = Clock::now() + config_.options.terms.join_timeout;
      joining_.again(
          action.link, [this, action] { return rejoin_plan(config_, action); }, action.why, std::move(failed));
    } else {
      hosting_.abandon();  // it may come to be in another run
      joining_.again(
          action.link, [this] { return discovered_plan(config_); }, action.why, std::move(failed));
    }
  }

  /// The others of the step are told, and this agent leaves when the coordinator has heard it. One that is known by the
  /// step alone may have refused itself: it says so before that.
  void take_no_part(std::string const& theirs) {
    bool const by_step = theirs == config_.topology.step;
    std::string const why = "--rdzv-id is " + config_.topology.run_id + " here, and " +
                            (by_step ? "not given" : theirs) +
                            " where the nodes of this step meet; give the same to all of them, not $RANDOM, or none";
    links_.tell(agent::kFirstLink, rendezvous::Unfit{0, why});
    if (!by_step) {
      failed_ = fail(Errc::usage, why);
    }
    ask_timer_.after(kFarewell, [this, why] { exit_ ? io_.stop() : fail_with(fail(Errc::usage, why)); });
  }

  /// A job of one node needs no meeting: it runs whoever has the port that it was given.
  void meet_alone(Error const& error) {
    auto& ports = config_.topology.meeting.ports;
    auto const here = os::is_local_address(config_.topology.meeting.address);
    if (config_.topology.max_nodes > 1 || ports == std::vector<std::uint16_t>{0} || !here || !*here) {
      return fail_with(error);
    }
    log(Level::info, error.message() + ": this job of one node needs no meeting, and takes another port");
    ports = {0};
    asio::post(io_, [this] { meet(); });  // not from within the link that is to go
  }

  /// Who answered at the endpoint may be another: the bind test lies behind address translation.
  void joined(rendezvous::HelloReply const& reply) {
    joining_.stop();
    port_watch_.stop();
    if (!config_.topology.step.empty() && reply.run_id != config_.facts.run_id) {
      return take_no_part(reply.run_id);
    }
    if (is_added() && !reply.terms) {
      return;  // nothing runs there that it could be in: it is about to be told so
    }
    auto const& terms = is_added() ? *reply.terms : config_.options.terms;
    adopt_heartbeats(policy_, config_.topology, terms.heartbeat_timeout);
    page_.set_terms({policy_.lease.lease, policy_.lease.timeout});
    config_.facts.run_id = reply.run_id;  // who joins a job by its number learns it here
    if (is_added()) {
      log(Level::info, "joined " + reply.run_id + " on " + config_.topology.discovered->host);
    }
    if (config_.options.requeue && config_.topology.discovered && !hosting_.active()) {
      log(Level::warn,
          "--requeue has no effect here: cxxrun-rendezvous coordinates, and no agent knows how the job ends");
    }
    if (hosting_.active() && reply.coordinator != config_.nonce) {
      log(Level::warn, "the endpoint leads to another agent: it coordinates");
      hosting_.abandon();
    }
    hosting_.stand_by(is_added() ? terms : terms_of(config_));
    live_node_.begin(std::hash<std::string>()(config_.nonce));
  }

  // ---- the end -----------------------------------------------------------------------------------------------

  int conclude() {
    if (!hosting_.tell_verdict(pump_) && exit_ && !exit_->line.empty()) {
      log(Level::error, exit_->line);
    }
    if (failed_) {
      log(Level::error, os::explain(*failed_));
    }
    auto const instead = hosting_.requeue(end_watch_.checkpoint_passed(), end_watch_.limit_reached());
    if (exit_) {
      keeper_.release();  // a coordinator has seen everybody off, and another one's workers do not know our port
    }
    log_through({});
    pump_.finish(kFlushDeadlineMs);
    return exit_code(failed_, exit_, instead);
  }

  AgentConfig config_;
  agent::Policy policy_;
  std::function<CpuPlan()> find_cpus_;
  os::Machine<agent::State, agent::Event> machine_;
  asio::io_context io_{1};
  asio::posix::stream_descriptor parent_watch_;
  AgentSignals signals_;
  os::Timer timer_{io_};
  os::Timer ask_timer_{io_};
  std::optional<TimePoint> ask_until_;  ///< while no name server answers
  LogPump pump_;
  os::SharedPage& page_;
  os::PortKeeper& keeper_;
  std::shared_ptr<rendezvous::KeyRing> keys_ = make_keys(io_, config_);  // none: --auth none
  Hosting hosting_;
  AgentLinks links_{io_, keys_, [this](agent::Event event) { feed(std::move(event)); },
                    [this](rendezvous::HelloReply const& reply) { joined(reply); },
                    [this](agent::LinkId link, rendezvous::LiveDown message) {
                      if (link == machine_.state.follower.main) {
                        live_node_.told(std::move(message));
                      }
                    }};
  Joining joining_{io_, config_, links_, keys_};
  PortWatch port_watch_{io_, [this](std::uint16_t port) { try_also(port); }};
  std::shared_ptr<Supervisor> supervisor_ = std::make_shared<Supervisor>(io_, pump_, handlers(), config_.sockets);
  WorkerMemory memory_{io_, config_.sockets};
  LiveNode live_node_{io_, config_, machine_.state, *supervisor_,
                      [this](auto const& message) { return links_.tell(machine_.state.follower.main, message); }};
  std::shared_ptr<HangGuard> hangs_ =
      std::make_shared<HangGuard>(io_, *supervisor_, config_.options, config_.facts, config_.environment,
                                  [this](agent::Event event) { feed(std::move(event)); });
  EndWatch end_watch_{io_, config_.options, config_.environment, end_handlers()};
  std::optional<agent::Exit> exit_;
  std::optional<Error> failed_;
  bool said_no_shrink_ = false;
  bool tells_others_ = false;  ///< they wait where nobody is going to come

  /// While the store's thread is asked for a port, this one waits.
  store::StoreKeep port_keeper() {
    return [this](int listener) {
      auto const hold = hold_of_ports(policy_, config_.topology);
      auto const kept = hold > Millis{0} ? keeper_.keep(listener, hold) : Result<void>();
      if (!kept) {
        log(Level::warn, "the port of the store will be free at once if this agent dies: " + kept.error().message());
      }
    };
  }

  rendezvous::CoordinatorHandlers coordinator_handlers() {
    rendezvous::CoordinatorHandlers on;
    on.closed = [this] { leave_if_done(); };
    on.stepped_down = [this](rendezvous::SteppedDown const& action) {
      feed(agent::SteppedDown{action.why, action.campaign_id});
      leave_if_done();
    };
    return on;
  }

  AgentSignals::Handlers signal_handlers() {
    return {[this](agent::Event event) { feed(std::move(event)); },
            [this](int signal) { supervisor_->forward(signal); }};
  }

  EndWatch::Handlers end_handlers() {
    EndWatch::Handlers on;
    on.pass = [this](int signal, auto& served) { return supervisor_->ask_for_checkpoint(signal, served); };
    on.end = [this] { feed(agent::EndSignal{SIGTERM, true, false, "at its --time-limit"}); };
    return on;
  }

  SupervisorHandlers handlers() {
    SupervisorHandlers on;
    on.exited = [this](std::uint64_t number, rendezvous::WorkerExit exit) {
      feed(agent::WorkerEnded{number, std::move(exit)});
    };
    on.ended = [this](std::uint64_t number, auto exits, auto unkillable, bool waiting, bool lacks) {
      for (auto const& line : unkillable) {
        log(Level::error, "survived SIGKILL: " + line);
      }
      end_watch_.workers_end();
      hangs_->end();
      memory_.end();
      feed(agent::GroupEnded{number, std::move(exits), std::move(unkillable), waiting, hangs_->steps(number), lacks});
    };
    on.shrinks = [this] {
      auto const line = why_no_shrink(config_.options, config_.topology);
      if (!line.empty() && machine_.state.generation && machine_.state.generation->rank_base == 0 &&
          !std::exchange(said_no_shrink_, true)) {
        log(Level::warn, line);  // once for the job
      }
    };
    on.filled = [this](std::uint64_t number, bool whole) { feed(agent::Filled{number, whole}); };
    on.named = [this](std::uint64_t number, rendezvous::Named const& named) {
      feed(agent::StoodStill{number, {}, {named}});
    };
    on.prove = make_witness(keys_, config_);
    on.asked = [this](auto connection, auto const& question) { live_node_.asked(std::move(connection), question); };
    on.parent_kills = [this] { return page_.kills(); };
    return on;
  }
};

}  // namespace

int run_agent(AgentConfig config, os::AgentSide const& side) {
  config.facts.standby_port = os::port_of(side.standby.get());
  Agent agent(std::move(config), side);
  return agent.run(side);
}

}  // namespace cxxrun::launcher
