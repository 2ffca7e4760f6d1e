// What a person watches: one line with step, loss and speed, rewritten in place on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace train {

class Progress {
 public:
  /// Silent when quiet. Without a terminal about twenty lines come in a whole run.
  Progress(bool quiet, std::uint64_t steps);
  void step(std::uint64_t step, double loss, std::uint64_t samples);
  /// A line of its own.
  void say(std::string const& line);
  /// The same, also when quiet.
  void last(std::string const& line);

 private:
  using Clock = std::chrono::steady_clock;
  void print(std::string const& line);

  bool quiet_;
  bool terminal_;
  bool open_ = false;  ///< the cursor stands behind a line that will be rewritten
  std::uint64_t steps_;
  std::uint64_t samples_ = 0;
  Clock::time_point since_ = Clock::now();
};

}  // namespace train
