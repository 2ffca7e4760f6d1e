// WorkerMemory: gives the workers of this node the memory that they share (src/base/worker/segment.hpp). Shell.
//
// There is one socket per generation, which the workers know as CXXRUN_SEGMENT, and one memfd per Communicator, made
// when the first worker asks for it. The agent never maps this memory, so workers cannot harm the agent through it.
// Programs that do not ask cost a socket and nothing else. Runs on the thread of the io_context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

/// The keys of one generation that have memory on this node. Pure.
///
/// The first request for a key makes its memory, and later requests get the same. Only the newest keys are kept. A late
/// request for an evicted key is refused, so that a rank never gets other memory than its local peers. At least as many
/// keys are kept as there are workers: ranks that all split into pairs at once use one key for every two of them.
class MemoryKeys {
 public:
  static constexpr std::size_t kKept = 16;
  static constexpr std::size_t kRemembered = 65536;

  explicit MemoryKeys(std::size_t workers = 0) : most_(std::max(kKept, workers)) {}

  struct Answer {
    enum class What : std::uint8_t { make, have, refuse } what = What::refuse;
    std::optional<std::uint64_t> drop;  ///< with make: the evicted key, whose memory is to be released
    std::string why;                    ///< with refuse
    bool operator==(Answer const&) const = default;
  };
  [[nodiscard]] Answer ask(std::uint64_t key) {
    Answer answer;
    if (std::ranges::find(kept_, key) != kept_.end()) {
      answer.what = Answer::What::have;
    } else if (dropped_.contains(key)) {
      answer.why = "cxxrun keeps the memory of the newest " + std::to_string(most_) +
                   " communicators for ranks that come late, and this one is older";
    } else if (dropped_.size() == kRemembered) {
      answer.why = "more communicators were made in this generation than cxxrun remembers";
    } else {
      answer.what = Answer::What::make;
      kept_.push_back(key);
      if (kept_.size() > most_) {
        answer.drop = kept_.front();
        dropped_.insert(kept_.front());
        kept_.pop_front();
      }
    }
    return answer;
  }

 private:
  std::size_t most_;
  std::deque<std::uint64_t> kept_;  // oldest first
  std::set<std::uint64_t> dropped_;
};

class WorkerMemory {
 public:
  /// Makes its sockets in `directory` (os::listen_local).
  explicit WorkerMemory(boost::asio::io_context& io, std::string directory = "");
  ~WorkerMemory();
  WorkerMemory(WorkerMemory const&) = delete;
  WorkerMemory& operator=(WorkerMemory const&) = delete;

  /// Starts a generation of so many workers: releases the memory of the previous one and returns the name of the new
  /// socket. "" when no descriptor is left; the workers then make their memory themselves.
  std::string begin(std::size_t workers);
  /// The workers have ended: releases their memory.
  void end();

 private:
  struct Generation;
  boost::asio::io_context& io_;
  std::string directory_;
  std::shared_ptr<Generation> generation_;
};

}  // namespace cxxrun::launcher
