#include "launcher/agent/hosting.hpp"

#include <fcntl.h>
#include <sstream>
#include <tuple>
#include <utility>

#include "launcher/agent/job_record.hpp"
#include "launcher/logs/log_dir.hpp"
#include "launcher/logs/log_pump.hpp"
#include "launcher/place/discovery_file.hpp"
#include "launcher/report/report.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/thread.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::launcher {

constexpr Millis kFileDeadline{2000};  // with a file system that hangs

Result<bool> is_meeting_place(Meeting const& meeting) {
  return meeting.host == Meeting::Host::find_out ? os::is_local_address(meeting.address)
                                                 : Result<bool>(meeting.host == Meeting::Host::me);
}

Result<std::uint16_t> listen_for(rendezvous::Coordinator& coordinator, Meeting const& meeting) {
  if (meeting.hidden.empty()) {
    return coordinator.listen(meeting.ports);
  }
  auto hidden = coordinator.listen(meeting.hidden);
  auto open = coordinator.listen(meeting.ports);
  if (hidden && !open) {
    log(Level::info, "other programs on this host hold the " + std::to_string(meeting.ports.size()) +
                         " ports that a node without this node's secret calls");
  }
  return hidden ? hidden : open;
}

Hosting::Hosting(boost::asio::io_context& io, AgentConfig const& config, int standby, store::StoreKeep keep,
                 std::shared_ptr<rendezvous::KeyRing> keys, HostingInbox& inbox)
    : io_(io), config_(config), standby_(standby), keep_(std::move(keep)), keys_(std::move(keys)), inbox_(inbox) {}

Hosting::~Hosting() {
  if (announcing_ && announcing_->join_until(Clock::now() + kFileDeadline)) {
    remove_discovery(self_.path, config_.nonce);
  }
}

Result<void> Hosting::begin() {
  auto const& meeting = config_.topology.meeting;
  auto const mine = is_meeting_place(meeting);
  if (!mine) {
    return mine.error();
  }
  if (!*mine) {
    return {};
  }
  bool const first_of_flags = config_.options.node_rank == 0U && config_.topology.source == JobTopology::Source::flags;
  if (auto const here = first_of_flags ? os::is_local_address(meeting.address) : Result<bool>(true); here && !*here) {
    log(Level::warn,
        "this node hosts the rendezvous (--node-rank 0), but " + meeting.address +
            " is not one of its addresses: the other nodes call node 0 there; only one node may be node 0");
  }
  make_coordinator(config_.options.fence_dir);
  stores_->begin();  // without a thread to spare this fails now, not when workers are to start
  auto const port = listen();
  if (port) {
    if (auto made = keys_ ? keys_->make(config_.topology.max_nodes > 1) : Result<void>(); !made) {
      return made;
    }
    port_ = *port;
    hosts_ = true;
    listen_for_followers();
    make_first_directories();
    describe(0, {});
    announce();
    return {};
  }
  coordinator_.reset();
  stores_.reset();
  if (meeting.host == Meeting::Host::find_out && port.error().code == Errc::in_use) {
    return {};  // another agent of this machine was first, or the ports are a stranger's: the handshake will tell
  }
  bool const twice = first_of_flags && port.error().code == Errc::in_use;
  return twice ? fail(Errc::in_use,
                      port.error().context +
                          "; if node 0 runs on this machine already, give this one its own --node-rank",
                      port.error().os_errno)
               : port.error();
}

/// If other programs hold all ports of the job, takes any free port, provided that the other nodes can read which one.
Result<std::uint16_t> Hosting::listen() {
  auto const& topology = config_.topology;
  auto port = listen_for(*coordinator_, topology.meeting);
  bool const can_be_told = topology.meeting.host == Meeting::Host::me && !topology.meeting_file.empty() &&
                           !discovery_dir(config_.environment).empty();
  if (port || !can_be_told) {
    return port;
  }
  elsewhere_ = true;
  log(Level::warn, "other programs on this host hold all ports of this job: the other nodes find another port in " +
                       discovery_dir(config_.environment) + "/" + topology.meeting_file);
  return coordinator_->listen({0});
}

void Hosting::make_coordinator(std::string const& fence_dir) {
  rendezvous::CoordinatorConfig conf;
  conf.nonce = config_.nonce;
  conf.loopback_only = config_.topology.meeting.loopback_only;
  conf.fence_dir = config_.options.fence_dir.empty() ? fence_dir : config_.options.fence_dir;
  conf.keys = keys_;
  for (auto const& given : {config_.options.local_addr, config_.topology.meeting.address}) {
    conf.outer.push_back(rendezvous::outer_address(given));
  }
  conf.node_faults = requeue_.known_faults();
  conf.oom_kills_step = value_of(config_.environment, "SLURM_OOM_KILL_STEP") == "1";  // since Slurm 24.11
  stores_ = std::make_unique<store::StoreServer>([](auto const& line) { log(Level::warn, line); }, store::StoreLimits{},
                                                 keep_);
  coordinator_ = std::make_unique<rendezvous::Coordinator>(io_, *stores_, std::move(conf), *this);
}

void Hosting::on_concluded(std::string const& /*run_id*/, rendezvous::Verdict const& verdict) {
  verdict_ = verdict;
}

void Hosting::on_run_closed() {
  closed_ = true;
  inbox_.on_run_closed();
}

void Hosting::on_live(std::string const& /*run_id*/, rendezvous::AgentId agent, std::string const& host,
                      rendezvous::LiveUp&& message) {
  if (live_) {
    live_->on_message(agent, host, std::move(message));
  }
}

void Hosting::on_story_event(std::string const& run_id, rendezvous::story::Event const& event) {
  if (!record_) {
    record_ = std::make_unique<JobRecord>(
        RecordPlace{config_.logs.temporary ? "" : config_.logs.path, run_id, config_.facts.host});
    live_ = std::make_unique<LiveJob>(io_,
                                      live::Facts{run_id, config_.facts.host, os::name_in(config_.options.program),
                                                  config_.options.terms.max_restarts, config_.nonce},
                                      *this);
  }
  live_->on_story_event(event, record_->add(event));
  if (auto const* const took_over = std::get_if<rendezvous::story::TookOver>(&event.what)) {
    on_elected(*took_over);
  }
  if (auto const* const hang = std::get_if<rendezvous::story::Hang>(&event.what)) {
    inbox_.on_hang(*hang);
  }
}

void Hosting::tell(rendezvous::AgentId agent, rendezvous::LiveDown const& message) {
  if (coordinator_) {
    coordinator_->tell(agent, message);
  }
}

std::string Hosting::want(rendezvous::AgentId agent, rendezvous::Wanted wanted) {
  return coordinator_ ? coordinator_->want(agent, std::move(wanted)) : "nobody coordinates here";
}

std::optional<rendezvous::History> Hosting::history(rendezvous::AgentId agent, rendezvous::StepTimes const& steps,
                                                    std::optional<TimePoint> idle_until) const {
  return coordinator_ ? coordinator_->history(agent, steps, idle_until) : std::nullopt;
}

void Hosting::listen_for_followers() {
  if (standby_ < 0) {
    return;
  }
  auto const listening = coordinator_->listen_also(os::UniqueFd(fcntl(standby_, F_DUPFD_CLOEXEC, 3)));
  if (!listening) {
    log(Level::warn, "this agent cannot take over from the coordinator: " + listening.error().message());
  }
}

void Hosting::stand_by(rendezvous::Terms const& terms) {
  if (coordinator_ || standby_ < 0) {
    return;
  }
  make_coordinator(terms.fence_dir);
  listen_for_followers();
  coordinator_->standby(config_.facts.run_id, terms);
}

void Hosting::start_campaign(rendezvous::Campaign campaign) {
  if (coordinator_) {
    coordinator_->start_campaign(std::move(campaign));
  }
}

void Hosting::tell(std::variant<rendezvous::Withdraw, rendezvous::Learned> news) {
  if (coordinator_) {
    coordinator_->tell(std::move(news));
  }
}

void Hosting::rename() {
  if (coordinator_) {
    coordinator_->rename(config_.nonce);
  }
}

void Hosting::on_workers_start() {
  if (!active()) {
    return;
  }
  announce();  // again: a coordinator that was deposed may have written its own file late
  if (!std::exchange(led_, true)) {
    requeue_.begin();
  }
}

/// This node is in generation 1. A dozen directories take a disk longer than the whole rendezvous, so they are made
/// while the nodes meet. StartWorkers makes those that are missing, and reports what cannot be made.
void Hosting::make_first_directories() {
  if (!config_.facts.log_root.empty()) {
    directories_ =
        os::BoundedThread::start("cxxrun-dirs", [root = config_.facts.log_root, count = config_.facts.workers] {
          (void)make_worker_dirs(root, rendezvous::kFirstGeneration, count).has_value();
        });
  }
}

/// Writes the discovery file at once: workers start up to a heartbeat timeout later, and agents that are added before
/// that look for the coordinator, too.
void Hosting::on_elected(rendezvous::story::TookOver const& how) {
  if (!hosts_) {
    port_ = os::port_of(standby_);
  }
  describe(how.generation, how.ballot);
  announce();
}

void Hosting::describe(std::uint64_t generation, rendezvous::Ballot ballot) {
  auto const& topology = config_.topology;
  auto const& name = elsewhere_ ? topology.meeting_file : topology.announce_as;
  if (name.empty() && topology.source != JobTopology::Source::join) {
    return;
  }
  self_ = describe_self(config_.environment, name, config_.facts.host, port_, config_.nonce);
  if (topology.source == JobTopology::Source::join) {  // the file of the job that this agent was added to
    auto const& found = *topology.discovered;
    std::tie(self_.job, self_.restarts, self_.path) = std::tie(found.job, found.restarts, found.path);
  }
  self_.run_id = config_.facts.run_id;
  self_.key = keys_ ? key_text(*keys_->own()) : "";
  self_.elected = {generation, ballot.round, ballot.rank};
}

/// Writes the discovery file on a thread: a home directory may be slow, and no node that starts with this one needs it.
void Hosting::announce() {
  // A thread that still hangs is writing an earlier file of this agent, which leads here, too.
  bool const busy = announcing_ && !announcing_->join_until(Clock::now());
  if (self_.path.empty() || busy) {
    return;
  }
  auto const cannot = [said = said_unwritten_, elsewhere = elsewhere_](std::string const& why) {
    if (!said->exchange(true)) {
      log(Level::warn, (elsewhere ? "no other node can find this one: " : "no node can be added with --join: ") + why);
    }
  };
  announcing_ = os::BoundedThread::start("cxxrun-file", [self = self_, cannot] {
    if (auto const written = write_discovery(self); !written) {
      cannot(written.error().message());
    }
  });
  if (!announcing_) {
    cannot("no thread can be started");
  }
}

void Hosting::open() {
  if (coordinator_) {
    coordinator_->open_run(config_.topology.run_id, terms_of(config_), config_.topology.step);
  }
}

bool Hosting::tell_verdict(LogPump& pump) {
  if (!verdict_) {
    return false;
  }
  if (auto const why = requeue_.look_why(*verdict_); !why.empty()) {
    verdict_->summary += ": " + why;
  }
  if (auto report = format_report(*verdict_, config_.options.program, config_.colour); !report.empty()) {
    report.pop_back();  // say() adds the newline
    pump.say(std::move(report));
  }
  if (record_) {
    record_->conclude(*verdict_);
  }
  if (verdict_->end == rendezvous::End::success && worth_telling(verdict_->history)) {
    std::istringstream lines(account_lines(verdict_->history));
    for (std::string line; std::getline(lines, line);) {
      log(Level::info, line.substr(2));
    }
  }
  return true;
}

std::optional<int> Hosting::requeue(Reached const& reached) {
  return verdict_ ? requeue_.conclude(*verdict_, reached) : std::nullopt;
}

void Hosting::abandon() {
  coordinator_.reset();
  stores_.reset();
  hosts_ = false;
}

}  // namespace cxxrun::launcher
