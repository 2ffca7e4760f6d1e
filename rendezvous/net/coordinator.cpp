#include "rendezvous/net/coordinator.hpp"

#include <map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/net/fence.hpp"
#include "rendezvous/net/peers.hpp"
#include "rendezvous/net/run.hpp"
#include "src/base/core/complaints.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::rendezvous {

/// The way of a member's message, such as WorkerFailed:
///
///   Peers → on_peer_frame → on_member_message → Run::on_message → event_of_further → Said
///   → rendezvous::step() (rendezvous/membership/membership.cpp) → handle(turn, seat, message) in the file of its part
///   → Next → begin(turn, next) for the new phase → Run::perform() for each action
///   → Peers::send() for a message to an agent; RunInbox (below), CoordinatorInbox for the verdict and the end of the
///   run
///
/// Where it comes from and where the verdict goes: docs/design/architecture.md, "From a worker's exit to the report".
struct Coordinator::Impl final : PeersInbox, RunInbox, std::enable_shared_from_this<Coordinator::Impl> {
  Impl(boost::asio::io_context& context, store::StoreServer& store_server, CoordinatorConfig conf,
       CoordinatorInbox& owner)
      : io(context), stores(store_server), config(std::move(conf)), inbox(owner) {
    table.serves_all = config.serves_all;
    table.only_id = config.only_id;
    peers = std::make_shared<Peers>(io, config.keys, *this);
  }

  boost::asio::io_context& io;
  store::StoreServer& stores;
  CoordinatorConfig config;
  CoordinatorInbox& inbox;
  RunTable table;
  std::shared_ptr<Peers> peers;
  std::map<RunKey, std::shared_ptr<Run>> runs;
  RunKey own = 0;  // the run that this agent opened or is on standby for
  FenceClaims fences{io, config.fence_dir, config.keys};
  Complaints complaints;
  bool shut = false;
  std::size_t turned_away = 0;

  // ---- runs --------------------------------------------------------------------------------------------------

  RunKey open_run(std::string const& id, Terms const& terms, bool standby = false, std::string const& from = "",
                  std::string const& step = "") {
    RunEntry const& entry = rendezvous::open_run(table, id, terms, from, step);
    RunConfig run;
    run.key = entry.key;
    run.id = id;
    run.label = config.serves_all ? id : "";
    static_cast<Terms&>(run.policy) = terms;
    run.policy.ends_when_empty = config.serves_all;
    run.policy.oom_kills_step = config.oom_kills_step;
    run.number = entry.number;
    run.restarts = entry.restarts;
    run.node_faults = config.node_faults;
    run.standby = standby;
    run.loopback_only = config.loopback_only;
    run.store_ports = config.store_ports;
    RunKey const key = run.key;
    note_progress(table, key, entry.number, entry.restarts, !standby);
    auto const made = std::make_shared<Run>(io, stores, *peers, std::move(run), *this);
    runs.emplace(key, made);
    if (!standby) {
      made->feed(Opened{});
    }
    return key;
  }

  void claim_fence(RunConfig const& run, std::uint64_t of, AcceptedDecree const& value) override {
    fences.claim(run.id, of, value, [this, key = run.key](Fenced fenced) { feed(key, std::move(fenced)); });
  }

  void on_progress(RunKey run, std::uint64_t number, std::uint32_t restarts, bool leads) override {
    note_progress(table, run, number, restarts, leads);
  }

  void on_live(std::string const& run_id, AgentId agent, std::string const& host, LiveUp&& message) override {
    inbox.on_live(run_id, agent, host, std::move(message));
  }

  void on_story_event(std::string const& run_id, story::Event const& event) override {
    inbox.on_story_event(run_id, event);
  }

  void on_concluded(RunConfig const& run, Verdict const& verdict) override {
    note_verdict(table, run.key, verdict);
    fences.remove(run.id);
    inbox.on_concluded(run.id, verdict);
  }

  /// The last agent of the run is gone. The run is on the call stack, so it is destroyed later.
  void on_run_closed(RunKey key) override {
    auto const it = runs.find(key);
    boost::asio::post(io, [run = it->second] {});
    runs.erase(it);
    note_closed(table, key);
    RunEntry const entry = *find_run(table, key);
    bool const goes_on = entry.active;  // without a verdict: another coordinator continues it
    if (!config.serves_all && !goes_on) {
      shutdown();
    }
    peers->forget_run(key);
    if (goes_on) {
      forget_run(table, key);
      own = open_run(entry.id, entry.terms, true);
    } else {
      inbox.on_run_closed();
    }
  }

  /// Posted, since the agent may start a campaign at once and its run is on the call stack.
  void on_stepped_down(SteppedDown const& action) override {
    boost::asio::post(io, [weak = weak_from_this(), action] {
      if (auto const self = weak.lock(); self && !self->shut) {
        self->inbox.on_stepped_down(action);
      }
    });
  }

  void feed(RunKey key, Event event) {
    if (auto const it = runs.find(key); it != runs.end()) {
      auto const run = it->second;
      run->feed(std::move(event));
    }
  }

  void shutdown() {
    shut = true;
    peers->close();
  }

  // ---- connections -------------------------------------------------------------------------------------------

  void complain(std::string_view kind, std::string line, Level level = Level::warn) {
    if (auto const text = cxxrun::complain(complaints, kind, std::move(line), Clock::now()); !text.empty()) {
      log(level, text);
    }
  }

  void on_peer_turned_away(std::string const& from, std::uint32_t uid) override {
    complain("crowd",
             "unauthenticated connection from " + from + ", one of many: it belongs to uid " + std::to_string(uid));
  }

  void on_peer_lost(AgentId id, Peer const& peer, std::string how, Ended ended) override {
    bool const silent = ended == Ended::goodbye || how == "end of file" || how == "connection reset";
    if (peer.run == 0 && peer.other == 0 && !silent) {  // probes of the port alone are not logged
      complain(how.starts_with("protocol error") ? "frame" : "end",
               "unauthenticated connection from " + peer.from + ": " + how);
    }
    if (peer.at == Peer::At::beat && ended != Ended::broken) {
      feed(peers->run_of(peer.other), BeatsEnded{peer.other});
    }
    feed(peer.run, Lost{id, std::move(how), ended});
  }

  void on_peer_frame(AgentId id, Peer& peer, std::string const& payload) override {
    switch (peer.at) {
      case Peer::At::hello: on_hello(id, peer, payload); break;
      case Peer::At::first: on_first_message(id, peer, payload); break;
      case Peer::At::member: on_member_message(id, peer, payload); break;
      case Peer::At::beat: on_beat(id, peer, payload); break;
      case Peer::At::death_notice: on_death_notice(id, peer, payload); break;
    }
  }

  void on_member_message(AgentId id, Peer const& peer, std::string const& payload) {
    if (auto const it = runs.find(peer.run); it != runs.end()) {
      auto const run = it->second;
      run->on_message(id, peer.host, ends_of(peer), payload);
    }
  }

  [[nodiscard]] MemberEnds ends_of(Peer const& peer) const {
    return {config.nonce, peer.channel->remote_address(), peer.channel->local_address(), peer.relayed};
  }

  void on_beat(AgentId id, Peer& peer, std::string const& payload) {
    auto const decoded = decode<Beat>(payload);
    if (!decoded) {
      complain("beat", "a beat from " + peer.from + " was not understood: " + decoded.error().message());
      peers->forget(id);
    } else {
      on_beat(id, peer, *decoded);
    }
  }

  void on_beat(AgentId id, Peer& peer, Beat const& beat) {
    if (AgentId const member = peers->pair(id); member != 0) {
      feed(peers->run_of(member), Beaten{member, beat});
    } else {
      peer.early = beat;  // it has overtaken the first message of its agent
    }
  }

  void on_hello(AgentId id, Peer& peer, std::string const& payload) {
    auto decoded = decode<Hello>(payload);
    if (!decoded) {
      complain("hello", "unauthenticated connection from " + peer.from + ": " + decoded.error().message());
      peers->forget(id);
      return;
    }
    peer.hello = *std::move(decoded);
    bool const is_note = peer.hello.purpose == Hello::Purpose::death_notice;
    if (!peer.channel->converses() && !is_note) {
      complain("hello", "unauthenticated connection from " + peer.from + ": it sent a note that is not a death notice");
      peers->forget(id);
      return;
    }
    BothEnds const seen = is_note ? BothEnds{} : peer.channel->ends();
    Way const way = way_of(peer.hello.ends, seen, peer.hello.local_addr, config.outer);
    peer.relayed = way != Way::direct;
    HelloReply const reply = answer_to(table, peer.hello, config.nonce, {seen, way, config.keys != nullptr});
    peer.hello.run_id = reply.run_id;
    peer.channel->send(encode(reply));
    if (reply.why != HelloReply::Why::accepted) {
      complain(reply.why == HelloReply::Why::other_version ? "version" : "run",
               "refused connection from " + peer.from + ": " + reply.refused);
      peers->forget(id);
      return;
    }
    switch (peer.hello.purpose) {
      case Hello::Purpose::agent: peer.at = Peer::At::first; break;
      case Hello::Purpose::beat: peer.at = Peer::At::beat; break;
      case Hello::Purpose::death_notice: peer.at = Peer::At::death_notice; break;
    }
  }

  /// Tells the run of `away`, if any: one that is over sends its verdict, one that needs this node fails.
  void turn_away(AgentId id, Peer& peer, NodeInfo const& node, TurnedAway const& away, Event&& word) {
    bool const over = away.of != 0 && find_run(table, away.of)->lingers;
    if (!over) {
      complain("join refused", "refused " + node.host + ": " + away.why, Level::info);
      peer.channel->send(encode(ToAgent(Refused{away.exit_code, away.why})));
    }
    if (away.of == 0) {
      peers->forget(id);
      return;
    }
    (void)peers->admit(id, away.of, node.host);
    feed(away.of, std::move(word));
    if (!over) {
      feed(away.of, Said{id, Unfit{0, away.why}});
    }
  }

  /// A caller's first message says whether it joins or follows.
  void on_first_message(AgentId id, Peer& peer, std::string const& payload) {
    auto decoded = decode<ToCoordinator>(payload);
    auto* const follower_info = decoded ? std::get_if<FollowerInfo>(&*decoded) : nullptr;
    auto* const join = decoded ? std::get_if<Join>(&*decoded) : nullptr;
    bool const follows = peer.hello.asks == Hello::Asks::follow;
    if (follows ? follower_info == nullptr : join == nullptr) {
      complain("join", "connection from " + peer.from + " did not " +
                           (follows ? "send its follower info: " : "join: ") +
                           (decoded ? "another message came" : decoded.error().message()));
      peers->forget(id);
      return;
    }
    auto const terms = follows ? std::nullopt : join->terms;
    Event word = *event_of_first(id, *std::move(decoded), ends_of(peer));
    NodeInfo const node = follows ? std::get<FollowerCalled>(word).follower_info.node : std::get<Joined>(word).node;
    Place const where = follows ? place(table, peer.hello) : admit(table, peer.hello, {node, terms}, peer.from);
    if (auto const* away = std::get_if<TurnedAway>(&where)) {
      ++turned_away;
      turn_away(id, peer, node, *away, std::move(word));
      return;
    }
    auto const* belongs = std::get_if<Belongs>(&where);
    if (belongs == nullptr && follows) {
      peers->forget(id);  // its run has ended since the hello
      return;
    }
    RunKey const run = belongs != nullptr ? belongs->run : open_run(peer.hello.run_id, *terms, false, peer.from);
    AgentId const beats = peers->admit(id, run, node.host);
    feed(run, std::move(word));
    if (auto const line = peers->find(beats); line && line->early) {
      on_beat(beats, *line, *std::exchange(line->early, std::nullopt));
    }
  }

  /// The death notice of an agent's parent.
  void on_death_notice(AgentId id, Peer& peer, std::string const& payload) {
    auto const decoded = decode<ToCoordinator>(payload);
    auto const* const gone = decoded ? std::get_if<Gone>(&*decoded) : nullptr;
    Place const where = place(table, peer.hello);
    auto const from = peer.from;
    peers->forget(id);
    if (gone == nullptr) {
      complain("death_notice", "a death notice from " + from + " was not understood" +
                                   (decoded ? std::string() : ": " + decoded.error().message()));
    } else if (auto const* belongs = std::get_if<Belongs>(&where)) {
      feed(belongs->run, ConfirmedDead{*gone});
    }
  }
};

Coordinator::Coordinator(boost::asio::io_context& io, store::StoreServer& stores, CoordinatorConfig config,
                         CoordinatorInbox& inbox)
    : impl_(std::make_shared<Impl>(io, stores, std::move(config), inbox)) {}

Coordinator::~Coordinator() {
  impl_->shutdown();
}

Result<std::uint16_t> Coordinator::listen(std::vector<std::uint16_t> const& ports) {
  int error = 0;
  for (std::uint16_t const port : ports) {
    auto listening = os::listen_at({port, impl_->config.loopback_only});
    if (!listening) {
      error = listening.error().os_errno;
      continue;
    }
    for (auto& socket : listening->sockets) {
      if (auto const adopted = listen_also(std::move(socket)); !adopted) {
        return adopted.error();
      }
    }
    return listening->port;
  }
  auto const tried = join(list_of(ports, [](std::uint16_t port) { return std::to_string(port); }), ", ");
  return fail(Errc::in_use, "cannot listen on port " + tried + " (choose another one with --rdzv-endpoint HOST:PORT)",
              error);
}

Result<void> Coordinator::listen_also(os::UniqueFd socket) {
  return impl_->peers->listen(std::move(socket));
}

void Coordinator::open_run(std::string const& run_id, Terms const& terms, std::string const& step) {
  impl_->own = impl_->open_run(run_id, terms, false, "", step);
}

void Coordinator::refuse_all(std::string const& step, int exit_code, std::string const& why) {
  RunKey const key = rendezvous::open_run(impl_->table, step, Terms{}).key;
  Verdict verdict;
  verdict.exit_code = exit_code;
  verdict.summary = why;
  note_verdict(impl_->table, key, verdict);
  note_closed(impl_->table, key);
}

std::size_t Coordinator::turned_away() const {
  return impl_->turned_away;
}

void Coordinator::standby(std::string const& run_id, Terms const& terms) {
  impl_->own = impl_->open_run(run_id, terms, true);
}

void Coordinator::start_campaign(Campaign campaign) {
  auto const it = impl_->runs.find(impl_->own);
  if (it != impl_->runs.end() && it->second->phase() == Phase::deposed) {
    impl_->on_run_closed(impl_->own);  // replaces it with a run on standby
  }
  impl_->feed(impl_->own, std::move(campaign));
}

void Coordinator::tell(std::variant<Withdraw, Learned> news) {
  std::visit([&](auto& event) { impl_->feed(impl_->own, std::move(event)); }, news);
}

void Coordinator::tell(AgentId agent, LiveDown const& message) {
  impl_->peers->send(agent, encode(message));
}

std::string Coordinator::want(AgentId agent, Wanted wanted) {
  auto const it = impl_->runs.find(impl_->peers->run_of(agent));
  auto const run = it == impl_->runs.end() ? nullptr : it->second;  // it may be erased meanwhile
  return run ? run->want(std::move(wanted)) : "its run is over";
}

std::optional<History> Coordinator::history(AgentId agent, StepTimes const& steps,
                                            std::optional<TimePoint> idle_until) const {
  auto const it = impl_->runs.find(impl_->peers->run_of(agent));
  return it == impl_->runs.end() ? std::nullopt : it->second->history(steps, idle_until);
}

void Coordinator::rename(std::string nonce) {
  impl_->config.nonce = std::move(nonce);
}

bool Coordinator::leads() const {
  auto const* const entry = find_run(impl_->table, impl_->own);
  return entry != nullptr && !entry->standby;
}

void Coordinator::quit(int signal) {
  impl_->table.serves_all = false;
  auto const all = impl_->runs;
  for (auto const& [key, run] : all) {
    run->feed(Quit{signal});
  }
}

bool Coordinator::idle() const {
  return impl_->runs.empty();
}

}  // namespace cxxrun::rendezvous
