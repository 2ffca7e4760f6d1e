// WorkerSpec: everything needed to start one worker, or the health check that runs on a node before a generation.
// plan_workers() makes the specs from the generation and the options. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/cpu_plan.hpp"
#include "launcher/place/topology.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// Where one stream (stdout or stderr) of one worker goes. Without file and console it is discarded.
struct StreamPlan {
  std::string file;                       ///< path to append to; "" = no file
  bool console = true;                    ///< whole lines, prefixed, go to cxxrun's own stdout or stderr
  std::vector<std::string> filters = {};  ///< console lines that contain one of these ...
  std::string filtered = {};              ///< ... are also appended to this file, prefixed
  Rotation rotation = {};                 ///< of `file`
  bool fold = false;                      ///< a console line waits for equal lines of other workers
  bool operator==(StreamPlan const&) const = default;
};

struct WorkerSpec {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;   ///< within this agent; LOCAL_RANK may count across all tasks of the node
  std::vector<std::string> argv;  ///< argv[0] is searched in PATH when it has no slash
  std::string script;             ///< the file that argv[0], an interpreter, runs; checked before the start; "" = none
  bool own_python = false;        ///< cxxrun has put argv[0], Python, before the user's program
  std::vector<std::string> environment;  ///< complete, "K=V", sorted
  std::string prefix;                    ///< console prefix, for example "[node1:3] "
  StreamPlan out;
  StreamPlan err;
  std::string error_file;      ///< TORCHELASTIC_ERROR_FILE; "" = none
  std::string log;             ///< file with its stderr that stays after the end; "" = none
  bool inherit_stdin = false;  ///< its standard input is cxxrun's (--stdin=rank0)
  CpuSet cpus;                 ///< CPUs it may run on; empty = those of cxxrun
  bool out_is_err = false;     ///< stdout is the same stream as stderr; `out` is not used
  std::vector<int> keep = {};  ///< descriptors above 2 that it inherits
  std::string gpu = {};        ///< gpu_of() its environment
};

/// What the plan needs to know about this node. Sockets, ports and CPUs are filled in as they become known.
struct NodeFacts {
  std::string host;           ///< short name for prefixes and reports
  std::uint32_t cpus = 1;     ///< CPUs for its workers: cpus_of_task()
  std::uint32_t workers = 1;  ///< resolved --nproc-per-node
  std::string log_root;       ///< directory of this agent's logs; "" = no files
  std::string run_id;
  std::optional<TaskPlace> task{};          ///< set when srun starts one task per worker
  std::vector<CpuSet> cpu_sets = {};        ///< by local rank; empty: workers are not bound
  std::string segment = {};                 ///< CXXRUN_SEGMENT: socket of this generation's shared memory; "" = unset
  std::string agent_socket = {};            ///< CXXRUN_AGENT: socket where workers register; "" = unset
  std::string bootstrap = {};               ///< goes in front of the workers' PYTHONPATH; "" = nothing does
  std::string prover = {};                  ///< CXXRUN_PROVER: socket that gives proofs; "" = unset, no proofs
  std::vector<std::string> loopbacks = {};  ///< addresses by which this host reaches itself, the job's choice first
  std::uint16_t standby_port = 0;           ///< port where others call this agent when it takes over; 0 = none
  std::vector<std::string> cpu_warnings = {};  ///< reasons why the workers' CPUs are slow
  bool keeps_logs = false;                     ///< the logs stay after the end
  std::vector<int> mpi_descriptors = {};       ///< connections to MPI's process manager, for a node's only worker
  std::string ras = {};  ///< address for NCCL's RAS service; "" = none, a node without NVIDIA GPUs
};

/// Checks that each worker gets a device of its own, if that was asked for. Errors: environment, in one line.
[[nodiscard]] Result<void> check_devices(Options const& options, NodeFacts const& facts, Environment const& inherited);

/// Checks whether the workers' interpreter reads its program from standard input, which only rank 0 can have. Returns a
/// warning when only one of `several` workers gets the program, else "". `null_input`: cxxrun's standard input is the
/// null device, so no program is lost. Errors: usage, in one line, when no worker gets it.
[[nodiscard]] Result<std::string> check_program_source(Options const& options, Environment const& inherited,
                                                       bool null_input, bool several);

/// Distinguishes this agent's logs from those of the job's other agents: the host and, with several tasks on it, the
/// task.
[[nodiscard]] std::string log_place(NodeFacts const& facts);

/// The environment that a resumed worker is told: all of it, with the variables first that identify the worker, because
/// a packet that is too long is cut at the end.
[[nodiscard]] std::vector<std::string> resume_environment(WorkerSpec const& spec);

/// Where the workers' NCCL answers questions about itself (RAS): the NCCL_RAS_ADDR of the user, else that of this node.
/// "": nowhere, or NCCL_RAS_ENABLE=0.
[[nodiscard]] std::string ras_address(NodeFacts const& facts, Environment const& inherited);

/// PYTHON_EXEC, else python3.
[[nodiscard]] std::string python_of(Environment const& environment);
/// Whether cxxrun runs the program with Python: a script or a module.
[[nodiscard]] bool runs_python(Options const& options);

/// The most descriptors that an agent opens until its workers run: its own, those of each worker (pipes, files,
/// connections), and those for other agents if it coordinates `agents` of them.
[[nodiscard]] std::uint64_t descriptors_needed(std::uint32_t workers, std::uint32_t agents);

/// Variables to set, or to remove when they have no value.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

/// The changes for worker `index` (local rank) of this agent; docs/use/environment.md has the table. The old value of
/// each inherited variable that is replaced or removed is kept under its name with the prefix CXXRUN_. `one_per_task`:
/// srun has started a task for each worker, so the variables are right already. Outside Slurm nothing changes.
[[nodiscard]] EnvironmentChanges slurm_changes(SlurmEnv mode, rendezvous::Generation const& generation,
                                               std::uint32_t index, bool one_per_task, Environment const& inherited);

/// The workers of this agent in one generation, by local rank.
[[nodiscard]] std::vector<WorkerSpec> plan_workers(rendezvous::Generation const& generation, Options const& options,
                                                   NodeFacts const& facts, Environment const& inherited);

/// The warm Python for these workers (--warm). It is planned like the first worker, but has no rank.
[[nodiscard]] WorkerSpec plan_zygote(Options const& options, NodeFacts const& facts, Environment const& inherited);

/// The check of --health-check as a process: `/bin/sh -c` with the inherited environment and CXXRUN_GENERATION,
/// CXXRUN_HOST, CXXRUN_RUN_ID, LOCAL_WORLD_SIZE. Its two streams are one. Its lines are prefixed with "[host:health] "
/// and, with log files, also go to health.log in the generation's directory.
[[nodiscard]] WorkerSpec plan_check(rendezvous::Generation const& generation, Options const& options,
                                    NodeFacts const& facts, Environment const& inherited);

/// Why the node is unfit, in one line with the last line of the check's output; "" when the check has passed. `limit`:
/// set when the check ran longer and was killed.
[[nodiscard]] std::string explain_check(std::vector<rendezvous::WorkerExit> const& exits,
                                        std::vector<std::string> const& unkillable, std::optional<Millis> limit);

}  // namespace cxxrun::launcher
