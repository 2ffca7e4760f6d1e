// The loss curve as a CSV file, step,loss,world,restart: one line per step, however often a step was done again.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace train {

/// The lines of a curve up to and including `step`, with the header; what is torn or not a line is left out.
[[nodiscard]] std::string curve_until(std::string const& csv, std::uint64_t step);

class Curve {
 public:
  /// Keeps what the file has up to `step`, and drops the rest: those steps will come again. No path: does nothing.
  /// Throws cxxrun::Failure (io).
  Curve(std::string path, std::uint64_t step);
  /// Of the last line; 0: there is none.
  [[nodiscard]] std::uint64_t last() const { return last_; }
  /// The line is the file's when this returns, so that a checkpoint made later never lacks it. Throws the same.
  void add(std::uint64_t step, double loss, int world, int restart);

 private:
  std::string path_;
  std::ofstream file_;
  std::uint64_t last_ = 0;
};

}  // namespace train
