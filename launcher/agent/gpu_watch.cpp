#include "launcher/agent/gpu_watch.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <iterator>
#include <unistd.h>
#include <utility>

#include "launcher/workers/supervisor.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/spawn.hpp"

namespace cxxrun::launcher {

constexpr Millis kGpuPatience{5000};
constexpr int kLeastUnheard = 2;  // looks: this process may have been stopped itself, together with the program
constexpr std::size_t kLongestGpuLine = std::size_t{64} * 1024;

void GpuWatch::of_workers(std::vector<std::string> names) {
  if (names != names_) {
    names_ = std::move(names);
    output_.reset();
    gpus_.clear();
  }
}

void GpuWatch::look(bool wanted) {
  if (!wanted) {
    output_.reset();
    gpus_.clear();
    return;
  }
  bool const any = std::ranges::any_of(names_, [](auto const& name) { return !name.empty(); });
  if (pid_ == 0 && !useless_ && any) {
    start();
  }
  judge(read());
}

/// By /proc, since an update may have replaced the file. Nobody waits for it at the end: it may be in the kernel.
void GpuWatch::start() {
  std::vector<std::string> argv{"/proc/self/exe", std::string(live::kTellGpus)};
  std::ranges::transform(names_, std::back_inserter(argv),
                         [](std::string const& name) { return name.empty() ? "-" : name; });
  auto started = os::spawn_piped(std::move(argv), as_words(environment_));
  if (!started) {
    useless_ = true;
    return;
  }
  (void)::fcntl(started->output.get(), F_SETFL, O_NONBLOCK);
  pid_ = started->pid;
  output_ = std::move(started->output);
  rest_.clear();
  heard_ = Clock::now();
  unheard_ = 0;
  spoken_ = false;
  supervisor_.tend(pid_, [this] { ended(); });
  supervisor_.leave(pid_);
}

/// Whether there was a line.
bool GpuWatch::read() {
  std::array<char, 4096> part{};
  ssize_t got = 1;
  while (output_ && got > 0) {
    got = os::retried([&] { return ::read(output_.get(), part.data(), part.size()); });
    rest_.append(part.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  bool heard = false;
  auto lines = split(rest_, '\n');
  rest_ = lines.back().size() > kLongestGpuLine ? "" : std::move(lines.back());
  lines.pop_back();
  for (auto const& line : lines) {
    if (auto gpus = live::read_gpus(line)) {
      gpus_ = *std::move(gpus);
      heard = spoken_ = true;
    }
  }
  return heard;
}

/// One that was let go and does not end, because it is in a call of the driver, stays silent.
void GpuWatch::judge(bool heard) {
  auto const now = Clock::now();
  unheard_ = heard ? 0 : unheard_ + 1;
  if (heard) {
    heard_ = now;
  }
  bool silent = pid_ != 0 && unheard_ >= kLeastUnheard && now - heard_ > kGpuPatience;
  if (auto const stat = silent ? os::read_stat(pid_) : std::nullopt; stat && stat->state == 'T') {  // frozen
    heard_ = now;
    silent = false;
  }
  if (silent && !silent_) {
    gpus_.clear();
    log(Level::warn, "the GPU driver does not answer: the process that asks it (pid " + std::to_string(pid_) +
                         ") has waited for 5 s");
  } else if (silent_ && !silent) {
    log(Level::info, "the GPU driver answers again");
  }
  silent_ = silent;
}

void GpuWatch::ended() {
  (void)read();
  useless_ = output_ && !spoken_;
  pid_ = 0;
  output_.reset();
  gpus_.clear();
  silent_ = false;
}

}  // namespace cxxrun::launcher
