#include "launcher/workers/worker_streams.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/os/fd_io.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kLargePipe = 1024 * 1024;
constexpr int kSmallPipe = 256 * 1024;
constexpr std::size_t kFewStreams = 16;

Result<OpenStream> open_pipe(StreamPlan const& plan, bool is_stderr, std::string const& prefix, int capacity_bytes) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Errc::io, "cannot open a pipe for a worker's output", errno);
  }
  OpenStream opened;
  opened.pump_end.reset(ends[0]);
  opened.worker_end.reset(ends[1]);
  // Only our end: the worker's stays blocking, as every program expects of its stdout.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[1], F_SETPIPE_SZ, capacity_bytes);
  opened.pump.file = plan.file;
  opened.pump.console = plan.console;
  opened.pump.to_stderr = is_stderr;
  opened.pump.prefix = prefix;
  opened.pump.keep_tail = is_stderr;
  return opened;
}

}  // namespace

bool needs_pipe(StreamPlan const& plan, bool is_stderr) {
  return is_stderr || plan.console;
}

int pipe_bytes(std::size_t streams) {
  return streams <= kFewStreams ? kLargePipe : kSmallPipe;
}

Result<OpenStream> open_stream(StreamPlan const& plan, bool is_stderr, std::string const& prefix, int capacity_bytes) {
  if (needs_pipe(plan, is_stderr)) {
    return open_pipe(plan, is_stderr, prefix, capacity_bytes);
  }
  OpenStream opened;
  if (!plan.file.empty()) {
    opened.worker_end.reset(open(plan.file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!opened.worker_end) {
      log(Level::warn,
          fail(Errc::io, "cannot write " + plan.file + ", this output of the worker is lost", errno).message());
    }
  }
  return opened;
}

std::string read_small_file(std::string const& path, std::size_t limit) {
  // O_NONBLOCK: the worker chose what lies there, and a FIFO must not hold us up
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return {};
  }
  return os::read_all(file.get(), limit).value_or("");
}

}  // namespace cxxrun::launcher
