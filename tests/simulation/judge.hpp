// Judge: what must hold after every step of every execution (docs/design/simulation.md has the list).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/verdict.hpp"
#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

class Job;
class Node;
struct Program;

/// Timeouts after the last death in which a job that goes on has found a coordinator and started its workers.
inline constexpr int kSettles = 8;

class Judge {
 public:
  explicit Judge(Job& job) : job_(job) {}

  void executing_changed();
  void started(Node const& node, rendezvous::Generation const& generation);
  void agent_stepped(Node const& node);
  void coordinator_stepped(Node const& node);
  /// What an agent says, when it says it: promises, acceptances, and that it is ready.
  void said(Node const& node, rendezvous::ToCoordinator const& message);
  void concluded(Node const& node, rendezvous::Verdict const& verdict, Program const* program);
  void left(Node const& node, int code);
  /// The last of the trouble was long ago.
  void settled();

  // What the report counts.
  std::map<std::string, int> ends;
  std::pair<std::uint64_t, std::size_t> last_started;  ///< newest generation, and nodes that have begun it
  std::uint32_t rounds = 0;                            ///< highest round of any ballot
  std::size_t decrees = 0;
  std::size_t generations = 0;

 private:
  void named(rendezvous::Generation const& generation);
  void ends_with_the_first(Node const& node);
  struct Seen {
    rendezvous::Decree decree;
    std::uint32_t world_size = 0;
    std::uint32_t restarts = 0;
    std::map<std::uint32_t, std::uint32_t> ranks;  ///< rank base → local size
    std::set<std::uint32_t> group_ranks;
  };

  struct Votes {  ///< of one seat, whoever sits there
    rendezvous::Ballot promised;
    rendezvous::Ballot accepted;
  };

  void voted(Node const& node, rendezvous::Vote const& vote);
  void accepted(Node const& node, rendezvous::Accepted const& acceptance);
  void campaign(Node const& node);
  void all_ready(Node const& node);
  void decided(rendezvous::Decree const& decree);
  void note_idle();
  void heard_verdict(Node const& node, int code);
  void restarted(rendezvous::Generation const& generation);
  void counted(rendezvous::Decree const& decree);
  void accounted(rendezvous::Decree const& before, rendezvous::Decree const& decree);
  [[nodiscard]] bool checks_quorum() const;
  [[nodiscard]] bool only_deaths() const;
  [[nodiscard]] std::size_t most_left(Node const* also) const;

  Job& job_;
  bool idle_ = true;  ///< no workers execute, anywhere
  Micros idle_since_ = 0;
  std::uint32_t restarts_begun_ = 0;  ///< of the generations whose workers have begun
  std::map<std::uint64_t, Seen> generations_;
  std::map<std::uint64_t, std::pair<Node const*, int>> verdicts_;   ///< by the generation that they are of: whose, code
  std::map<std::uint64_t, rendezvous::Decree> decrees_;             ///< by the generation whose members voted
  std::map<std::pair<std::uint64_t, std::uint32_t>, Votes> votes_;  ///< by generation and group rank
  std::set<std::pair<std::uint64_t, std::string>> ready_;           ///< generation and incarnation
  std::set<std::pair<std::uint64_t, std::string>> checked_;         ///< of which coordinator: all were ready
};

}  // namespace cxxrun::simulation
