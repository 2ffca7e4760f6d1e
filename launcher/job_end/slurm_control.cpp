#include "launcher/job_end/slurm_control.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/exit_status.hpp"
#include "src/core/text.hpp"
#include "src/os/children.hpp"
#include "src/os/fd.hpp"
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
  os::SpawnRequest request;
  request.argv = {"scontrol"};
  request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
  request.environment = as_words(environment);
  auto found = os::find_program("scontrol", request.environment);
  if (found.error != 0) {
    return fail(Errc::not_found, "there is no scontrol in PATH here (a container often has none)");
  }
  request.path = std::move(found.path);
  int ends[2] = {-1, -1};  // NOLINT(modernize-avoid-c-arrays): pipe2's type
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return fail(Errc::io, "cannot make a pipe for scontrol", errno);
  }
  os::UniqueFd const ours(ends[0]);
  os::UniqueFd theirs(ends[1]);
  request.out = theirs.get();
  request.err = theirs.get();
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return fail(Errc::io, os::explain_failed_start("scontrol", started.stage, started.error));
  }
  theirs.reset();
  std::string text;
  read_all(ours.get(), deadline, text);
  auto const status = take_exit(started.pid, deadline);
  if (!status) {
    return fail(Errc::timeout, "slurmctld did not answer in time");
  }
  if (!status->ok()) {
    return fail(Errc::refused, "scontrol: " + printable(trim(text.substr(0, text.find('\n')))));
  }
  return text;
}

}  // namespace cxxrun::launcher
