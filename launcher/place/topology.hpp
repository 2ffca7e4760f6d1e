// JobTopology: who takes part in the job and where its coordinator is, before anybody has been contacted.
//
// Made once, at start, by a pure function from Slurm's variables, from torchrun-style flags, or for
// --standalone. Everything after it (joining, generations, ranks) is decided by the coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/discovery.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/place/slurm_env.hpp"

namespace cxxrun::launcher {

/// Where agents meet. Ports are tried in order; the handshake carries the run id, so a foreign
/// coordinator on one of them is recognised and skipped.
///
/// Several ports are derived: everybody can compute `ports`, and only who has the secret the `hidden` ones. The
/// coordinator listens at one of each, so that nodes without its secret find it, too.
struct Meeting {
  enum class Host {
    me,        ///< this agent hosts (node index 0, --standalone, is_host=true)
    other,     ///< another agent hosts (node index > 0, is_host=false)
    find_out,  ///< explicit endpoint without node index: whoever can bind it hosts
  };
  Host host = Host::me;
  std::string address;                     ///< name or literal to connect to; "127.0.0.1" for standalone
  std::vector<std::uint16_t> ports;        ///< tried in this order; {0} = any free port (standalone only)
  bool loopback_only = false;              ///< listen on 127.0.0.1 and ::1 alone (standalone)
  std::vector<std::uint16_t> hidden = {};  ///< tried before `ports`
  bool operator==(Meeting const&) const = default;
};

/// Where a task stands when srun started several on a node: each is an agent with one worker.
struct TaskPlace {
  std::uint32_t process = 0;  ///< SLURM_PROCID
  std::uint32_t local = 0;    ///< SLURM_LOCALID
  std::uint32_t tasks_on_node = 1;
  std::uint32_t node = 0;  ///< SLURM_NODEID
  std::uint32_t nodes = 1;
  bool own_devices = false;  ///< sees GPUs that the other tasks of the node do not see
  bool operator==(TaskPlace const&) const = default;
};

/// Everything known about the job at start. "Nodes" are agents here: with `task` set, one per task.
struct JobTopology {
  enum class Source { standalone, flags, slurm, join };
  Source source = Source::standalone;
  std::string run_id;  ///< shared by all agents of the job; part of every handshake
  std::string step;    ///< Slurm's job and step, where several agents of it are one job; else empty
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> expected_nodes;  ///< nodes of the Slurm step: who comes without being added by hand
  std::optional<std::uint32_t> node_index;      ///< position in the step or --node-rank; orders group ranks
  std::optional<TaskPlace> task;                ///< set: one agent per task, with one worker each
  std::string host;                             ///< this node's name when Slurm told us, else empty
  std::vector<std::string> node_names;          ///< of the step, in Slurm's order, else empty
  std::optional<Discovery> discovered;  ///< a coordinator of the job; called first, `meeting` if it does not answer
  Meeting meeting;
  std::string meeting_file;          ///< discovery file in which a coordinator tells its port that got no derived one
  std::string announce_as;           ///< discovery file to write when this agent hosts; empty: none
  std::string master_addr;           ///< --master-addr or --local-addr to announce; empty: as reached
  std::uint16_t master_port = 0;     ///< exact port for the store (--master-port); 0: kernel's choice
  std::vector<std::string> notes;    ///< lines worth telling the user ("endpoint names a node of the step")
  std::vector<std::string> remarks;  ///< the same of ordinary things; said once for the job
  bool operator==(JobTopology const&) const = default;
};

struct Options;

/// Decides from flags and Slurm's variables who meets where; docs/use/torchrun.md has the rules. Pure. `random_id`
/// names the job of --standalone. `discovery`: what the file of the step's own job says, or that of the job to --join.
/// `here`: what no variable tells.
/// Errc::usage or Errc::environment, in one line that says what to type instead.
[[nodiscard]] Result<JobTopology> make_topology(Options const& options, Environment const& environment,
                                                std::string const& random_id,
                                                std::optional<Discovery> const& discovery = {},
                                                Whereabouts const& here = {});

}  // namespace cxxrun::launcher
