#include "launcher/options/server_options.hpp"

#include "src/core/endpoint.hpp"

namespace cxxrun::launcher {

namespace {

Result<PortRange> parse_port_range(std::string_view text) {
  auto const dash = text.find('-');
  auto const first = parse_port(text.substr(0, dash));
  auto const last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return expected("FIRST-LAST is expected, for example 20000-20100");
  }
  return PortRange{*first, *last};
}

}  // namespace

Command store_command(StoreOptions& o) {
  return {
      "cxxrun-store",
      "usage: cxxrun-store --port PORT [--loopback]\n"
      "Serves one c10d key-value store (the TCPStore of PyTorch, every release) until SIGTERM or SIGINT.\n",
      "Exit codes: 0 ended by a signal, 100 bad arguments, 111 the port cannot be had.\n",
      {{"",
        {{"--port", "PORT", "where to listen; 0 lets the kernel choose and prints the port on stdout",
          set(o.port, parse_port)},
         {"--loopback", "", "listen on 127.0.0.1 and ::1 only, instead of every address", set(o.loopback, parse_flag)},
         kVersion,
         kHelp}}},
      [&o](auto&) { return o.port ? Result<void>() : expected("--port is missing; --port 0 lets the kernel choose"); }};
}

Command rendezvous_command(RendezvousOptions& o) {
  return {
      "cxxrun-rendezvous",
      "usage: cxxrun-rendezvous [options]\n"
      "Hosts the coordinator and the stores for every run of cxxrun in a job. In a Slurm batch script:\n\n"
      "    cxxrun-rendezvous --background\n"
      "    srun cxxrun train.py\n\n"
      "Each step of the job finds it by itself, through a file in ~/.cxxrun/rendezvous (or\n"
      "$CXXRUN_DISCOVERY_DIR). Elsewhere give the agents --rdzv-endpoint HOST:PORT and --rdzv-id ID.\n"
      "Ends with the job script, or by SIGTERM.\n",
      "Prints HOST:PORT on standard output once it listens. Manual: man cxxrun-rendezvous\n"
      "Exit codes: 0 told to end or its parent ended, 100 bad arguments, 111 no port or the system refused.\n",
      {{"",
        {{"--port", "PORT", "where to listen; 0: any [by the Slurm job's number, else 29400]", set(o.port, parse_port)},
         {"--port-range", "FIRST-LAST", "take the ports, also those of the stores, from here only",
          set(o.range, parse_port_range)},
         {"--rdzv-id", "ID", "serve runs of this id alone", set(o.id, parse_text)},
         {"--loopback", "", "listen on 127.0.0.1 only", set(o.loopback, parse_flag)},
         {"--background", "", "return once it listens and the steps can find it", set(o.background, parse_flag)},
         {"--log-level", "debug|info|warn|error", "the least level of its own lines [info]", set_word(o.log_level)},
         kVersion,
         kHelp}}}};
}

}  // namespace cxxrun::launcher
