// cxxrun-store: one c10d key-value store as a program of its own.
#include <csignal>
#include <cstdio>

#include "launcher/options/parse_options.hpp"
#include "launcher/programs/programs.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::launcher {
namespace {

int serve(StoreOptions const& options) {
  sigset_t const ends = os::make_sigset({SIGTERM, SIGINT});
  os::block_signals(ends);
  // Each client takes a descriptor; the soft limit of 1024 exists for programs that use select().
  os::raise_nofile_limit();

  store::StoreServer server([](auto const& line) { log(Level::warn, line); });
  auto const port = server.open(0, {*options.port, options.loopback}, {options.access, {}});
  if (!port) {
    std::fprintf(stderr, "cxxrun-store: %s\n", os::explain(port.error()).c_str());
    return kExitSystem;
  }
  if (*options.port == 0) {
    std::printf("%u\n", static_cast<unsigned>(*port));
    std::fflush(stdout);
  }
  int signal = 0;
  while (::sigwait(&ends, &signal) != 0) {
  }
  return 0;
}

}  // namespace

int run_store(std::vector<std::string> const& arguments) {
  log_setup("cxxrun-store", Level::info);
  StoreOptions options;
  if (auto const early = parse(store_command(options), arguments)) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    return early->code;
  }
  return serve(options);
}

}  // namespace cxxrun::launcher
