#include "rendezvous/net/run.hpp"

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/history/restarts.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::rendezvous {
namespace {

/// A port that is free now, for rank 0 to bind with --agent-store=off. Another process may bind it first; --master-port
/// avoids that.
std::uint16_t free_port() {
  auto const probe = os::listen_at({});
  return probe ? probe->port : std::uint16_t{0};
}

}  // namespace

Run::Run(boost::asio::io_context& io, store::StoreServer& stores, Peers& peers, RunConfig config, RunInbox& inbox)
    : io_(io), stores_(stores), peers_(peers), config_(std::move(config)), inbox_(inbox), timer_(io) {
  auto& state = machine_.state;
  state.number = config_.number;
  state.roster.fitness.faults = config_.node_faults;
  inherit_restarts(state.restarts, config_.restarts, Clock::now(), config_.policy);
  state.phase = config_.standby ? Phase::standby : Phase::forming;
}

Run::~Run() {
  end();
}

void Run::feed(Event event) {
  auto const self = shared_from_this();  // on_run_closed() drops the last reference
  if (auto const* const lost = std::get_if<Lost>(&event)) {
    book_.forget(lost->agent);
  }
  if (!over_) {
    machine_.feed(std::move(event), *this);
  }
}

std::string Run::want(Wanted wanted) {
  auto why = objection(machine_.state, wanted, config_.policy);
  if (why.empty()) {
    feed(std::move(wanted));
  }
  return why;
}

void Run::on_message(AgentId agent, std::string const& host, MemberEnds const& ends, std::string const& payload) {
  auto decoded = decode<FromAgent>(payload);
  if (!decoded) {
    say({Level::error, "message from " + host + " not understood: " + decoded.error().message(), "message"});
    peers_.forget(agent);
    feed(Lost{agent, "protocol error"});
    return;
  }
  if (auto* const live = std::get_if<LiveUp>(&*decoded)) {
    inbox_.on_live(config_.id, agent, host, std::move(*live));
    return;
  }
  if (auto* const about = std::get_if<AboutCallers>(&*decoded)) {
    on_message(agent, ends, std::move(*about));
    return;
  }
  auto& message = std::get<ToCoordinator>(*decoded);
  bool const joins = std::holds_alternative<Join>(message);
  if (auto word = event_of_further(agent, std::move(message), ends)) {
    feed(*std::move(word));
  } else {
    say({Level::warn, std::string("ignored: ") + (joins ? "a second join" : "a death notice") + " from " + host,
         "again"});
  }
}

void Run::on_message(AgentId agent, MemberEnds const& ends, AboutCallers&& message) {
  if (auto* const host = std::get_if<HostAddresses>(&message)) {
    book_.announce(agent, std::move(*host), ends.from, ends.to);
  } else {
    auto& [number, owners] = std::get<Owners>(message);
    stores_.tell(store_key(number), {owners.begin(), owners.end()});
  }
}

void Run::ask_hosts(std::uint64_t number, std::vector<store::CallerQuestion> const& questions) {
  auto const inquiry = inquire(book_, config_.policy.store_access, number, questions);
  stores_.tell(store_key(number), inquiry.known);
  for (auto const& [agent, calls] : inquiry.ask) {
    peers_.send(agent, encode(AskHost(calls)));
  }
}

std::optional<History> Run::history(StepTimes const& steps, std::optional<TimePoint> idle_until) const {
  auto const& ledger = machine_.state.ledger;
  bool const waits = phase() == Phase::forming && !ledger.running;
  return so_far(ledger, steps, waits ? std::optional(Clock::now()) : idle_until);
}

void Run::say(Line const& line) {
  auto const text = line.kind == nullptr ? line.text : complain(complaints_, line.kind, line.text, Clock::now());
  if (!text.empty()) {
    log(line.level, config_.label.empty() ? text : config_.label + ": " + text);
  }
}

void Run::stepped() {
  inbox_.on_progress(config_.key, machine_.state.number, machine_.state.restarts.consumed, decides(phase()));
}

void Run::perform(HangUp const& action) {
  book_.forget(action.agent);
  peers_.forget(action.agent);
}

void Run::perform(ClaimFence const& action) {
  inbox_.claim_fence(config_, machine_.state.proposer.decided.members, action.value);
}

void Run::perform(ArmTimer const& action) {
  timer_.at(action.at, [this] { feed(Tick{}); });
}

void Run::perform(OpenStore const& action) {
  auto const plan = plan_ports(config_.policy, config_.store_ports, config_.standby);
  auto const port = open_store(action.number, plan);
  if (!port) {
    feed(StoreFailed{action.number, (plan.demanded ? "--master-port: " : "") + os::explain(port.error())});
    return;
  }
  if (auto const wanted = plan.store.front();
      config_.policy.agent_store && wanted != 0 && wanted != *port && wanted == config_.policy.master_port) {
    say({Level::warn, "--master-port " + std::to_string(wanted) +
                          " is taken on this host, which has taken the job over: MASTER_PORT is " +
                          std::to_string(*port)});
  }
  std::uint16_t const master = plan.master.value_or(*port);
  feed(StoreOpened{action.number, *port, master != 0 ? master : free_port()});
}

Result<std::uint16_t> Run::open_store(std::uint64_t number, PortPlan const& plan) {
  auto const ask = [&io = io_, weak = weak_from_this(), number](std::vector<store::CallerQuestion> questions) {
    boost::asio::post(io, [weak, number, questions = std::move(questions)] {  // called on the store's thread
      if (auto const self = weak.lock()) {
        self->ask_hosts(number, questions);
      }
    });
  };
  for (std::uint16_t const port : plan.store) {
    auto opened = stores_.open(store_key(number), {port, config_.loopback_only}, {config_.policy.store_access, ask});
    if (opened || plan.demanded || port == 0 || opened.error().code != Errc::in_use) {
      return opened;
    }
  }
  return fail(Errc::in_use, "no port from " + std::to_string(plan.store.front()) + " to " +
                                std::to_string(plan.store.back()) + " is free for a store; widen --port-range");
}

/// Two runs at once may use the same generation numbers, so the key of a store contains the run.
std::uint64_t Run::store_key(std::uint64_t number) const {
  return (std::uint64_t{config_.key} << 32U) + number;
}

void Run::perform(Close const& /*action*/) {
  if (!over_) {
    end();
    inbox_.on_run_closed(config_.key);
  }
}

void Run::end() {
  if (!std::exchange(over_, true)) {
    machine_.end();
    timer_.cancel();
    stores_.close(store_key(machine_.state.number));
  }
}

}  // namespace cxxrun::rendezvous
