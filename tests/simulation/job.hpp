// Job: one execution of a Schedule: hosts, agents, the file of the fence, the program that the workers run, and the
// Judge who watches.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/forger.hpp"
#include "tests/simulation/judge.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/node.hpp"
#include "tests/simulation/report.hpp"
#include "tests/simulation/schedule.hpp"
#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

struct Host {
  HostClock clock;
  bool dead = false;
  int frozen = 0;
  Micros forgiven_until = -1;  ///< agent and parent have been frozen together: the lease is enforced from the thaw on
};

/// The workers of one generation, wherever they are.
struct Program {
  std::vector<Node*> started;
  bool broken = false;                   ///< one of them has ended badly: it cannot succeed any more
  bool finishing = false;                ///< the work is done: each ends by itself
  std::optional<std::uint32_t> culprit;  ///< rank whose failure came first
  bool node_lost = false;                ///< a node's end came first
};

/// Who says that it leads, elected when: that of an earlier election is not written over a later one.
struct Announced {
  Address at{0, kRendezvousPort};
  std::pair<std::uint64_t, rendezvous::Ballot> elected{};  ///< generation and ballot
};

class Job {
 public:
  explicit Job(Schedule schedule, Coverage* coverage = nullptr);
  ~Job();

  /// "" or which rule was broken.
  std::string run();
  [[nodiscard]] std::string describe() const;

  Schedule schedule;
  World world;
  Network network;
  Judge judge;
  Coverage* coverage;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::unique_ptr<Node>> nodes;
  std::map<std::uint64_t, rendezvous::AcceptedDecree> fence;
  std::optional<Address> discovered;  ///< who coordinates, for those who come later
  Announced announced;                ///< the file that agents with --join read
  std::unique_ptr<Forger> forger;
  bool stops_at_rest = false;  ///< the test drives it

  [[nodiscard]] bool mutated(Mutation mutation) const { return schedule.mutation == mutation; }
  [[nodiscard]] TimePoint clock(HostId host) const { return hosts[host]->clock.read(world.now()); }
  Node& add_node(HostId host, bool added = false);
  HostId add_host();

  // ---- the program -------------------------------------------------------------------------------------------

  void workers_started(Node& node);
  void concluded(Node const& node, rendezvous::Verdict const& verdict);
  void worker_failed(Node& node, rendezvous::WorkerExit const& exit);
  /// They execute no more, and not because their work is done.
  void workers_gone(Node& node, bool node_lost);

  // ---- faults, also for traces written by hand ---------------------------------------------------------------

  void strike(Fault const& fault);
  void cut(std::vector<HostId> const& side, Micros lasts, Cut how, bool one_way = false);
  void freeze_host(HostId host, Micros lasts);
  void kill_host(HostId host, bool silent);
  [[nodiscard]] Node* agent_on(HostId host);
  [[nodiscard]] Node* any_alive();
  [[nodiscard]] bool over() const;

 private:
  void break_program(Program& program, Node const& first);
  void check_work(std::uint64_t number);
  void succeed(Node& node, std::uint64_t number);
  void end_trouble();

  std::map<std::uint64_t, Program> programs_;
};

}  // namespace cxxrun::simulation
