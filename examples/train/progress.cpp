#include "train/progress.hpp"

#include <cstdio>
#include <unistd.h>

namespace train {

Progress::Progress(bool quiet, std::uint64_t steps)
    : quiet_(quiet), terminal_(isatty(STDOUT_FILENO) == 1), steps_(steps) {}

void Progress::step(std::uint64_t step, double loss, std::uint64_t samples) {
  if (quiet_) {
    return;
  }
  samples_ += samples;
  auto const now = Clock::now();
  double const seconds = std::chrono::duration<double>(now - since_).count();
  std::uint64_t const interval = steps_ < 20 ? 1 : steps_ / 20;
  bool const due = terminal_ ? seconds > 0.1 : step % interval == 0;
  if (!due && step != steps_) {
    return;
  }
  char const* const format = terminal_ ? "\r\x1b[Kstep %llu/%llu  loss \x1b[1m%.4f\x1b[0m  %.0f samples/s"
                                       : "step %llu/%llu  loss %.4f  %.0f samples/s\n";
  std::printf(format, static_cast<unsigned long long>(step), static_cast<unsigned long long>(steps_), loss,
              static_cast<double>(samples_) / seconds);
  std::fflush(stdout);
  open_ = terminal_;
  samples_ = 0;
  since_ = now;
}

void Progress::say(std::string const& line) {
  if (!quiet_) {
    print(line);
  }
}

void Progress::last(std::string const& line) {
  print(line);
}

void Progress::print(std::string const& line) {
  std::printf("%s%s\n", open_ ? "\n" : "", line.c_str());
  std::fflush(stdout);
  open_ = false;
}

}  // namespace train
