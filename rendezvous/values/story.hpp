// Story: what happened to a job, event by event, for machines to read. Values only; as text: launcher/story.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "rendezvous/values/decree.hpp"
#include "rendezvous/values/history.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous::story {

struct NodeJoined {
  std::string host;
  std::uint32_t slots = 1;
};
struct NodeLost {
  std::string host;
  std::string how;
};
struct NodeLeft {  ///< told to end
  std::string host;
  int signal = 0;
};
struct NodeExcluded {
  std::string host;
  std::string why;
};
/// Nodes and ranks are chosen, and told so.
struct Formed {
  std::uint64_t generation = 0;
  std::uint32_t nodes = 0;
  std::uint32_t ranks = 0;
  std::uint32_t restarts = 0;
  std::string hosts;        ///< by group rank, as a host list; "" = too long a list
  std::string local_sizes;  ///< "4(x2),2"; "" = too long a list
};
/// Its workers are told to start.
struct Started {
  std::uint64_t generation = 0;
};
struct WorkerFailed {
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;
  std::string host;
  std::string how;
};
struct Stopping {
  std::uint64_t generation = 0;
  std::string kind;  ///< "failure", "resize", "user"
  std::string why;
};
/// All workers have ended, and it is known why.
struct Ended {
  PastGeneration what;
};
struct Restart {
  std::uint32_t restarts = 0;
  Millis delay{0};
};
/// Another one coordinated; `known` is what is known of the time before.
struct TookOver {
  std::uint64_t generation = 0;
  History known;
  Ballot ballot = {};  ///< in the vote of the members of `generation`
};
struct SteppedDown {
  std::string why;
};
struct Concluded {
  std::string verdict;
  int exit_code = 0;
  std::string summary;
};
/// A stretch of the account.
struct Stretch {
  Spent spent = Spent::waiting;
  Millis from{0};
  Millis to{0};
};

using What = std::variant<NodeJoined, NodeLost, NodeLeft, NodeExcluded, Formed, Started, WorkerFailed, Stopping, Ended,
                          Restart, TookOver, SteppedDown, Concluded, Stretch>;

struct Event {
  Millis at{0};  ///< since the job's start
  What what;
};

}  // namespace cxxrun::rendezvous::story
