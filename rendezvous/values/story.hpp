// Story: the event log of a job, for programs to read. Values; their JSON is in launcher/report/report_json.hpp.
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
struct NodeLeft {  ///< it was told to end, by the user or by Slurm
  std::string host;
  int signal = 0;
};
struct NodeExcluded {
  std::string host;
  std::string why;
};
/// The members and their ranks are chosen and told to the nodes.
struct Formed {
  std::uint64_t generation = 0;
  std::uint32_t nodes = 0;
  std::uint32_t ranks = 0;
  std::uint32_t restarts = 0;
  std::string hosts;        ///< by group rank, as a host list; "" = list too long
  std::string local_sizes;  ///< "4(x2),2"; "" = list too long
};
/// The workers of the generation are told to start.
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
/// All workers of the generation have ended, and the cause is known.
struct Ended {
  PastGeneration what;
};
struct Restart {
  std::uint32_t restarts = 0;
  Millis delay{0};
};
/// This coordinator was elected after another one was lost.
struct TookOver {
  std::uint64_t generation = 0;
  History known;       ///< what it knows of the time before
  Ballot ballot = {};  ///< in the vote of the members of `generation`
};
/// A person wants it (docs/use/live.md).
struct Wanted {
  std::uint64_t generation = 0;
  std::string verb;  ///< "checkpoint", "restart", "drain", "stop"
  std::string by;
  std::string host = {};  ///< that is to be drained, as the person has typed it; "" = none is
};
struct SteppedDown {
  std::string why;
};
struct Concluded {
  std::string verdict;
  int exit_code = 0;
  std::string summary;
};
/// A stretch of the job's time, and its use.
struct Stretch {
  Spent spent = Spent::waiting;
  Millis from{0};
  Millis to{0};
};
/// A rank, or all ranks of a node, for which the others wait in each step; or no more.
struct Slow {
  std::uint64_t generation = 0;
  std::uint32_t rank = 0;   ///< the first one
  std::uint32_t ranks = 1;  ///< more than 1: all of the node
  std::string host;
  Millis late{0};             ///< in each step
  std::uint32_t percent = 0;  ///< of a step
  std::string source;         ///< how it is known: "libcxxrun", "ddp", "begun"
  std::string spent;          ///< "computing", "input"; "" = not known
  std::string how;            ///< the same for people
  bool over = false;
};
/// Ranks that keep others waiting in a collective, or a collective that does not end.
struct Hang {
  std::uint64_t generation = 0;
  std::string how;  ///< for people
};

using What = std::variant<NodeJoined, NodeLost, NodeLeft, NodeExcluded, Formed, Started, WorkerFailed, Stopping, Ended,
                          Restart, TookOver, SteppedDown, Concluded, Stretch, Wanted, Slow, Hang>;

struct Event {
  Millis at{0};  ///< since the job's start
  What what;
};

}  // namespace cxxrun::rendezvous::story
