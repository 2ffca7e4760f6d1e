#include "launcher/agent/agent_links.hpp"

#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/place/topology.hpp"
#include "src/base/os/shared_page.hpp"
#include "src/base/wire/frame.hpp"

namespace cxxrun::launcher {

// How long a call to a successor waits for an answer in a run without heartbeats.
constexpr Millis kSuccessorPatience{5000};

std::shared_ptr<rendezvous::KeyRing> make_keys(boost::asio::io_context& io, AgentConfig const& config) {
  if (config.options.auth == Auth::none) {
    return nullptr;
  }
  auto transports = config.keys;
  auto names = run_names(config.topology, config.options, config.environment);
  transports.looks_for = std::move(names.looks_for);
  transports.opens = std::move(names.opens);
  auto keys = std::make_shared<rendezvous::KeyRing>(io, std::move(transports));
  auto const& found = config.topology.discovered;
  if (auto const key = found ? rendezvous::read_key(found->key) : std::nullopt) {
    keys->know(*key);
  }
  return keys;
}

/// One connection, and its events.
struct AgentLinks::Link final : rendezvous::LinkInbox {
  Link(AgentLinks& links, agent::LinkId number, Failed join_failed)
      : all(links), id(number), failed(std::move(join_failed)), connection(links.io_, *this) {}

  void on_joined(rendezvous::HelloReply const& reply) override {
    auto const reached = *connection.reached();
    if (failed) {
      all.plan_.run_id = reply.run_id;
      all.plan_.terms = reply.terms ? reply.terms : all.plan_.terms;
      all.joined_at_ = {0, "", reached.address, reached.port};
      all.inbox_.on_joined(reply);
    }
    all.inbox_.feed(agent::LinkUp{id, reply.coordinator, reached.relayed});
  }

  void on_failed(Error error, bool refused) override {
    all.hang_up(id);
    failed ? failed(error) : all.inbox_.feed(agent::LinkFailed{id, error.message(), refused});
  }

  void on_message(rendezvous::ToAgent message) override { all.inbox_.feed(agent::FromLink{id, std::move(message)}); }
  void on_beat(rendezvous::BeatAck const& ack) override { all.inbox_.feed(agent::BeatAnswered{id, ack}); }
  void on_live(rendezvous::LiveDown&& message) override { all.inbox_.on_live_message(id, std::move(message)); }

  void on_closed(std::string how, rendezvous::Ended ended) override {
    all.hang_up(id);
    all.inbox_.feed(agent::LinkDown{id, std::move(how), ended});
  }

  AgentLinks& all;
  agent::LinkId id;
  Failed failed;  ///< of a call to join; empty: of a call to follow
  rendezvous::CoordinatorLink connection;
};

AgentLinks::AgentLinks(boost::asio::io_context& io, std::shared_ptr<rendezvous::KeyRing> keys, AgentLinksInbox& inbox)
    : io_(io), keys_(std::move(keys)), inbox_(inbox) {}

AgentLinks::~AgentLinks() = default;

void AgentLinks::call(agent::LinkId link, rendezvous::CallPlan plan, Failed failed) {
  hang_up(link);
  auto& made = links_[link] = std::make_unique<Link>(*this, link, std::move(failed));
  made->connection.call(std::move(plan));
}

void AgentLinks::join(agent::LinkId link, rendezvous::CallPlan plan, Failed failed) {
  plan.keys = keys_;
  plan_ = plan;
  call(link, std::move(plan), std::move(failed));
}

void AgentLinks::try_also(agent::LinkId link, std::uint16_t port) {
  if (auto const it = links_.find(link); it != links_.end()) {
    it->second->connection.try_also(port);
  }
}

void AgentLinks::dial(agent::Dial const& action) {
  auto plan = plan_;
  if (action.to.port != 0) {
    plan.addresses = {action.to.address};
    plan.ports = {action.to.port};
  }
  plan.step.clear();
  plan.coordinator.clear();
  plan.asks = rendezvous::Hello::Asks::follow;
  plan.once = true;
  Millis const timeout = plan.terms ? plan.terms->heartbeat_timeout : Millis{0};
  // After a short silence the call fails, and is repeated. When a network cut ends, a fresh call gets through sooner
  // than an old one, whose packets TCP sends again at ever longer intervals.
  plan.patience = timeout > Millis{0} ? timeout / 2 : kSuccessorPatience;
  call(action.link, std::move(plan));
}

/// May be called from within an event of the same link: the link is destroyed after that has returned.
void AgentLinks::hang_up(agent::LinkId link) {
  if (auto const it = links_.find(link); it != links_.end()) {
    it->second->connection.close();
    boost::asio::post(io_, [gone = std::shared_ptr<Link>(std::move(it->second))] {});
    links_.erase(it);
  }
}

void AgentLinks::hang_up_all() {
  while (!links_.empty()) {
    hang_up(links_.begin()->first);
  }
}

void AgentLinks::tell(agent::LinkId link, rendezvous::ToCoordinator message) {
  if (auto* const follower_info = std::get_if<rendezvous::FollowerInfo>(&message)) {
    follower_info->node = plan_.node;
  }
  if (auto const it = links_.find(link); it != links_.end()) {
    it->second->connection.send(message);
  }
}

bool AgentLinks::tell(agent::LinkId link, rendezvous::LiveUp const& message) {
  auto const it = links_.find(link);
  return it != links_.end() && it->second->connection.send(message);
}

void AgentLinks::beat(agent::TellBeat const& action) {
  if (auto const it = links_.find(action.link); it != links_.end()) {
    it->second->connection.send_beat(action.beat);
  }
}

void AgentLinks::write_death_notice(os::SharedPage& page, agent::WriteDeathNotice const& action) const {
  std::vector<os::Recipient> recipients;
  for (auto const& recipient : action.recipients) {
    auto const& to = recipient.port == 0 ? joined_at_ : recipient;
    recipients.push_back({to.address, to.port});
  }
  rendezvous::Hello const hello{rendezvous::kProtocolVersion, plan_.run_id, plan_.node.incarnation,
                                rendezvous::Hello::Purpose::death_notice, rendezvous::Hello::Asks::follow};
  std::vector<std::string> const words = {encode(hello), encode(rendezvous::ToCoordinator(action.gone))};
  bool const guarded = keys_ && keys_->own();
  page.write_death_notice(recipients, guarded ? wire::frame(sign_death_notice(*keys_->own(), words))
                                              : wire::frame(words[0]) + wire::frame(words[1]));
}

}  // namespace cxxrun::launcher
