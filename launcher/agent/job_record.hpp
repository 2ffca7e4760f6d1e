// JobRecord: what happened to one run, for programs to read: events.jsonl and verdict.json in a log directory
// (docs/use/verdict.md). Shell.
//
// Only a coordinator has one. A thread of its own writes the events, so that a file system that hangs or is full delays
// nothing else.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "rendezvous/values/story.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

/// Copies the worker's error file `from`, if there is one, over the file `to`. A failure to write is a warning.
void hand_error_file(std::string const& from, std::string const& to, ExitStatus const& status);

struct RecordPlace {
  std::string dir;  ///< "" = logs are not kept
  std::string run_id;
  std::string host;
};

class JobRecord {
 public:
  explicit JobRecord(RecordPlace const& place);
  ~JobRecord();
  JobRecord(JobRecord const&) = delete;
  JobRecord& operator=(JobRecord const&) = delete;

  /// Returns the event as a line of events.jsonl, even if nothing is kept.
  std::string add(rendezvous::story::Event const& event);
  /// Ends the record: waits up to 2 s for pending events, writes verdict.json, and logs where the two files are.
  void conclude(rendezvous::Verdict const& verdict);

 private:
  struct Queue;
  void put(std::string line);
  void close();

  std::string dir_;               ///< "" = logs are not kept
  std::string shown_dir_;         ///< HOST:DIR
  std::shared_ptr<Queue> queue_;  ///< shared with the thread, which is left behind if the file system hangs
  std::unique_ptr<os::BoundedThread> thread_;
};

/// The records of cxxrun-rendezvous: one for each run, in a directory of its own under --log-dir.
class JobRecords {
 public:
  /// Makes the directory. With "" or "/dev/null" nothing is kept. `host`: for people. Errors: those of make_log_dir().
  [[nodiscard]] static Result<JobRecords> in(std::string const& log_dir, std::string host);

  std::string add(std::string const& run_id, rendezvous::story::Event const& event);
  void conclude(std::string const& run_id, rendezvous::Verdict const& verdict);

 private:
  JobRecords(std::string log_dir, std::string host);

  std::string log_dir_;
  std::string host_;
  std::map<std::string, std::unique_ptr<JobRecord>> records_;  ///< of the runs that have not ended
};

}  // namespace cxxrun::launcher
