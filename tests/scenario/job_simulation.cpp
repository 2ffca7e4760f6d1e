// Whole jobs without a socket: the real membership and agent cores under a seeded scheduler that delays messages
// (each connection stays in order), lets workers succeed or fail, kills agents, adds new ones and sends signals.
//
// Checked at every step: workers of two generations never run at once, ranks are a permutation, the restart count is
// bounded. Checked at the end: once the trouble stops, every job ends, and everybody left knows the verdict.
#include <deque>
#include <map>
#include <random>

#include "launcher/agent_fsm.hpp"
#include "rendezvous/membership.hpp"
#include "tests/support/catch.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
namespace rdzv = cxxrun::rendezvous;
namespace agent = cxxrun::launcher::agent;

struct Node {
  rdzv::AgentId id = 0;
  rdzv::NodeInfo info;
  agent::State state;
  bool alive = true;
  bool connected = true;  // its end of the connection
  bool known = true;      // the coordinator's end of the connection
  std::deque<rdzv::ToAgent> inbox;
  std::deque<rdzv::ToCoordinator> outbox;
  std::optional<rdzv::Generation> running;  // workers of this generation run
  std::optional<std::uint64_t> checking;    // the health check before this generation runs
  bool stopping = false;
  std::optional<TimePoint> timer;
  std::optional<int> exit_code;
};

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    policy_.min_nodes = pick(1, 3);
    policy_.max_nodes = policy_.min_nodes + pick(0, 2);
    policy_.max_restarts = pick(0, 3);
    policy_.heartbeat_timeout = Millis{0};  // no beats here: nobody is judged, elected or given a lease
    agent_policy_.health_check = chance(50);
    policy_.ack_timeout += agent_policy_.check_timeout + agent_policy_.kill_timeout;
    trouble_ = static_cast<int>(pick(0, 8));
    for (std::uint32_t i = 0; i < policy_.max_nodes; ++i) {
      add_node();
    }
    feed(rdzv::Opened{});
  }

  /// Returns "" or what went wrong.
  std::string run() {
    for (int i = 0; i < 20'000 && problem_.empty(); ++i) {
      if (finished()) {
        return check_end();
      }
      if (!move()) {
        return "nothing can happen, and the job has not ended";
      }
      check_workers();
    }
    return problem_.empty() ? "no end in sight" : problem_;
  }

  std::map<std::string, int> const& seen() const { return seen_; }

  /// Where everybody is, for the report of a failed seed.
  std::string describe() const {
    std::string text = "coordinator phase " + std::to_string(static_cast<int>(state_.phase)) + ", generation " +
                       std::to_string(state_.number) + ", awaits " + std::to_string(state_.awaited) +
                       (closed_ ? ", closed" : "");
    for (auto const& node : nodes_) {
      text += "; " + node.info.host + (node.alive ? " alive, life " : " gone, life ") +
              std::to_string(static_cast<int>(node.state.life)) + (node.connected ? "" : ", hung up") +
              (node.known ? "" : ", dropped") + (node.running ? ", workers run" : "") +
              (node.checking ? ", checks" : "");
    }
    return text;
  }

 private:
  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }
  bool chance(std::uint32_t percent) { return pick(1, 100) <= percent; }

  void add_node() {
    Node node;
    node.id = ++last_id_;
    node.info.host = "n" + std::to_string(node.id);
    node.info.slots = pick(1, 3);
    node.info.hosts = node.id == 1;
    node.outbox.emplace_back(rdzv::Join{node.info, {}});
    node.state.joined = true;
    nodes_.push_back(node);
  }

  bool finished() const {
    return closed_ && std::all_of(nodes_.begin(), nodes_.end(), [](Node const& n) { return !n.alive; });
  }

  std::string check_end() {
    if (!state_.verdict) {
      return "closed without a verdict";
    }
    seen_[rdzv::name_of(state_.verdict->end)]++;
    if (!state_.unfit.empty() && state_.verdict->end == rdzv::End::success) {
      seen_["success without an unfit node"]++;
    }
    for (auto const& node : nodes_) {
      if (node.exit_code && *node.exit_code != state_.verdict->exit_code && node.exit_code != 128 + 15 &&
          node.exit_code != rdzv::kExitCoordinatorLost && node.exit_code != rdzv::kExitTooFewNodes) {
        return node.info.host + " left with " + std::to_string(*node.exit_code) + " although the verdict is " +
               std::to_string(state_.verdict->exit_code);
      }
    }
    return {};
  }

  void check_workers() {
    std::uint64_t number = 0;
    std::uint32_t covered = 0;
    std::uint32_t count = 0;
    for (auto const& node : nodes_) {
      if (!node.alive || !node.running) {
        continue;
      }
      if (number != 0 && node.running->number != number) {
        problem_ = "workers of generations " + std::to_string(number) + " and " + std::to_string(node.running->number) +
                   " run at once";
      }
      number = node.running->number;
      for (std::uint32_t i = 0; i < node.running->local_size; ++i) {
        std::uint32_t const rank = node.running->rank_base + i;
        if (rank >= node.running->world_size || (covered >> rank & 1U) != 0) {
          problem_ = "ranks are no permutation";
        }
        covered |= 1U << rank;
        ++count;
      }
    }
    if (state_.restarts > policy_.max_restarts) {
      problem_ = "more restarts than allowed";
    }
  }

  // ---- one random thing happens ------------------------------------------------------------------------------

  bool move() {
    std::vector<std::function<void()>> moves;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      add_moves(moves, i);
    }
    if (trouble_ > 0 && chance(15)) {
      make_trouble();
      return true;
    }
    // Time passes early only where nothing but an answer is awaited: a stop is bounded by its own timeouts, and an
    // agent that is silent for longer is a matter of leases.
    bool const early = state_.phase == rdzv::Phase::forming || state_.phase == rdzv::Phase::preparing;
    if (!moves.empty() && !(early && chance(3))) {
      moves[pick(0, static_cast<std::uint32_t>(moves.size() - 1))]();
      return true;
    }
    return let_time_pass() || !moves.empty();
  }

  void add_moves(std::vector<std::function<void()>>& moves, std::size_t i) {
    Node const& node = nodes_[i];
    if (node.known && !node.outbox.empty()) {
      moves.emplace_back([this, i] { deliver_to_coordinator(i); });
    }
    if (node.known && !node.connected && node.outbox.empty()) {
      moves.emplace_back([this, i] {
        nodes_[i].known = false;
        feed(rdzv::Lost{nodes_[i].id, "end of file"});
      });
    }
    if (node.alive && node.connected && !node.inbox.empty()) {
      moves.emplace_back([this, i] {
        auto const message = nodes_[i].inbox.front();
        nodes_[i].inbox.pop_front();
        feed(i, agent::FromLink{agent::kFirstLink, message});
      });
    }
    if (node.alive && node.connected && !node.known && node.inbox.empty()) {
      moves.emplace_back([this, i] {
        nodes_[i].connected = false;
        feed(i, agent::LinkDown{agent::kFirstLink, "end of file"});
      });
    }
    if (node.alive && node.checking) {
      moves.emplace_back([this, i] { check_ends(i); });
    }
    if (node.alive && node.running) {
      moves.emplace_back([this, i] { workers_move(i); });
    }
  }

  void check_ends(std::size_t i) {
    Node& node = nodes_[i];
    rdzv::WorkerExit exit;
    if (node.stopping) {
      exit.status = ExitStatus::signalled(9);
    } else if (trouble_ > 0 && chance(20)) {
      --trouble_;
      exit.status = ExitStatus::exited(3);
    }
    auto const number = *node.checking;
    node.checking.reset();
    node.stopping = false;
    feed(i, agent::WorkerEnded{number, exit});
    feed(i, agent::GroupEnded{number, {exit}, {}});
  }

  void workers_move(std::size_t i) {
    Node& node = nodes_[i];
    auto const number = node.running->number;
    rdzv::WorkerExit exit;
    exit.rank = node.running->rank_base;
    if (!node.stopping && trouble_ > 0 && chance(30)) {
      --trouble_;
      exit.status = chance(50) ? ExitStatus::signalled(9) : ExitStatus::exited(3);
      feed(i, agent::WorkerEnded{number, exit});
      return;
    }
    exit.ours = node.stopping;
    exit.status = node.stopping ? ExitStatus::signalled(15) : ExitStatus::exited(0);
    node.running.reset();
    node.stopping = false;
    feed(i, agent::GroupEnded{number, {exit}, {}});
  }

  void make_trouble() {
    --trouble_;
    std::size_t const i = pick(0, static_cast<std::uint32_t>(nodes_.size() - 1));
    Node& node = nodes_[i];
    switch (pick(0, 2)) {
      case 0:
        if (node.alive && !node.info.hosts) {  // its undertaker kills the workers; its kernel closes the connection
          node.alive = node.connected = false;
          node.running.reset();
          node.checking.reset();
          while (!node.outbox.empty() && chance(50)) {
            node.outbox.pop_back();
          }
        }
        break;
      case 1:
        if (nodes_.size() < 8 && !closed_) {
          add_node();
        }
        break;
      default:
        if (node.alive && chance(40)) {
          feed(i, agent::EndSignal{15});
        }
    }
  }

  bool let_time_pass() {
    std::optional<TimePoint> next = timer_;
    for (auto const& node : nodes_) {
      if (node.alive && node.timer && (!next || *node.timer < *next)) {
        next = node.timer;
      }
    }
    if (!next) {
      return false;
    }
    now_ = std::max(now_, *next);
    if (timer_ && *timer_ <= now_) {
      timer_.reset();
      feed(rdzv::Tick{});
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].alive && nodes_[i].timer && *nodes_[i].timer <= now_) {
        nodes_[i].timer.reset();
        feed(i, agent::Tick{});
      }
    }
    return true;
  }

  // ---- the coordinator ---------------------------------------------------------------------------------------

  void deliver_to_coordinator(std::size_t i) {
    auto message = std::move(nodes_[i].outbox.front());
    nodes_[i].outbox.pop_front();
    rdzv::AgentId const id = nodes_[i].id;
    std::visit(
        [&](auto& concrete) {
          using Message = std::decay_t<decltype(concrete)>;
          if constexpr (std::is_same_v<Message, rdzv::Join>) {
            feed(rdzv::Joined{id, concrete.node});
          } else if constexpr (!std::is_same_v<Message, rdzv::Elector> && !std::is_same_v<Message, rdzv::Gone>) {
            feed(rdzv::Said{id, concrete});
          }
        },
        message);
  }

  void feed(rdzv::Event const& event) {
    events_.push_back(event);
    if (events_.size() > 1) {
      return;  // the call further up is at it
    }
    for (; !events_.empty(); events_.pop_front()) {
      if (closed_) {
        continue;
      }
      rdzv::Step result = rdzv::step(std::move(state_), events_.front(), now_, policy_);
      state_ = std::move(result.next);
      for (auto const& action : result.actions) {
        std::visit([this](auto const& concrete) { perform(concrete); }, action);
      }
    }
  }
  void perform(rdzv::Tell const& action) {
    if (Node& node = nodes_[action.agent - 1]; node.known) {
      node.inbox.push_back(action.message);
    }
  }
  template <class Other>
  void perform(Other const&) {}
  void perform(rdzv::OpenStore const& action) { feed(rdzv::StoreOpened{action.number, 1, 1}); }
  void perform(rdzv::CloseStore const&) {}
  void perform(rdzv::HangUp const& action) { nodes_[action.agent - 1].known = false; }
  void perform(rdzv::ArmTimer const& action) { timer_ = action.at; }
  void perform(rdzv::Conclude const&) {
    if (concluded_++ > 0) {
      problem_ = "two verdicts";
    }
  }
  void perform(rdzv::Close const&) {
    closed_ = true;
    timer_.reset();
    for (auto& node : nodes_) {
      node.known = false;
    }
  }

  // ---- an agent ----------------------------------------------------------------------------------------------

  void feed(std::size_t i, agent::Event const& event) {
    agent::Step result = agent::step(std::move(nodes_[i].state), event, now_, agent_policy_);
    nodes_[i].state = std::move(result.next);
    for (auto const& action : result.actions) {
      std::visit([this, i](auto const& concrete) { perform(i, concrete); }, action);
    }
  }
  void perform(std::size_t i, agent::Tell const& action) {
    if (nodes_[i].connected) {
      nodes_[i].outbox.push_back(action.message);
    }
  }
  void perform(std::size_t i, agent::StartWorkers const& action) {
    nodes_[i].running = action.generation;
    nodes_[i].stopping = false;
  }
  void perform(std::size_t i, agent::RunCheck const& action) {
    if (nodes_[i].running || nodes_[i].checking) {
      problem_ = "a check beside other processes of the job";
    }
    nodes_[i].checking = action.generation.number;
    nodes_[i].stopping = false;
  }
  template <class Other>
  void perform(std::size_t, Other const&) {}  // whom to follow: tests/simulation has that
  void perform(std::size_t i, agent::StopWorkers const&) { nodes_[i].stopping = true; }
  void perform(std::size_t i, agent::ArmTimer const& action) { nodes_[i].timer = action.at; }
  void perform(std::size_t i, agent::Exit const& action) {
    if (nodes_[i].running || nodes_[i].checking) {
      problem_ = "an agent left while its workers or its check ran";
    }
    nodes_[i].exit_code = action.code;
    nodes_[i].connected = false;
    // The host's process stays as long as its coordinator; its agent is gone.
    nodes_[i].alive = false;
  }

  std::mt19937 random_;
  rdzv::Policy policy_;
  agent::Policy agent_policy_;
  rdzv::State state_;
  std::deque<rdzv::Event> events_;
  std::vector<Node> nodes_;
  rdzv::AgentId last_id_ = 0;
  TimePoint now_{};
  std::optional<TimePoint> timer_;
  int trouble_ = 0;
  int concluded_ = 0;
  bool closed_ = false;
  std::string problem_;
  std::map<std::string, int> seen_;
};

}  // namespace

TEST_CASE("simulation: every job under random trouble ends, and nothing of two generations runs at once",
          "[scenario]") {
  std::map<std::string, int> ends;
  for (unsigned seed = 1; seed <= 5000; ++seed) {
    Simulation simulation(seed);
    std::string const problem = simulation.run();
    if (!problem.empty()) {
      FAIL("seed " << seed << ": " << problem << " (" << simulation.describe() << ")");
    }
    for (auto const& [end, count] : simulation.seen()) {
      ends[end] += count;
    }
  }
  // The trouble is real only if it leads everywhere.
  CHECK(ends["success"] > 100);
  CHECK(ends["worker failed"] > 100);
  CHECK(ends["stopped"] > 100);
  CHECK(ends["too few nodes"] > 100);
  CHECK(ends["success without an unfit node"] > 20);
}
