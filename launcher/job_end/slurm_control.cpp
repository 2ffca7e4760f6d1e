#include "launcher/job_end/slurm_control.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/exit_status.hpp"
#include "src/core/text.hpp"
#include "src/os/children.hpp"
#include "src/os/spawn.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kBetweenLooksMs = 2;  // it has closed its output and is about to end
constexpr std::size_t kMostBytes = std::size_t{64} * 1024;

/// Reads until the other end is closed or the deadline has passed.
void read_all(int fd, TimePoint deadline, std::string& text) {
  for (;;) {
    auto const left = std::chrono::duration_cast<Millis>(deadline - Clock::now()).count();
    pollfd readable{fd, POLLIN, 0};
    int const ready = left <= 0 ? 0 : poll(&readable, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return;
    }
    std::string part(4096, '\0');
    ssize_t const got = read(fd, part.data(), part.size());
    if (got <= 0) {
      return;
    }
    text.append(part, 0, std::min(static_cast<std::size_t>(got), kMostBytes - text.size()));
  }
}

/// Nothing when it has not ended by the deadline; then it is killed.
std::optional<ExitStatus> take_exit(pid_t pid, TimePoint deadline) {
  while (Clock::now() < deadline) {
    if (auto const status = os::reap(pid)) {
      return status;
    }
    poll(nullptr, 0, kBetweenLooksMs);
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> scontrol(std::vector<std::string> const& arguments, Environment const& environment,
                             Millis patience) {
  auto const deadline = Clock::now() + patience;
  std::vector<std::string> argv = {"scontrol"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto const started = os::spawn_piped(std::move(argv), as_words(environment));
  if (!started) {
    bool const absent = started.error().code == Errc::not_found;
    return absent ? fail(Errc::not_found, started.error().context + " (a container often has none)") : started.error();
  }
  std::string text;
  read_all(started->output.get(), deadline, text);
  auto const status = take_exit(started->pid, deadline);
  if (!status) {
    return fail(Errc::timeout, "slurmctld did not answer in time");
  }
  if (!status->ok()) {
    return fail(Errc::refused, "scontrol: " + printable(trim(text.substr(0, text.find('\n')))));
  }
  return text;
}

}  // namespace cxxrun::launcher
