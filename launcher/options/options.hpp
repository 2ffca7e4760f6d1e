// Options of cxxrun, as set by defaults, PET_* variables and the command line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/facts/deadlines.hpp"
#include "launcher/facts/discovery.hpp"
#include "launcher/logs/rotation.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/endpoint.hpp"

namespace cxxrun::launcher {

/// --nproc-per-node: a number, or a word that is resolved on the node.
enum class ProcWord { automatic, gpu, xpu, cpu, by_default };
using NprocPerNode = std::variant<std::uint32_t, ProcWord>;

/// --nnodes N or MIN:MAX.
struct NodeRange {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  bool operator==(NodeRange const&) const = default;
};

/// -r/-t: bits 1 = stdout, 2 = stderr, for all local ranks or for each listed one (others: 0).
struct StreamChoice {
  int all = 0;
  std::map<std::uint32_t, int> per_rank;
  [[nodiscard]] int of(std::uint32_t local_rank) const {
    if (per_rank.empty()) {
      return all;
    }
    auto const it = per_rank.find(local_rank);
    return it == per_rank.end() ? 0 : it->second;
  }
  bool operator==(StreamChoice const&) const = default;
};

/// --ranks: FIRST-LAST, inclusive.
struct RankRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool operator==(RankRange const&) const = default;
};

/// --auth: how the agents of a job authenticate each other. docs/use/security.md
enum class Auth { automatic, munge, file, none };

enum class StdinMode { null, rank0 };

/// --slurm-env: the SLURM_* of workers. per_worker: each worker's own numbers, except in variables that srun and sbatch
/// read as options. all: in those, too. keep: as in the task. clear: none.
enum class SlurmEnv { per_worker, all, keep, clear };

/// --quorum: whether a side of a network cut needs a majority to continue. docs/design/election.md
enum class Quorum { majority, none };

/// How workers are bound to CPUs: --cpu-bind (none, share) or --numa-binding (the others). docs/use/binding.md
enum class CpuMode { none, share, node, socket, exclusive, core_complex };

struct Options {  // NOLINT(clang-analyzer-optin.performance.Padding): one per process, grouped by meaning
  // topology
  std::optional<NodeRange> nnodes;  ///< unset: Slurm's nodes, else 1
  NprocPerNode nproc = ProcWord::by_default;
  std::string rdzv_backend;  ///< static or c10d; "" = not given
  std::optional<Endpoint> rdzv_endpoint;
  std::optional<std::string> rdzv_id;
  std::map<std::string, std::string> rdzv_conf;
  std::optional<JoinTarget> join;
  std::optional<bool> is_host;  ///< rdzv_conf is_host: overrides all rules about which node hosts
  bool standalone = false;
  std::optional<std::uint32_t> node_rank;
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  std::string local_addr;
  Auth auth = Auth::automatic;
  CpuMode numa_binding = CpuMode::none;
  std::optional<CpuMode> cpu_bind;  ///< unset: share under Slurm, else none
  rendezvous::Terms terms;          ///< as far as set by options; terms_of() adds the rest
  // supervision
  Millis shutdown_timeout{30'000};
  Millis restart_timeout{5'000};
  Millis kill_timeout{60'000};
  Quorum quorum = Quorum::majority;
  std::string fence_dir;              ///< "" = none: of two halves the one with group rank 0 continues
  std::optional<Millis> join_window;  ///< --join-window, else rdzv_conf last_call_timeout
  std::string health_check;           ///< command for /bin/sh -c; "" = none
  Millis health_check_timeout{60'000};
  std::optional<CheckpointSignal> checkpoint_signal;
  std::set<int> stop_signals;  ///< besides TERM, INT, HUP and QUIT
  Millis time_limit{0};        ///< 0 = none
  bool requeue = false;
  std::uint32_t max_requeues = 3;  ///< in a row without progress
  std::string progress_path;
  std::string role = "default";
  StdinMode stdin_mode = StdinMode::null;
  SlurmEnv slurm_env = SlurmEnv::per_worker;
  bool watch = true;  ///< make Python workers report their collectives
  // logs
  std::string log_dir;  ///< "" = temporary, removed at the end; "/dev/null" = no files at all
  Rotation log_rotate;
  StreamChoice redirects;
  StreamChoice tee;
  std::set<std::uint32_t> local_ranks_filter;  ///< empty = all
  std::vector<RankRange> ranks;                ///< global ranks shown on the console; empty = all
  bool fold_lines = true;                      ///< show equal lines of many workers once
  std::string line_prefix;                     ///< "" = "[${host}:${rank}] "
  std::vector<std::string> stdout_filters;     ///< console lines with one of these words also go to filtered_stdout.log
  std::vector<std::string> stderr_filters;
  std::string log_level = "info";
  // program
  bool virtual_local_rank = false;
  std::string warm;  ///< modules, comma-separated; "" = workers are executed
  bool module = false;
  bool no_python = false;
  bool run_path = false;  ///< program is a Python script, whatever its name; excludes `module` and `no_python`
  std::string program;
  std::vector<std::string> args;
  // modes and remarks
  bool dry_run = false;
  bool doctor = false;
  bool init = false;               ///< print a job script
  bool json = false;               ///< with `doctor`
  std::string print_completion;    ///< a shell's name: print its completion, and end
  std::vector<std::string> notes;  ///< one line each: options accepted without effect, deprecated spellings
  bool operator==(Options const&) const = default;
};

}  // namespace cxxrun::launcher
