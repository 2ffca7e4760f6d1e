// LiveWorkers: what an agent tells of its own workers for the live view of its job (docs/use/live.md): their figures,
// their stacks, the ends of their logs. Shell.
//
// Runs on the thread of the io_context given to it, and never blocks, except while a debugger starts: files are read on
// a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/live/live.hpp"
#include "launcher/live/question.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/time.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class GpuWatch;
class HangGuard;
class Supervisor;

/// The workers of this node that run now.
struct RunningWorkers {
  std::uint64_t number = 0;  ///< of their generation; 0: none run
  std::uint32_t rank_base = 0;
  std::uint32_t count = 0;
  std::string host;
  std::string log_root;  ///< "" = no files
};

class LiveWorkers {
 public:
  /// All references outlive it. `environment`: PATH for the debugger, and what it inherits.
  LiveWorkers(boost::asio::io_context& io, Supervisor& supervisor, HangGuard const& hangs,
              Environment const& environment);

  [[nodiscard]] rendezvous::NodePulse pulse(RunningWorkers const& running, GpuWatch const& gpus);
  /// Reads what the next pulses say of how late each worker is. `at`: by the wall clock.
  void look(RunningWorkers const& running, Millis at);

  /// Gets lines of JSON at least once, from inside answer() or later; `more` is false the last time.
  using Part = std::function<void(std::string text, bool more)>;
  /// Answers a question that is_passed_on().
  void answer(RunningWorkers const& running, live::Question const& question, Part const& part);

 private:
  /// Processor time of a worker's program when it was last read.
  struct Used {
    pid_t pid = 0;
    std::uint64_t ticks = 0;
    TimePoint at;
    std::int64_t permille = 0;  ///< in the span before that
  };
  /// Workers whose stacks the debugger is to read.
  struct Tracing {
    struct Worker {
      std::uint32_t rank = 0;
      std::uint32_t local_rank = 0;
      pid_t pid = 0;
    };
    std::string host;
    std::vector<Worker> left;  ///< the next one last
    Part part;
  };

  [[nodiscard]] pid_t program_of(std::uint32_t local_rank) const;
  live::Row row_of(std::uint32_t local_rank, TimePoint now);
  void take_stacks(RunningWorkers const& running, std::vector<std::uint32_t> const& local_ranks, Part const& part);
  void take_native_stacks(RunningWorkers const& running, std::vector<std::uint32_t> const& local_ranks,
                          Part const& part);
  void trace_next(std::shared_ptr<Tracing> const& tracing);
  void read_tails(RunningWorkers const& running, std::uint32_t local_rank, live::Question const& question,
                  Part const& part);

  boost::asio::io_context& io_;
  Supervisor& supervisor_;
  HangGuard const& hangs_;
  Environment const& environment_;
  bool traces_ = false;                 ///< a debugger runs for a question
  std::map<std::uint32_t, Used> used_;  ///< by local rank
  std::vector<live::Row> looked_;       ///< by local rank, of the generation `looked_in_`
  std::uint64_t looked_in_ = 0;
};

}  // namespace cxxrun::launcher
