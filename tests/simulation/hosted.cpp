#include "tests/simulation/hosted.hpp"

#include <utility>

#include "rendezvous/membership/membership.hpp"
#include "tests/simulation/job.hpp"
#include "tests/support/said.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

namespace {

/// Calls that are accepted and then say nothing.
constexpr Micros kHelloDeadline = 10'000'000;

}  // namespace

Hosted::Hosted(Job& job, Node& node) : state_(std::make_unique<rdzv::State>()), job_(job), node_(node) {}

Hosted::~Hosted() = default;

void Hosted::open() {
  over_ = false;
  policy = job_.schedule.policy;
  begin_run(false);
  feed(rdzv::Opened{});
}

void Hosted::abandon() {
  hang_up_all();
  over_ = true;
  timer_armed = opening_store = claiming = false;
}

void Hosted::stand_by(rdzv::Terms const& terms) {
  ++run_;
  timer_armed = opening_store = claiming = over_ = false;
  policy = job_.schedule.policy;
  static_cast<rdzv::Terms&>(policy) = terms;
  *state_ = rdzv::State{};
  state_->phase = rdzv::Phase::standby;
  begin_run(true);
}

/// As launcher/agent/hosting.cpp: when it is elected, and when workers start here.
void Hosted::announce() {
  if (leads() && elected_ >= job_.announced.elected) {
    bool const first = node_.index == 0;
    job_.announced = {first ? Address{node_.host, kRendezvousPort} : node_.standby(), elected_};
  }
}

void Hosted::begin_run(bool standby) {
  table_ = {};
  auto const key = rdzv::open_run(table_, kRunId, policy).key;
  rdzv::note_progress(table_, key, state_->number, state_->restarts.consumed, !standby);
}

bool Hosted::active() const {
  return !over_ && state_->phase != rdzv::Phase::standby && state_->phase != rdzv::Phase::deposed;
}

bool Hosted::leads() const {
  return !over_ && !table_.runs.empty() && !table_.runs.front().standby;
}

void Hosted::start_campaign(rdzv::Campaign campaign) {
  if (state_->phase == rdzv::Phase::deposed && !over_) {
    perform(rdzv::Close{});  // it has nothing more to say
  }
  feed(std::move(campaign));
}

// ---- connections ----------------------------------------------------------------------------------------------

void Hosted::accept(EndPtr end) {
  AgentId const id = ++last_id_;
  peers_[id].end = end;
  end->received = node_.process.wrap<Frame const&>([this, id](Frame const& frame) { received(id, frame); });
  end->closed = node_.process.wrap<rdzv::Ended>([this, id](rdzv::Ended ended) { closed(id, ended); });
  node_.process.after(kHelloDeadline, [this, id] {
    auto const it = peers_.find(id);
    bool const stranger = it != peers_.end() && it->second.at != Peer::At::member && it->second.other == 0;
    if (stranger) {
      forget(id);
    }
  });
}

void Hosted::forget(AgentId id, rdzv::Ended ended) {
  auto const it = peers_.find(id);
  if (it == peers_.end()) {
    return;
  }
  Peer const peer = it->second;
  peers_.erase(it);
  job_.network.hang_up(peer.end, ended);
  if (auto const named = members_.find(peer.hello.nonce); named != members_.end() && named->second == id) {
    members_.erase(named);
  }
  if (auto const other = peers_.find(peer.other); other != peers_.end()) {
    other->second.other = 0;
    if (peer.at == Peer::At::member) {
      forget(peer.other, ended);
    }
  }
}

void Hosted::closed(AgentId id, rdzv::Ended ended) {
  auto const it = peers_.find(id);
  if (it == peers_.end()) {
    return;
  }
  auto const at = it->second.at;
  auto const other = it->second.other;
  forget(id);
  if (at == Peer::At::beat && other != 0 && ended != rdzv::Ended::broken) {
    feed(rdzv::BeatsEnded{other});
  } else if (at == Peer::At::member) {
    feed(rdzv::Lost{id, ended == rdzv::Ended::broken ? "connection reset" : "end of file", ended});
  }
}

void Hosted::greeted(AgentId id, Peer& peer, rdzv::Hello const& hello) {
  peer.hello = hello;
  auto const reply = rdzv::answer_to(table_, hello, node_.info.incarnation);
  peer.hello.run_id = reply.run_id;
  job_.network.send(peer.end, reply);
  if (!reply.refused.empty()) {
    forget(id);
    return;
  }
  switch (hello.purpose) {
    case rdzv::Hello::Purpose::agent: peer.at = Peer::At::first; break;
    case rdzv::Hello::Purpose::beat: peer.at = Peer::At::beat; break;
    case rdzv::Hello::Purpose::death_notice: peer.at = Peer::At::death_notice; break;
  }
}

/// Who hosts calls itself over loopback (launcher/agent/agent_config.cpp).
rdzv::MemberEnds Hosted::ends_of(Peer const& peer) const {
  std::string const own = node_.info.incarnation;
  if (peer.hello.nonce == own && peer.hello.asks == rdzv::Hello::Asks::meet) {
    return {own, "127.0.0.1", "127.0.0.1"};
  }
  return {own, address_text(peer.end->peer->host), address_text(node_.host)};
}

void Hosted::first(AgentId id, Peer& peer, rdzv::ToCoordinator message) {
  auto const* const join = std::get_if<rdzv::Join>(&message);
  rdzv::Place const where = join == nullptr
                                ? rdzv::place(table_, peer.hello)
                                : rdzv::admit(table_, peer.hello, *join, address_text(peer.end->peer->host));
  if (auto const* const away = std::get_if<rdzv::TurnedAway>(&where)) {
    job_.network.send(peer.end, rdzv::ToAgent(rdzv::Refused{away->exit_code, away->why}));
  }
  if (!std::holds_alternative<rdzv::Belongs>(where)) {
    forget(id);
    return;
  }
  peer.at = Peer::At::member;
  members_[peer.hello.nonce] = id;
  std::string const nonce = peer.hello.nonce;
  auto word = rdzv::event_of_first(id, std::move(message), ends_of(peer));
  if (!word) {
    forget(id);
    return;
  }
  feed(*std::move(word));
  for (auto& [line, other] : peers_) {
    if (other.early && other.hello.nonce == nonce) {
      beat(line, other, *std::exchange(other.early, std::nullopt));
      return;
    }
  }
}

void Hosted::said(AgentId id, rdzv::ToCoordinator message) {
  auto const* const again = std::get_if<rdzv::FollowerInfo>(&message);
  if (again != nullptr && job_.mutated(Mutation::believe_repeated)) {
    feed(rdzv::FollowerCalled{id, *again});
  } else if (auto word = rdzv::event_of_further(id, std::move(message), ends_of(peers_.at(id)))) {
    feed(*std::move(word));
  }
}

/// The connection of an agent's heartbeats finds its member; one that it replaces goes.
void Hosted::beat(AgentId id, Peer& peer, rdzv::Beat const& beat) {
  if (peer.other == 0) {
    auto const named = members_.find(peer.hello.nonce);
    if (named == members_.end()) {
      peer.early = beat;
      return;
    }
    Peer& member = peers_.at(named->second);
    auto const before = std::exchange(member.other, id);
    peer.other = named->second;
    if (auto const old = peers_.find(before); old != peers_.end()) {
      old->second.other = 0;
      forget(before);
    }
  }
  feed(rdzv::Beaten{peer.other, beat});
}

void Hosted::hang_up_all(rdzv::Ended ended) {
  while (!peers_.empty()) {
    forget(peers_.begin()->first, ended);
  }
  members_.clear();
}

/// Whoever has only said hello stays, for the next run.
void Hosted::hang_up_members() {
  auto const members = std::exchange(members_, {});
  for (auto const& [nonce, id] : members) {
    forget(id);
  }
}

// ---- the loop: event → step → actions --------------------------------------------------------------------------

void Hosted::feed(rdzv::Event event) {
  inbox_.push_back(std::move(event));
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!inbox_.empty()) {
    rdzv::Event next = std::move(inbox_.front());
    inbox_.pop_front();
    if (over_ || !node_.process.alive()) {
      continue;
    }
    mutate(next);
    mutate_state();
    if (job_.coverage != nullptr) {
      ++job_.coverage->phases[static_cast<std::size_t>(state_->phase)][next.index()];
    }
    auto const before = state_->phase;
    rdzv::Step result = rdzv::step(std::move(*state_), next, job_.clock(node_.host), policy);
    *state_ = std::move(result.next);
    rdzv::note_progress(table_, table_.last_key, state_->number, state_->restarts.consumed,
                        rdzv::decides(state_->phase));
    if (!result.said.empty() || before != state_->phase) {
      job_.world.note([&] {
        return node_.name() + " coordinator, phase " + std::to_string(static_cast<int>(before)) + " → " +
               std::to_string(static_cast<int>(state_->phase)) + " by event " + std::to_string(next.index()) + ": " +
               text_of(result.said);
      });
    }
    for (auto const& told : result.story) {
      if (auto const* const took_over = std::get_if<rdzv::story::TookOver>(&told.what)) {
        elected_ = {took_over->generation, took_over->ballot};
        announce();
      }
    }
    for (auto const& action : result.actions) {
      std::visit([this](auto const& concrete) { perform(concrete); }, action);
    }
    job_.judge.coordinator_stepped(node_);
  }
  stepping_ = false;
}

void Hosted::perform(rdzv::Tell const& action) {
  auto const it = peers_.find(action.agent);
  bool const forms = state_->phase == rdzv::Phase::forming || state_->phase == rdzv::Phase::opening;
  bool const news = forms && std::holds_alternative<rdzv::Decided>(action.message);
  if (it == peers_.end() || (news && job_.mutated(Mutation::decide_silently))) {
    return;
  }
  job_.network.send(it->second.end, action.message);
  if (std::holds_alternative<rdzv::Start>(action.message)) {
    job_.discovered = node_.standby();
  }
  if (job_.mutated(Mutation::ready_unasked)) {
    if (auto const* const offer = std::get_if<rdzv::Prepare>(&action.message)) {
      feed(rdzv::Said{action.agent, rdzv::Ack{offer->generation.number, offer->sent, 0}});
    }
  }
}

void Hosted::perform(rdzv::TellBeat const& action) {
  auto const it = peers_.find(action.agent);
  if (it == peers_.end()) {
    return;
  }
  if (auto const line = peers_.find(it->second.other); line != peers_.end()) {
    job_.network.send(line->second.end, action.ack);
  }
}

void Hosted::perform(rdzv::ClaimFence const& action) {
  claiming = true;
  auto const run = run_;
  node_.process.after(job_.world.random().pick(500, 30'000), [this, run, value = action.value] {
    if (run != run_) {
      return;
    }
    claiming = false;
    auto const after = value.decree.after;
    if (job_.world.random().chance(2)) {
      feed(rdzv::Fenced{after, std::nullopt, "no space left on device"});
      return;
    }
    auto const [it, first] = job_.fence.emplace(after, value);
    job_.world.note([&] { return node_.name() + (first ? " claims" : " does not get") + " the fence"; });
    feed(rdzv::Fenced{after, job_.mutated(Mutation::fence_for_all) ? value : it->second, ""});
  });
}

void Hosted::perform(rdzv::SteppedDown const& action) {
  job_.world.note([&] { return node_.name() + " steps down: " + action.why; });
  // Later: the agent may answer by campaigning again.
  job_.world.after(0, [this, action] {
    node_.process.run([this, action] {
      node_.feed(agent::SteppedDown{action.why, action.campaign_id});
      node_.leave_if_done();
    });
  });
}

void Hosted::perform(rdzv::OpenStore const& action) {
  opening_store = true;
  auto const run = run_;
  auto const store = ++store_;
  node_.process.after(job_.world.random().pick(100, job_.schedule.store_delay),
                      [this, run, store, number = action.number] {
                        if (run == run_) {
                          opening_store = opening_store && store != store_;
                          feed(rdzv::StoreOpened{number, 1, 1});
                        }
                      });
}

void Hosted::perform(rdzv::ArmTimer const& action) {
  timer_armed = true;
  auto const timer = ++timer_;
  auto const when = job_.hosts[node_.host]->clock.when(action.at);
  job_.world.at(when, [this, timer] {
    node_.process.run(
        [this, timer] {
          if (timer == timer_ && timer_armed) {
            timer_armed = false;
            feed(rdzv::Tick{});
          }
        },
        Process::What::timer);
  });
}

void Hosted::perform(rdzv::Conclude const& action) {
  rdzv::note_verdict(table_, table_.last_key, action.verdict);
  job_.concluded(node_, action.verdict);
}

void Hosted::perform(rdzv::Close const&) {
  over_ = true;
  timer_armed = false;
  bool const again = !state_->verdict;  // with another coordinator
  if (again) {
    hang_up_members();
    stand_by(table_.runs.front().terms);
  } else {
    rdzv::note_closed(table_, table_.last_key);
    hang_up_all();
    job_.world.after(0, [this] { node_.process.run([this] { node_.leave_if_done(); }); });
  }
}

}  // namespace cxxrun::simulation
