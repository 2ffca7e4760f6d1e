// cxxrun-rendezvous: the coordinator and the stores of a whole job as a program of its own, for the job script.
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "launcher/place/discovery_file.hpp"
#include "launcher/programs/rendezvous_host.hpp"
#include "src/core/endpoint.hpp"
#include "src/core/exit_codes.hpp"
#include "src/core/port_sequence.hpp"
#include "src/os/fd.hpp"
#include "src/os/log.hpp"
#include "src/os/process_info.hpp"
#include "src/os/random.hpp"
#include "src/os/system.hpp"
#include "src/os/undertaker.hpp"

extern char** environ;

namespace {

namespace launcher = cxxrun::launcher;
using cxxrun::Errc;
using cxxrun::Error;
using cxxrun::Result;

constexpr char kUsage[] =
    "usage: cxxrun-rendezvous [options]\n"
    "\n"
    "Hosts the coordinator and the stores for every run of cxxrun in a job. In a Slurm batch script:\n"
    "\n"
    "    cxxrun-rendezvous --background\n"
    "    srun cxxrun train.py\n"
    "\n"
    "Each step of the job finds it by itself, through a file in ~/.cxxrun/rendezvous (or $CXXRUN_DISCOVERY_DIR).\n"
    "Elsewhere give the agents --rdzv-endpoint HOST:PORT and --rdzv-id ID. Ends with the job script, or by SIGTERM.\n"
    "\n"
    "  --port PORT               where to listen [in a Slurm job: derived from its number; else 29400]; 0: any free "
    "port\n"
    "  --port-range FIRST-LAST   take the ports, also those of the stores, from here only\n"
    "  --rdzv-id ID              serve runs of this id alone\n"
    "  --loopback                listen on 127.0.0.1 only\n"
    "  --background              return once it listens and the steps can find it; it ends with whoever started it\n"
    "  --log-level LEVEL         debug, info, warn or error [info]\n"
    "  --version, --help\n"
    "\n"
    "Prints HOST:PORT on standard output once it listens.\n"
    "Exit codes: 0 told to end or its parent ended, 100 bad arguments, 111 no port, or the system refused.\n";

struct Arguments {
  std::optional<std::uint16_t> port;
  cxxrun::rendezvous::PortRange range;
  std::string id;
  bool loopback = false;
  bool background = false;
  cxxrun::Level level = cxxrun::Level::info;
  bool help = false;
  bool version = false;
  std::string problem;
};

std::string set(Arguments& arguments, std::string_view name, std::string_view value) {
  auto const quoted = " not \"" + std::string(value) + "\"";
  if (name == "--port") {
    auto const port = cxxrun::parse_port(value);
    arguments.port = port ? std::optional(*port) : std::nullopt;
    return port ? "" : "--port needs a number from 0 to 65535," + quoted;
  }
  if (name == "--port-range") {
    auto const dash = value.find('-');
    auto const first = cxxrun::parse_port(value.substr(0, dash));
    auto const last = dash == std::string_view::npos ? first : cxxrun::parse_port(value.substr(dash + 1));
    if (!first || !last || *first == 0 || *last < *first) {
      return "--port-range needs FIRST-LAST, for example 20000-20100," + quoted;
    }
    arguments.range = {*first, *last};
    return "";
  }
  if (name == "--rdzv-id") {
    arguments.id = value;
    return value.empty() ? "--rdzv-id needs a name" : "";
  }
  auto const level = cxxrun::log_level(value);
  arguments.level = level.value_or(cxxrun::Level::info);
  return level ? "" : "--log-level needs debug, info, warn or error," + quoted;
}

Arguments parse(std::vector<std::string_view> const& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size() && arguments.problem.empty(); ++i) {
    std::string_view const word = words[i];
    auto const equals = word.find('=');
    std::string name(word.substr(0, equals));
    for (char& c : name) {
      c = c == '_' ? '-' : c;
    }
    bool const valued = name == "--port" || name == "--port-range" || name == "--rdzv-id" || name == "--log-level";
    if (valued && equals == std::string_view::npos && i + 1 == words.size()) {
      arguments.problem = name + " needs a value";
    } else if (valued) {
      arguments.problem = set(arguments, name, equals == std::string_view::npos ? words[++i] : word.substr(equals + 1));
    } else if (name == "--loopback") {
      arguments.loopback = true;
    } else if (name == "--background") {
      arguments.background = true;
    } else if (name == "--help" || name == "-h") {
      arguments.help = true;
    } else if (name == "--version") {
      arguments.version = true;
    } else {
      arguments.problem = "unknown argument \"" + std::string(word) + "\"; cxxrun-rendezvous --help lists them";
    }
  }
  return arguments;
}

std::vector<std::uint16_t> ports_to_try(Arguments const& arguments, launcher::Environment const& environment) {
  if (arguments.port) {
    return {*arguments.port};
  }
  if (arguments.range.first != 0) {
    std::vector<std::uint16_t> ports;
    for (std::uint32_t port = arguments.range.first; port <= arguments.range.last; ++port) {
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
int serve(Arguments const& arguments, pid_t owner, std::function<void(std::string const&)> const& announce) {
  auto const environment = cxxrun::os::read_environment();
  std::string host = launcher::value_of(environment, "SLURMD_NODENAME");
  host = arguments.loopback ? "127.0.0.1" : host.empty() ? cxxrun::os::short_hostname() : host;
  std::string const nonce = cxxrun::random_hex(16);
  std::string const name = launcher::discovery_name(environment);
  launcher::Discovery self;
  launcher::RendezvousConfig config;
  config.owner = owner;
  config.ports = ports_to_try(arguments, environment);
  config.coordinator.nonce = nonce;
  config.coordinator.loopback_only = arguments.loopback;
  config.coordinator.serves_all = true;
  config.coordinator.only_id = arguments.id;
  config.coordinator.store_ports = arguments.range;
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
int serve_in_background(Arguments const& arguments) {
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
    return serve(arguments, owner, [&](std::string const& endpoint) {
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
  Arguments const arguments = parse({argv + 1, argv + argc});
  if (arguments.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (arguments.version) {
    std::puts("cxxrun-rendezvous " CXXRUN_VERSION);
    return 0;
  }
  if (!arguments.problem.empty()) {
    return complain(fail(Errc::usage, arguments.problem));
  }
  cxxrun::log_setup("cxxrun-rendezvous", arguments.level);
  cxxrun::os::raise_nofile_limit();
  return arguments.background ? serve_in_background(arguments) : serve(arguments, getppid(), print);
}
