#include "launcher/agent/joining.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/agent/agent_config.hpp"
#include "launcher/agent/hosting.hpp"
#include "launcher/agent/refusing.hpp"
#include "launcher/place/discovery_file.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/run_blocking.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kResolverPause{500};
/// After this time the user is told what the agent waits for.
constexpr Millis kSayAfter{3000};
/// How long an agent asks the first node of its step whether that hosts, too. Tasks of a step start within this time.
constexpr Millis kForFirstNode{8000};
/// A thousand nodes may wait for a late one, and must not ask their file system a thousand times a second.
constexpr Millis kLongestPortPause{8000};

bool is_added(AgentConfig const& config) {
  return config.topology.source == JobTopology::Source::join;
}

/// Whether the first node of the step may host as well as this one: `--rdzv-endpoint $(hostname):29400` names another
/// node on each, and all nodes may have the same address (0.0.0.0, docker0).
bool may_host_twice(AgentConfig const& config) {
  auto const& topology = config.topology;
  bool const is_told = config.options.rdzv_endpoint || config.options.master_addr;
  if (topology.source != JobTopology::Source::slurm || topology.max_nodes <= 1 || !is_told ||
      topology.node_names.empty() || topology.host == topology.node_names.front()) {
    return false;
  }
  auto const here = is_meeting_place(topology.meeting);
  return here && *here;
}

}  // namespace

Joining::Joining(boost::asio::io_context& io, AgentConfig& config, Hosting& hosting, AgentLinks& links,
                 std::shared_ptr<rendezvous::KeyRing> keys, AgentLinksInbox& inbox)
    : io_(io),
      config_(config),
      hosting_(hosting),
      links_(links),
      keys_(std::move(keys)),
      inbox_(inbox),
      resolver_timer_(io),
      search_timer_(io),
      port_timer_(io) {}

void Joining::begin() {
  if (config_.topology.discovered) {
    call_discovered();
  } else {
    meet();
  }
}

void Joining::stop() {
  search_timer_.cancel();
  port_file_.clear();
  port_timer_.cancel();
}

// ---- the coordinator in a discovery file ------------------------------------------------------------------------

void Joining::call_discovered() {
  auto const plan = [this] { return discovered_plan(config_); };
  if (is_added(config_)) {
    search(agent::kFirstLink, plan, "",
           [this](Error const& error) { inbox_.on_joining_failed(*discovered_failure(config_, error)); });
    call_found();
    return;
  }
  links_.join(agent::kFirstLink, plan(), [this](Error const& error) {
    if (auto failed = discovered_failure(config_, error)) {
      return inbox_.on_joining_failed(*std::move(failed));
    }
    log(Level::warn, config_.topology.discovered->path + " is ignored: " + error.message());
    boost::asio::post(io_, [this] { meet(); });  // not from within the link, which meet() destroys
  });
}

/// Reads the file from the next second on. `why`: what came of the last call. `failed` is called once.
void Joining::search(agent::LinkId link, Plan plan, std::string why, AgentLinks::Failed failed) {
  link_ = link;
  plan_ = std::move(plan);
  search_failed_ = std::move(failed);
  last_error_ = fail(Errc::closed, std::move(why));
  is_calling_ = false;
  search_timer_.after(kBetweenLooks, [this] { look_for_coordinator(); });
}

void Joining::look_for_coordinator() {
  if (Clock::now() >= config_.join_until) {
    if (!is_calling_) {
      end_search();
    }
    return;  // else the call ends by itself
  }
  search_timer_.after(kBetweenLooks, [this] { look_for_coordinator(); });
  auto const before = *config_.topology.discovered;
  read_discovery_again();
  auto const& now = *config_.topology.discovered;
  if (now != before || !is_calling_) {
    call_found();
  }
  auto const patience = config_.options.terms.join_timeout;
  if (Clock::now() >= config_.join_until - patience + kSayAfter && !std::exchange(said_waiting_, true)) {
    log(Level::info, "not in the job yet: calling " + endpoint_text(now.host, now.port) + ", as " + now.path +
                         " says, which is read again each second; for " + seconds_text(patience) + " in all");
  }
}

/// A file that is missing or invalid changes nothing: it may be replaced at this moment.
void Joining::read_discovery_again() {
  auto const dir = discovery_dir(config_.environment);
  auto found = within_patience(dir, [dir, target = *config_.options.join, environment = config_.environment] {
    return find_job(dir, target, environment);
  });
  if (!found) {
    return;
  }
  if (auto const key = keys_ ? rendezvous::read_key(found->key) : std::nullopt) {
    keys_->know(*key);
  }
  config_.topology.discovered = *std::move(found);
}

void Joining::call_found() {
  is_calling_ = true;
  auto plan = plan_();
  auto const left = std::chrono::ceil<std::chrono::seconds>(config_.join_until - Clock::now());
  plan.patience = std::max(Millis{left}, kBetweenLooks);
  links_.join(link_, std::move(plan), [this](Error const& error) {
    is_calling_ = false;
    last_error_ = error;
    if (error.code == Errc::refused || Clock::now() >= config_.join_until) {
      end_search();
    }
  });
}

void Joining::end_search() {
  search_timer_.cancel();
  search_failed_(*last_error_);
}

// ---- the meeting place of the options ---------------------------------------------------------------------------

void Joining::meet() {
  if (!std::exchange(asked_first_node_, true) && may_host_twice(config_)) {
    return ask_first_node();
  }
  auto const hosted = hosting_.begin();
  if (!hosted && hosted.error().code == Errc::timeout && retry_name_server()) {
    return;
  }
  if (!hosted) {
    Error error = hosted.error();
    error.code = error.code == Errc::timeout ? Errc::not_found : error.code;
    return inbox_.on_joining_failed(std::move(error));
  }
  hosting_.open();
  auto plan = call_plan(config_, hosting_.port());
  auto const patience = hosting_.port() ? std::nullopt : patience_elsewhere(config_);
  plan.patience = patience.value_or(plan.patience);
  links_.join(agent::kFirstLink, std::move(plan), [this, patience](Error const& error) {
    if (patience && (error.code == Errc::timeout || error.code == Errc::in_use)) {
      others_wait_ = true;
      return inbox_.on_joining_failed(of_no_node(config_));
    }
    on_meeting_failed(error);
  });
  auto const dir = discovery_dir(config_.environment);
  auto const& file = config_.topology.meeting_file;
  if (!hosting_.port() && !file.empty() && !dir.empty()) {
    port_file_ = dir + "/" + file;
    port_pause_ = kBetweenLooks;
    port_timer_.after(port_pause_, [this] { look_for_port(); });
  }
}

/// Joins the coordinator at the first node of the step. If none answers there, this agent hosts, as it was told.
void Joining::ask_first_node() {
  auto& meeting = config_.topology.meeting;
  auto told = meeting;
  meeting.host = Meeting::Host::other;
  meeting.address = config_.topology.node_names.front();
  auto plan = call_plan(config_, std::nullopt);
  plan.patience = std::min(plan.patience, kForFirstNode);
  links_.join(agent::kFirstLink, std::move(plan), [this, told = std::move(told)](Error const& error) {
    if (error.code == Errc::refused) {
      return inbox_.on_joining_failed(error);
    }
    config_.topology.meeting = told;
    boost::asio::post(io_, [this] { meet(); });  // not from within the link, which meet() destroys
  });
}

/// Whether this agent hosts depends on what an address resolves to. A name server that is busy is given some time.
bool Joining::retry_name_server() {
  auto const now = Clock::now();
  if (!retry_until_) {
    auto const patience = std::min(config_.options.terms.join_timeout, os::kForNameServer);
    retry_until_ = now + patience;
    log(Level::warn, os::unknown_yet(config_.topology.meeting.address, patience));
  }
  bool const again = now < *retry_until_;
  if (again) {
    resolver_timer_.after(kResolverPause, [this] { meet(); });
  }
  return again;
}

/// A job of one node needs no rendezvous: if its port belongs to another program, it takes any other.
void Joining::on_meeting_failed(Error const& error) {
  auto& ports = config_.topology.meeting.ports;
  auto const here = os::is_local_address(config_.topology.meeting.address);
  if (config_.topology.max_nodes > 1 || ports == std::vector<std::uint16_t>{0} || !here || !*here) {
    return inbox_.on_joining_failed(error);
  }
  log(Level::info, error.message() + ": this job of one node needs no meeting, and takes another port");
  ports = {0};
  boost::asio::post(io_, [this] { meet(); });  // not from within the link, which meet() destroys
}

/// A file that cannot be read changes nothing: most coordinators listen at one of the ports that are called anyway.
void Joining::look_for_port() {
  using Read = Result<std::optional<Discovery>>;
  os::run_blocking<Read>(
      io_, "cxxrun-find", kDirectoryPatience, [path = port_file_] { return read_discovery(path); },
      fail(Errc::timeout, port_file_),
      [this](Read const& read) {
        if (port_file_.empty()) {
          return;
        }
        port_pause_ = std::min(port_pause_ * 2, kLongestPortPause);
        port_timer_.after(port_pause_, [this] { look_for_port(); });
        if (!read || !read->has_value()) {
          return;
        }
        auto const port = (*read)->port;
        auto& known = config_.topology.meeting.hidden;  // called again if the coordinator drops this agent
        if (std::ranges::find(known, port) == known.end()) {
          known.push_back(port);
        }
        links_.try_also(agent::kFirstLink, port);
      });
}

// ---- after a drop -----------------------------------------------------------------------------------------------

void Joining::rejoin(agent::Rejoin const& action, bool was_member) {
  config_.nonce = random_hex(16);  // the coordinator no longer accepts the old incarnation
  hosting_.rename();
  auto failed = [this, link = action.link](Error const& error) {
    inbox_.feed(agent::LinkFailed{link, error.message(), false});
  };
  bool const by_file = is_added(config_) && action.to.address.empty() && !action.once;
  if (!by_file) {
    links_.join(action.link, rejoin_plan(config_, action), std::move(failed));
  } else if (was_member) {
    config_.join_until = Clock::now() + config_.options.terms.join_timeout;
    search(
        action.link, [this, action] { return rejoin_plan(config_, action); }, action.why, std::move(failed));
  } else {  // within the time that is left, and possibly into another run
    hosting_.abandon();
    search(
        action.link, [this] { return discovered_plan(config_); }, action.why, std::move(failed));
  }
}

}  // namespace cxxrun::launcher
