// Chronicle: the files that tell machines what happened to the job: events.jsonl and verdict.json beside each other in
// a log directory. Shell. docs/use/verdict.md.
//
// Only who coordinates has one. Events are written by a thread of its own, so that a file system that hangs
// or is full holds nobody up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/values/story.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

/// Copies the worker's error file, if it has written one, to `to`, which is replaced. A line says what cannot be
/// written.
void hand_error_file(std::string const& from, std::string const& to, ExitStatus const& status);

struct ChroniclePlace {
  std::string dir;  ///< "" = logs are not kept
  std::string run_id;
  std::string host;
};

class Chronicle {
 public:
  explicit Chronicle(ChroniclePlace const& place);
  ~Chronicle();
  Chronicle(Chronicle const&) = delete;
  Chronicle& operator=(Chronicle const&) = delete;

  /// Returns the event's line, whether it is kept or not.
  std::string add(rendezvous::story::Event const& event);
  /// The end: waits at most 2 s for what is pending, writes the other file, and says where they are.
  void conclude(rendezvous::Verdict const& verdict);

 private:
  struct Queue;
  void put(std::string line);
  void close();

  std::string dir_;               ///< as above
  std::string where_;             ///< the same for people, with the host
  std::shared_ptr<Queue> queue_;  ///< shared with the thread, which may have to be left behind
  std::unique_ptr<os::BoundedThread> thread_;
};

}  // namespace cxxrun::launcher
