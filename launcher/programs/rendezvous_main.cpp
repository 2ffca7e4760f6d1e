// cxxrun-rendezvous: the coordinator and the stores of a whole job as a program of its own, for the job script.
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "launcher/options/command_line.hpp"
#include "launcher/options/server_options.hpp"
#include "launcher/place/discovery_file.hpp"
#include "launcher/programs/rendezvous_host.hpp"
#include "src/core/endpoint.hpp"
#include "src/core/exit_codes.hpp"
#include "src/core/port_sequence.hpp"
#include "src/os/fd.hpp"
#include "src/os/log.hpp"
#include "src/os/monitor.hpp"
#include "src/os/process_info.hpp"
#include "src/os/random.hpp"
#include "src/os/system.hpp"

extern char** environ;

namespace {

namespace launcher = cxxrun::launcher;
using cxxrun::Errc;
using cxxrun::Error;
using cxxrun::Result;

std::vector<std::uint16_t> ports_to_try(launcher::RendezvousOptions const& options,
                                        launcher::Environment const& environment) {
  if (options.port) {
    return {*options.port};
  }
  if (options.range.first != 0) {
    std::vector<std::uint16_t> ports;
    for (std::uint32_t port = options.range.first; port <= options.range.last; ++port) {
      ports.push_back(static_cast<std::uint16_t>(port));
    }
    return ports;
  }
  auto const name = launcher::discovery_name(environment);
  return name.empty() ? std::vector{cxxrun::kDefaultPort}
                      : cxxrun::port_sequence(name + ".rendezvous", cxxrun::kPortsTried);
}

/// Another one in this job would take the steps of the first.
Result<void> check_alone(std::string const& path, std::string const& host) {
  auto const other = launcher::read_discovery(path);
  if (!other || !other->has_value() || (*other)->host != host) {
    return {};
  }
  auto const stat = cxxrun::os::read_stat(static_cast<pid_t>((*other)->pid));
  bool const runs = stat && stat->comm == "cxxrun-rendezvo" && stat->state != 'Z';
  return runs ? Result<void>(fail(Errc::usage, "it runs already in this job, as process " +
                                                   std::to_string((*other)->pid) + "; one serves every step"))
              : Result<void>();
}

int complain(Error const& error) {
  std::fprintf(stderr, "cxxrun-rendezvous: %s\n", error.message().c_str());
  return error.code == Errc::usage ? cxxrun::kExitUsage : cxxrun::kExitSystem;
}

/// `announce` is given "HOST:PORT" once everybody can come.
int serve(launcher::RendezvousOptions const& options, pid_t owner,
          std::function<void(std::string const&)> const& announce) {
  auto const environment = cxxrun::os::read_environment();
  std::string host = launcher::value_of(environment, "SLURMD_NODENAME");
  host = options.loopback ? "127.0.0.1" : host.empty() ? cxxrun::os::short_hostname() : host;
  std::string const nonce = cxxrun::random_hex(16);
  std::string const name = launcher::discovery_name(environment);
  launcher::Discovery self;
  launcher::RendezvousConfig config;
  config.owner = owner;
  config.ports = ports_to_try(options, environment);
  config.coordinator.nonce = nonce;
  config.coordinator.loopback_only = options.loopback;
  config.coordinator.serves_all = true;
  config.coordinator.only_id = options.id;
  config.coordinator.store_ports = options.range;
  config.listening = [&](std::uint16_t port) -> Result<void> {
    if (!name.empty()) {
      self = launcher::describe_self(environment, name, host, port, nonce);
    }
    if (!self.path.empty()) {
      if (auto const alone = check_alone(self.path, host); !alone) {
        return alone.error();
      }
      if (auto const written = launcher::write_discovery(self); !written) {
        return written.error();
      }
    }
    announce(cxxrun::endpoint_text(host, port));
    return {};
  };
  auto const served = launcher::host_rendezvous(std::move(config));
  if (!self.path.empty()) {
    launcher::remove_discovery(self.path, nonce);
  }
  return served ? 0 : complain(served.error());
}

void print(std::string const& endpoint) {
  std::printf("%s\n", endpoint.c_str());
  std::fflush(stdout);
}

/// The work is a child's, of which only the first line is waited for; without one its exit code is ours. The child
/// lets go of standard output, so that $(cxxrun-rendezvous --background) ends too.
int serve_in_background(launcher::RendezvousOptions const& options) {
  pid_t const owner = getppid();
  std::array<int, 2> line{};
  if (pipe2(line.data(), O_CLOEXEC) != 0) {
    return complain(fail(Errc::io, "cannot make a pipe", errno));
  }
  cxxrun::os::UniqueFd reading(line[0]);
  cxxrun::os::UniqueFd writing(line[1]);
  pid_t const child = fork();
  if (child < 0) {
    return complain(fail(Errc::io, "cannot make a process", errno));
  }
  if (child == 0) {
    reading.reset();
    return serve(options, owner, [&](std::string const& endpoint) {
      print(endpoint);
      cxxrun::os::UniqueFd const nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
      dup2(nowhere.get(), STDOUT_FILENO);
      (void)write(writing.get(), "", 1);
    });
  }
  writing.reset();
  char ready = 0;
  ssize_t got = 0;
  do {
    got = read(reading.get(), &ready, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) {
    return 0;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char* argv[]) {
  cxxrun::os::ensure_standard_descriptors();
  launcher::RendezvousOptions options;
  if (auto const early = launcher::parse(launcher::rendezvous_command(options), {argv + 1, argv + argc})) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    return early->code;
  }
  cxxrun::log_setup("cxxrun-rendezvous", cxxrun::log_level(options.log_level).value_or(cxxrun::Level::info));
  cxxrun::os::raise_nofile_limit();
  return options.background ? serve_in_background(options) : serve(options, getppid(), print);
}
