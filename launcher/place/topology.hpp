// JobTopology: which nodes take part in the job and where they meet, known before any contact. Pure.
//
// It is made once, at start, from Slurm's variables, torchrun-style flags, --standalone or --join. Everything after
// that (joining, generations, ranks) is decided by the coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/discovery.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/place/slurm_env.hpp"
#include "rendezvous/trust/grant.hpp"

namespace cxxrun::launcher {

/// Where agents meet. Ports are tried in order. The handshake carries the run id, so that the coordinator of another
/// run is recognised and skipped.
///
/// Several ports are derived ones: anybody can compute `ports`, but `hidden` only a process that has the secret. The
/// coordinator listens on one port of each list, so that nodes without the secret find it, too.
struct Meeting {
  enum class Host {
    me,        ///< this agent hosts (node index 0, --standalone, is_host=true)
    other,     ///< another agent hosts (node index > 0, is_host=false)
    find_out,  ///< endpoint without node index: the agent that can bind it hosts
  };
  Host host = Host::me;
  std::string address;                     ///< name or literal to connect to; "127.0.0.1" for standalone
  std::vector<std::uint16_t> ports;        ///< tried in this order; {0} = any free port (standalone only)
  bool loopback_only = false;              ///< listen on 127.0.0.1 and ::1 alone (standalone)
  std::vector<std::uint16_t> hidden = {};  ///< tried before `ports`
  bool operator==(Meeting const&) const = default;
};

/// The position of a task if srun started several on a node: each task is an agent with one worker.
struct TaskPlace {
  std::uint32_t process = 0;  ///< SLURM_PROCID
  std::uint32_t local = 0;    ///< SLURM_LOCALID
  std::uint32_t tasks_on_node = 1;
  std::uint32_t node = 0;  ///< SLURM_NODEID
  std::uint32_t nodes = 1;
  bool own_devices = false;  ///< it sees other GPUs than the other tasks of the node
  bool operator==(TaskPlace const&) const = default;
};

/// Everything known about the job at start. A "node" is an agent here: with `task` set, there is one per task.
struct JobTopology {
  enum class Source { standalone, flags, slurm, join };
  Source source = Source::standalone;
  std::string run_id;  ///< shared by all agents of the job; part of every handshake
  std::string step;    ///< "<job>.<step>" if several agents of a Slurm step are one job, else empty
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> expected_nodes;  ///< nodes of the Slurm step, which join by themselves
  std::optional<std::uint32_t> node_index;      ///< position in the step or --node-rank; orders group ranks
  std::optional<TaskPlace> task;                ///< set: one agent per task, with one worker each
  std::string host;                             ///< this node's name in Slurm, else empty
  std::vector<std::string> node_names;          ///< of the step, in Slurm's order; else empty
  std::optional<Discovery> discovered;          ///< a coordinator of the job; if it does not answer, `meeting` is tried
  Meeting meeting;
  std::string meeting_file;          ///< discovery file for the port of a coordinator that got no derived one
  std::string announce_as;           ///< discovery file to write if this agent hosts; empty: none
  std::string master_addr;           ///< MASTER_ADDR to announce; empty: the address by which this node is reached
  std::uint16_t master_port = 0;     ///< port of the store (--master-port); 0: any free port
  std::vector<std::string> notes;    ///< warnings for the user
  std::vector<std::string> remarks;  ///< informational lines, logged once for the job
  bool operator==(JobTopology const&) const = default;
};

struct Options;

/// Decides from flags and Slurm's variables which nodes meet where; docs/use/torchrun.md has the rules. `random_id` is
/// the run id of --standalone. `discovery`: the file of the step's own job, or of the job to --join. Errc::usage or
/// Errc::environment, in one line that says what to type instead.
[[nodiscard]] Result<JobTopology> make_topology(Options const& options, Environment const& environment,
                                                std::string const& random_id,
                                                std::optional<Discovery> const& discovery = {},
                                                Whereabouts const& here = {});

// ---- the names of runs, which keys are bound to: they distinguish the keys of one job, step or run from all others

struct RunNamesOf {
  rendezvous::RunNames looks_for;  ///< names that an agent accepts in a coordinator's key
  rendezvous::RunNames opens;      ///< names of the run if the agent coordinates it itself
};

/// A Slurm step is named after the step and its cluster, whatever --rdzv-id says; a run described by flags after its
/// id. An agent that may find cxxrun-rendezvous also looks for the name of the job and, at a given port, for any run
/// there.
[[nodiscard]] RunNamesOf run_names(JobTopology const& topology, Options const& options, Environment const& environment);

/// The name of a run with this --rdzv-id.
[[nodiscard]] std::string name_of_run(std::string const& id);
/// The name for all steps of this run of the Slurm job; "" outside a job.
[[nodiscard]] std::string name_of_job(Environment const& environment);
/// The name for any run that cxxrun-rendezvous serves at that port.
[[nodiscard]] std::string name_of_port(std::uint16_t port);

}  // namespace cxxrun::launcher
