// cxxrun-store: one c10d key-value store as a program of its own.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/endpoint.hpp"
#include "src/core/exit_codes.hpp"
#include "src/os/log.hpp"
#include "src/os/system.hpp"
#include "src/store/store_server.hpp"

namespace {

constexpr char kUsage[] =
    "Usage: cxxrun-store --port PORT [--loopback]\n"
    "\n"
    "Serves one c10d key-value store (the TCPStore of PyTorch, every release) until SIGTERM or SIGINT.\n"
    "\n"
    "  --port PORT  where to listen; 0 lets the kernel choose and prints the port on stdout\n"
    "  --loopback   listen on 127.0.0.1 and ::1 only, instead of every address\n"
    "  --help       print this text\n"
    "  --version    print the version\n"
    "\n"
    "Exit codes: 0 ended by a signal, 100 bad arguments, 111 the port cannot be had.\n";

struct Arguments {
  std::optional<std::uint16_t> port;
  bool loopback = false;
  bool help = false;
  bool version = false;
  std::string problem;
};

Arguments parse(std::vector<std::string_view> const& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view const word = words[i];
    if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else if (word == "--version") {
      arguments.version = true;
    } else if (word == "--loopback") {
      arguments.loopback = true;
    } else if (word == "--port" || word.starts_with("--port=")) {
      bool const joined = word != "--port";
      std::string_view const text = joined ? word.substr(7) : ++i < words.size() ? words[i] : std::string_view{};
      if (auto const port = cxxrun::parse_port(text)) {
        arguments.port = *port;
      } else {
        arguments.problem = "--port needs a number from 0 to 65535, not \"" + std::string(text) + "\"";
      }
    } else {
      arguments.problem = "unknown argument \"" + std::string(word) + "\"; cxxrun-store --help lists them";
    }
  }
  if (arguments.problem.empty() && !arguments.port) {
    arguments.problem = "--port is missing; --port 0 lets the kernel choose";
  }
  return arguments;
}

// Each client costs a descriptor; the soft limit of 1024 is for programs that use select.
// Returns when SIGTERM or SIGINT, blocked in every thread, is pending.
void wait_for_end(sigset_t const& ends) {
  int signal = 0;
  while (::sigwait(&ends, &signal) != 0) {
  }
}

int serve(Arguments const& arguments) {
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  cxxrun::os::raise_nofile_limit();

  cxxrun::store::StoreServer server([](auto const& line) { cxxrun::log(cxxrun::Level::warn, line); });
  auto const port = server.open(0, {*arguments.port, arguments.loopback});
  if (!port) {
    std::fprintf(stderr, "cxxrun-store: %s\n", port.error().message().c_str());
    return cxxrun::kExitSystem;
  }
  if (*arguments.port == 0) {
    std::printf("%u\n", static_cast<unsigned>(*port));
    std::fflush(stdout);
  }
  wait_for_end(ends);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  cxxrun::log_setup("cxxrun-store", cxxrun::Level::info);
  Arguments const arguments = parse({argv + 1, argv + argc});
  if (arguments.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (arguments.version) {
    std::puts("cxxrun-store " CXXRUN_VERSION);
    return 0;
  }
  if (!arguments.problem.empty()) {
    std::fprintf(stderr, "cxxrun-store: %s\n", arguments.problem.c_str());
    return cxxrun::kExitUsage;
  }
  return serve(arguments);
}
