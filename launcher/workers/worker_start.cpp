#include "launcher/workers/worker_start.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

#include "launcher/workers/worker_streams.hpp"
#include "src/os/spawn.hpp"
#include "src/os/system.hpp"

namespace cxxrun::launcher {
namespace {

WorkerStart failed(std::string why, int error) {
  WorkerStart start;
  start.error = error;
  start.why = std::move(why);
  return start;
}

void take(OpenStream stream, std::vector<PumpStream>& streams) {
  if (stream.pump_end) {
    stream.pump.fd = stream.pump_end.release();
    streams.push_back(std::move(stream.pump));
  }
}

}  // namespace

WorkerStart start_worker(WorkerSpec const& spec, int capacity_bytes) {
  std::string const name = spec.argv.empty() ? "" : spec.argv.front();
  if (!spec.error_file.empty()) {
    unlink(spec.error_file.c_str());
  }
  auto out = open_stream(spec.out, false, spec.prefix, capacity_bytes);
  auto err = open_stream(spec.err, true, spec.prefix, capacity_bytes);
  if (!out || !err) {
    auto const& error = !out ? out.error() : err.error();
    return failed(error.message(), error.os_errno);
  }
  auto found = os::find_program(name, spec.environment);
  if (found.error != 0) {
    return failed(os::explain_failed_start(name, os::SpawnStage::find, found.error), found.error);
  }
  if (!spec.script.empty() && access(spec.script.c_str(), R_OK) != 0) {  // else the interpreter's own code comes out
    int const why = errno;
    return failed(fail(Errc::not_found, "cannot read the script '" + spec.script + "'", why).message(), why);
  }
  os::SpawnRequest const request{std::move(found.path),
                                 spec.argv,
                                 spec.environment,
                                 "",
                                 spec.inherit_stdin ? STDIN_FILENO : -1,
                                 spec.out_is_err ? err->worker_end.get() : out->worker_end.get(),
                                 err->worker_end.get(),
                                 spec.cpus,
                                 os::original_nofile_limit()};
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return failed(os::explain_failed_start(name, started.stage, started.error), started.error);
  }
  WorkerStart start;
  start.pid = started.pid;
  take(*std::move(out), start.streams);
  take(*std::move(err), start.streams);
  return start;
}

}  // namespace cxxrun::launcher
