// WorkerSpec: everything needed to start one worker, or the health check of a node before a generation. Generation +
// Options → WorkerSpec[], pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/cpu_cores.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/topology.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// Where one stream (stdout or stderr) of one worker goes. Both false: discarded.
struct StreamPlan {
  std::string file;                       ///< path to append to; "" = no file
  bool console = true;                    ///< whole lines, prefixed, to cxxrun's own stdout or stderr
  std::vector<std::string> filters = {};  ///< a line on the console with one of these in it ...
  std::string filtered = {};              ///< ... is also appended here, prefixed
  Rotation rotation = {};                 ///< of `file`
  bool fold = false;                      ///< a line on the console waits for equal ones of other workers
  bool operator==(StreamPlan const&) const = default;
};

struct WorkerSpec {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;   ///< within this agent; LOCAL_RANK may count all tasks of the node
  std::vector<std::string> argv;  ///< argv[0] is searched in PATH when it has no slash
  std::string script;       ///< file that argv[0], an interpreter, is to run: looked for before the start; "" = none
  bool own_python = false;  ///< argv[0] is the Python that cxxrun has put before the program
  std::vector<std::string> environment;  ///< complete, "K=V", sorted
  std::string prefix;                    ///< console prefix, for example "[node1:3] "
  StreamPlan out;
  StreamPlan err;
  std::string error_file;      ///< TORCHELASTIC_ERROR_FILE; "" = none
  std::string log;             ///< where its stderr can be read afterwards; "" = nowhere
  bool inherit_stdin = false;  ///< --stdin=rank0
  CpuSet cpus;                 ///< CPUs it may run on; empty = those of cxxrun
  bool out_is_err = false;     ///< stdout is the stream that `err` describes; `out` counts for nothing
  std::vector<int> keep = {};  ///< descriptors above 2 that it gets
};

/// What the plan needs to know about this node. Sockets, ports and CPUs are filled in as they become known.
struct NodeFacts {
  std::string host;           ///< short name for prefixes and reports
  std::uint32_t cpus = 1;     ///< CPUs for its workers: cpus_of_task()
  std::uint32_t workers = 1;  ///< resolved --nproc-per-node
  std::string log_root;       ///< directory of this agent's logs; "" = no files
  std::string run_id;
  std::optional<TaskPlace> task{};    ///< one worker per task of srun's
  std::vector<CpuSet> cpu_sets = {};  ///< by local rank; empty: workers are not bound
  std::string segment = {};           ///< CXXRUN_SEGMENT of this generation: where shared memory comes from; "" = unset
  std::string agent_socket = {};      ///< CXXRUN_AGENT: where workers register; "" = unset
  std::string bootstrap = {};         ///< in front of the workers' PYTHONPATH; "" = nothing is
  std::string prover = {};            ///< CXXRUN_PROVER: where they ask for proofs; "" = unset, nothing is proven
  std::vector<std::string> loopbacks = {};  ///< how this host reaches itself, the one that the job asks for first
  std::uint16_t standby_port = 0;           ///< where this agent can be called once it has to take over; 0: it cannot
  std::vector<std::string> cpu_warnings = {};  ///< what slows them down
  bool keeps_logs = false;                     ///< the logs stay after the end
  std::vector<int> mpi_descriptors = {};       ///< by which a process manager knows this process; for its first worker
};

/// Whether each worker can have a device of its own, if it is to have one. Errc::environment, in one line.
[[nodiscard]] Result<void> check_devices(Options const& options, NodeFacts const& facts, Environment const& inherited);

/// Whether workers are given the program that their interpreter would read from standard input: a line when one of
/// `several` is, "" otherwise. `null_input`: cxxrun's is the null device, and nothing is lost. Errc::usage, in one
/// line.
[[nodiscard]] Result<std::string> check_program_source(Options const& options, Environment const& inherited,
                                                       bool null_input, bool several);

/// What tells this agent's logs from those of other agents of the job: the host and, with several tasks there, which.
[[nodiscard]] std::string log_place(NodeFacts const& facts);

/// What a worker that goes on with this generation is told of its environment: all of it, those variables first that
/// tell who it is. What does not fit into a packet is cut from the end.
[[nodiscard]] std::vector<std::string> resume_environment(WorkerSpec const& spec);

/// PYTHON_EXEC, else python3.
[[nodiscard]] std::string python_of(Environment const& environment);
/// Whether the program is a script or a module that it runs.
[[nodiscard]] bool runs_python(Options const& options);

/// How many descriptors an agent opens until its workers run, at most: of its own, for each of them (pipes, files,
/// connections), and for the other agents where it coordinates `agents` of them.
[[nodiscard]] std::uint64_t descriptors_needed(std::uint32_t workers, std::uint32_t agents);

/// The workers of this agent in one generation, by local rank.
[[nodiscard]] std::vector<WorkerSpec> plan_workers(rendezvous::Generation const& generation, Options const& options,
                                                   NodeFacts const& facts, Environment const& inherited);

/// The Python that imports for these workers (--warm), as if it were the first of them but without a rank.
[[nodiscard]] WorkerSpec plan_zygote(Options const& options, NodeFacts const& facts, Environment const& inherited);

/// The check of --health-check as a process to start: `/bin/sh -c` with the inherited environment and
/// CXXRUN_GENERATION, CXXRUN_HOST, CXXRUN_RUN_ID, LOCAL_WORLD_SIZE. Both its streams are one, with "[host:health] "
/// before each line, and with log files also in health.log of the generation's directory.
[[nodiscard]] WorkerSpec plan_check(rendezvous::Generation const& generation, Options const& options,
                                    NodeFacts const& facts, Environment const& inherited);

/// Why the node is unfit, in one line with the last line of the check's output; "" when the check passed. `limit` is
/// set when the check was killed because it ran longer.
[[nodiscard]] std::string explain_check(std::vector<rendezvous::WorkerExit> const& exits,
                                        std::vector<std::string> const& unkillable, std::optional<Millis> limit);

}  // namespace cxxrun::launcher
