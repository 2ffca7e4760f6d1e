// cxxrun-store: one c10d key-value store as a program of its own.
#include <csignal>
#include <cstdio>

#include "launcher/options/command_line.hpp"
#include "launcher/options/server_options.hpp"
#include "src/core/exit_codes.hpp"
#include "src/os/log.hpp"
#include "src/os/system.hpp"
#include "src/store/store_server.hpp"

namespace {

namespace launcher = cxxrun::launcher;

// Returns when SIGTERM or SIGINT, blocked in every thread, is pending.
void wait_for_end(sigset_t const& ends) {
  int signal = 0;
  while (::sigwait(&ends, &signal) != 0) {
  }
}

int serve(launcher::StoreOptions const& options) {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  // Each client costs a descriptor; the soft limit of 1024 is for programs that use select.
  cxxrun::os::raise_nofile_limit();

  cxxrun::store::StoreServer server([](auto const& line) { cxxrun::log(cxxrun::Level::warn, line); });
  auto const port = server.open(0, {*options.port, options.loopback});
  if (!port) {
    std::fprintf(stderr, "cxxrun-store: %s\n", port.error().message().c_str());
    return cxxrun::kExitSystem;
  }
  if (*options.port == 0) {
    std::printf("%u\n", static_cast<unsigned>(*port));
    std::fflush(stdout);
  }
  wait_for_end(ends);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  cxxrun::log_setup("cxxrun-store", cxxrun::Level::info);
  launcher::StoreOptions options;
  if (auto const early = launcher::parse(launcher::store_command(options), {argv + 1, argv + argc})) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    return early->code;
  }
  return serve(options);
}
