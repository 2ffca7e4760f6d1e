// LiveWorkers: what the live view shows of this node's workers: their figures, their stacks, the ends of their logs.
// Shell.
//
// Runs on the thread of the io_context given to it; files are read beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/live/figures.hpp"
#include "launcher/live/question.hpp"
#include "rendezvous/protocol/live_messages.hpp"
#include "src/base/core/time.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class Supervisor;

class LiveWorkers {
 public:
  /// `supervisor` outlives it.
  LiveWorkers(boost::asio::io_context& io, Supervisor& supervisor);

  /// Of a generation of this node; `number` 0: none runs.
  struct Of {
    std::uint64_t number = 0;
    std::uint32_t rank_base = 0;
    std::uint32_t workers = 0;
    std::string host;
    std::string log_root;  ///< "" = no files
  };
  [[nodiscard]] rendezvous::NodePulse look(Of const& of);
  /// `part` gets lines of JSON, at least once, from inside or later; the last time without `more`.
  using Part = std::function<void(std::string text, bool more)>;
  void answer(Of const& of, live::Question const& question, Part const& part);

 private:
  struct Used {
    pid_t pid = 0;
    std::uint64_t ticks = 0;
    TimePoint at;
    std::int64_t permille = 0;  ///< in the span before that
  };
  /// 0: it has ended.
  [[nodiscard]] pid_t program_of(std::uint32_t local_rank) const;
  live::Row row_of(std::uint32_t local_rank, TimePoint now);
  void take_stacks(Of const& of, std::vector<std::uint32_t> const& local_ranks, Part const& part);
  void read_tails(Of const& of, std::uint32_t local_rank, std::uint64_t most, Part const& part);

  boost::asio::io_context& io_;
  Supervisor& supervisor_;
  std::map<std::uint32_t, Used> used_;  // by local rank: processor time at the last look
};

}  // namespace cxxrun::launcher
