#include "launcher/plan/worker_plan.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/facts/interpreter.hpp"
#include "launcher/facts/outer_launcher.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/logs/log_names.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"

namespace cxxrun::launcher {

namespace {

// ---- SLURM_* of a worker -------------------------------------------------------------------------------------------

std::optional<std::string> unless_empty(std::string const& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::optional<std::string> tasks_of_each_node(rendezvous::Generation const& generation) {
  bool const known = !generation.local_sizes.empty();
  bool const alike = generation.local_sizes.find(',') == std::string::npos;
  return known && alike ? std::optional<std::string>(std::to_string(generation.local_size)) : std::nullopt;
}

std::string ranks_of_this_node(rendezvous::Generation const& generation) {
  std::string ranks;
  for (std::uint32_t i = 0; i < generation.local_size; ++i) {
    ranks += (i == 0 ? "" : ",") + std::to_string(generation.rank_base + i);
  }
  return ranks;
}

/// The variables that srun and mpirun only set for a task, and do not read.
EnvironmentChanges task_variables(rendezvous::Generation const& generation, std::uint32_t index,
                                  Environment const& inherited) {
  EnvironmentChanges changes{{"SLURM_PROCID", std::to_string(generation.rank_base + index)},
                             {"SLURM_LOCALID", std::to_string(index)},
                             {"SLURM_NODEID", std::to_string(generation.group_rank)},
                             {"SLURM_GTIDS", ranks_of_this_node(generation)}};
  if (inherited.contains("SLURM_STEP_ID")) {  // a batch script is not in a step
    changes["SLURM_STEP_NUM_TASKS"] = std::to_string(generation.world_size);
    changes["SLURM_STEP_NUM_NODES"] = std::to_string(generation.group_size);
    changes["SLURM_STEP_TASKS_PER_NODE"] = unless_empty(generation.local_sizes);
    changes["SLURM_STEP_NODELIST"] = unless_empty(generation.hosts);
  }
  return changes;
}

/// Adds the variables that srun reads as options (INPUT ENVIRONMENT VARIABLES in srun(1) of Slurm 26.05), that sbatch
/// passes to the srun of its script, and that mpirun takes as the size of the job. Only for SlurmEnv::all: with these
/// variables an srun inside a worker starts as many tasks as the job has workers.
void add_srun_options(rendezvous::Generation const& generation, Environment const& inherited,
                      EnvironmentChanges& changes) {
  changes["SLURM_NTASKS"] = changes["SLURM_NPROCS"] = std::to_string(generation.world_size);
  changes["SLURM_NNODES"] = std::to_string(generation.group_size);
  changes["SLURM_NTASKS_PER_NODE"] = tasks_of_each_node(generation);
  changes["SLURM_TASKS_PER_NODE"] = unless_empty(generation.local_sizes);
  auto const cpus = parse_unsigned(value_of(inherited, "SLURM_CPUS_PER_TASK"), 1, UINT32_MAX);
  if (cpus && generation.local_size > 1) {
    changes["SLURM_CPUS_PER_TASK"] = std::to_string(std::max<std::uint64_t>(1, *cpus / generation.local_size));
    changes["SLURM_TRES_PER_TASK"] = std::nullopt;  // has the same number since 23.11; srun refuses to find both
  }
}

EnvironmentChanges without_slurm(Environment const& inherited) {
  EnvironmentChanges changes;
  for (auto const& [name, value] : inherited) {
    if (name.starts_with("SLURM_") || name.starts_with("SLURMD_")) {
      changes[name] = std::nullopt;
    }
  }
  return changes;
}

// ---- the plan ------------------------------------------------------------------------------------------------------

constexpr int kStdout = 1;
constexpr int kStderr = 2;
constexpr std::uint32_t kWorthFolding = 8;  // workers on the node from which equal lines are folded

std::vector<std::string> command(Options const& options, std::uint32_t local_rank, Environment const& inherited) {
  std::vector<std::string> argv;
  if (runs_python(options)) {
    argv = {python_of(inherited), "-u"};
  }
  if (options.module) {
    argv.emplace_back("-m");
  }
  argv.push_back(options.program);
  for (auto const& argument : options.args) {
    argv.push_back(replace_all(argument, "${local_rank}", std::to_string(local_rank)));
  }
  return argv;
}

std::string console_prefix(Options const& options, NodeFacts const& facts, std::uint32_t rank,
                           std::uint32_t local_rank) {
  std::string prefix = options.line_prefix.empty() ? "[${host}:${rank}] " : options.line_prefix;
  prefix = replace_all(prefix, "${local_rank}", std::to_string(local_rank));
  prefix = replace_all(prefix, "${rank}", std::to_string(rank));
  prefix = replace_all(prefix, "${role_name}", options.role);
  prefix = replace_all(prefix, "${hostname}", facts.host);
  return replace_all(prefix, "${host}", facts.host);
}

/// Whether --ranks shows this rank on the console.
bool is_chosen(Options const& options, std::uint32_t rank) {
  return options.ranks.empty() || std::ranges::any_of(options.ranks, [rank](RankRange const& range) {
           return range.first <= rank && rank <= range.last;
         });
}

/// Follows torchrun: a redirected stream goes to its file only, a tee'd stream also to the console. The filter hides
/// local ranks that it does not contain from the console; without files it has no effect. --ranks, which torchrun does
/// not have, hides other ranks in any case.
/// `attempt`: directory of the generation, "" = no files. `index`: the worker's directory in it.
StreamPlan stream(Options const& options, std::uint32_t rank, std::uint32_t local_rank, int bit,
                  std::string const& attempt, std::string const& index) {
  std::string const name = bit == kStdout ? "stdout.log" : "stderr.log";
  if (attempt.empty()) {
    return {"", is_chosen(options, rank)};
  }
  auto const& filter = options.local_ranks_filter;
  bool const shown = (filter.empty() || filter.count(local_rank) > 0) && is_chosen(options, rank);
  bool const tee = (options.tee.of(local_rank) & bit) != 0;
  bool const redirected = (options.redirects.of(local_rank) & bit) != 0;
  StreamPlan plan{tee || redirected ? attempt + "/" + index + "/" + name : "", shown && (tee || !redirected)};
  plan.rotation = options.log_rotate;
  auto const& filters = bit == kStdout ? options.stdout_filters : options.stderr_filters;
  if (plan.console && !filters.empty()) {
    plan.filters = filters;
    plan.filtered = attempt + "/filtered_" + name;
  }
  return plan;
}

void set_defaults(Environment& environment, NodeFacts const& facts) {
  std::size_t threads = std::max(1U, facts.cpus / std::max(1U, facts.workers));
  for (auto const& cpus : facts.cpu_sets) {
    threads = std::min(threads, cpus.size());
  }
  environment.emplace("OMP_NUM_THREADS", std::to_string(threads));
  environment.emplace("PYTHONFAULTHANDLER", "1");  // Python prints a traceback when a signal ends it
  environment.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  environment.emplace("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  if (auto address = ras_address(facts, environment); !address.empty()) {
    environment.emplace("NCCL_RAS_ADDR", std::move(address));
  }
}

/// Erases the variable without a value, because it may be inherited from an outer cxxrun.
void set_or_erase(Environment& environment, std::string const& name, std::string const& value) {
  if (value.empty()) {
    environment.erase(name);
  } else {
    environment[name] = value;
  }
}

/// Puts `bootstrap` in front of PYTHONPATH. An entry of an outer cxxrun stays; it has no effect behind ours.
void lead_python_path(Environment& environment, std::string const& bootstrap) {
  auto const before = value_of(environment, "PYTHONPATH");
  if (!bootstrap.empty() && before != bootstrap && !before.starts_with(bootstrap + ':')) {
    environment["PYTHONPATH"] = before.empty() ? bootstrap : bootstrap + ':' + before;
  }
}

/// The names that composer, accelerate, Lightning and DeepSpeed look for besides torchrun's.
void set_place_among_nodes(Environment& environment) {
  environment["NODE_RANK"] = environment["CROSS_RANK"] = environment["GROUP_RANK"];
  environment["CROSS_SIZE"] = environment["GROUP_WORLD_SIZE"];
  environment["LOCAL_SIZE"] = environment["LOCAL_WORLD_SIZE"];
}

void set_shared(Environment& environment, rendezvous::Generation const& generation, Options const& options,
                NodeFacts const& facts) {
  set_or_erase(environment, variables::kJobStep, job_step(environment));
  environment["WORLD_SIZE"] = std::to_string(generation.world_size);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(generation.local_size);
  environment["GROUP_RANK"] = std::to_string(generation.group_rank);
  environment["GROUP_WORLD_SIZE"] = std::to_string(generation.group_size);
  environment["ROLE_NAME"] = options.role;
  environment["ROLE_WORLD_SIZE"] = std::to_string(generation.role_size);
  environment["MASTER_ADDR"] = generation.master_addr;
  environment["MASTER_PORT"] = std::to_string(generation.master_port);
  environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(generation.restarts);
  environment["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(generation.max_restarts);
  environment["TORCHELASTIC_RUN_ID"] = facts.run_id;
  for (int const signal : options.stop_signals) {
    environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] += "," + signal_name(signal);
  }
  environment["TORCHELASTIC_USE_AGENT_STORE"] = options.terms.agent_store ? "True" : "False";
  environment[variables::kGeneration] = std::to_string(generation.number);
  environment[variables::kHost] = facts.host;
  environment[variables::kRunId] = facts.run_id;
  environment[variables::kStoreAddr] = generation.master_addr;
  environment[variables::kStorePort] = std::to_string(generation.store_port);
  set_or_erase(environment, variables::kSegment, facts.segment);
  set_or_erase(environment, variables::kAgent, facts.agent_socket);
  set_or_erase(environment, variables::kProver, facts.prover);
  auto const hang_timeout = seconds_text(options.terms.hang_timeout);  // "60 s": the variable has only the number
  set_or_erase(environment, variables::kHangTimeout,
               options.terms.hang_timeout > Millis{0} ? hang_timeout.substr(0, hang_timeout.find(' ')) : "");
}

/// Whether LOCAL_RANK counts across the tasks of the node. It does when every task sees all devices of the node. A task
/// that sees only its own devices is a node of its own, as in the generation.
bool counts_tasks(NodeFacts const& facts) {
  return facts.task && !facts.task->own_devices;
}

std::uint32_t first_local_rank(NodeFacts const& facts) {
  return counts_tasks(facts) ? facts.task->local : 0;
}

void set_place_among_tasks(Environment& environment, TaskPlace const& task) {
  environment["LOCAL_WORLD_SIZE"] = std::to_string(task.tasks_on_node);
  environment["GROUP_RANK"] = std::to_string(task.node);
  environment["GROUP_WORLD_SIZE"] = std::to_string(task.nodes);
}

void apply_changes(EnvironmentChanges const& changes, Environment& environment) {
  for (auto const& [name, value] : changes) {
    if (value) {
      environment[name] = *value;
    } else {
      environment.erase(name);
    }
  }
}

std::string last_line(std::string const& text) {
  std::string last;
  for (auto const& line : split(text, '\n')) {
    if (!trim(line).empty()) {
      last = trim(line);
    }
  }
  return printable(last);
}

}  // namespace

Result<void> check_devices(Options const& options, NodeFacts const& facts, Environment const& inherited) {
  auto const needed = first_local_rank(facts) + facts.workers;
  if (!options.virtual_local_rank || needed == 0 || device_of(inherited, needed - 1)) {
    return {};
  }
  return fail(Errc::environment, "--virtual-local-rank: " + visible_list(inherited) + " has no device for local rank " +
                                     std::to_string(needed - 1) +
                                     "; give --nproc-per-node, at most the number of devices");
}

Result<std::string> check_program_source(Options const& options, Environment const& inherited, bool null_input,
                                         bool several) {
  auto const argv = command(options, 0, inherited);
  if (null_input || !runs_what_it_reads(argv)) {
    return std::string();
  }
  auto const name = printable(argv.front());
  if (options.stdin_mode == StdinMode::null) {
    return fail(Errc::usage, name +
                                 " would read what to run from standard input, and workers have none: put the program "
                                 "into a file; --stdin rank0 gives standard input to rank 0 alone");
  }
  return several
             ? name +
                   " reads what to run from standard input, in rank 0 alone, the other workers run nothing: put the "
                   "program into a file"
             : std::string();
}

std::string log_place(NodeFacts const& facts) {
  constexpr std::size_t kRoom = 28;  // for the host, so that cutting the log directory's name keeps the task's number
  return facts.task ? facts.host.substr(0, kRoom) + "_task" + std::to_string(facts.task->process) : facts.host;
}

std::vector<std::string> resume_environment(WorkerSpec const& spec) {
  static constexpr std::array<std::string_view, 11> kOurs{"RANK=",   "WORLD_SIZE=",   "LOCAL_", "GROUP_",
                                                          "ROLE_",   "NODE_RANK=",    "CROSS_", "MASTER_",
                                                          "CXXRUN_", "TORCHELASTIC_", "SLURM_"};
  auto words = spec.environment;
  std::ranges::stable_partition(words, [](std::string const& word) {
    return std::ranges::any_of(kOurs, [&](std::string_view start) { return word.starts_with(start); });
  });
  return words;
}

std::string ras_address(NodeFacts const& facts, Environment const& inherited) {
  return value_of(inherited, "NCCL_RAS_ENABLE") == "0" ? ""
                                                       : find_value(inherited, "NCCL_RAS_ADDR").value_or(facts.ras);
}

std::string python_of(Environment const& environment) {
  auto chosen = value_of(environment, "PYTHON_EXEC");
  return chosen.empty() ? "python3" : chosen;
}

bool runs_python(Options const& options) {
  return options.module || options.run_path || (!options.no_python && options.program.ends_with(".py"));
}

EnvironmentChanges slurm_changes(SlurmEnv mode, rendezvous::Generation const& generation, std::uint32_t index,
                                 bool one_per_task, Environment const& inherited) {
  EnvironmentChanges changes;
  if (mode == SlurmEnv::clear) {
    changes = without_slurm(inherited);
  } else if (mode != SlurmEnv::keep && !one_per_task && inherited.contains("SLURM_PROCID")) {
    changes = task_variables(generation, index, inherited);
    if (mode == SlurmEnv::all) {
      add_srun_options(generation, inherited, changes);
    }
  }
  EnvironmentChanges originals;
  for (auto const& [name, value] : changes) {
    if (auto const original = inherited.find(name); original != inherited.end()) {
      originals.emplace("CXXRUN_" + name, original->second);
    }
  }
  changes.merge(originals);
  return changes;
}

std::vector<WorkerSpec> plan_workers(rendezvous::Generation const& generation, Options const& options,
                                     NodeFacts const& facts, Environment const& inherited) {
  bool const alone = generation.local_size == 1;
  Environment environment = alone ? inherited : without_mpi_identity(inherited);
  set_defaults(environment, facts);
  lead_python_path(environment, facts.bootstrap);
  set_shared(environment, generation, options, facts);
  if (counts_tasks(facts)) {
    set_place_among_tasks(environment, *facts.task);
  }
  set_place_among_nodes(environment);
  auto const mig = mig_devices(inherited);
  std::uint32_t const first = first_local_rank(facts);
  std::string const attempt = facts.log_root.empty() ? "" : attempt_dir(facts.log_root, generation.number);
  std::vector<WorkerSpec> workers;
  for (std::uint32_t index = 0; index < generation.local_size; ++index) {
    std::uint32_t const local_rank = first + index;
    WorkerSpec worker;
    worker.rank = generation.rank_base + index;
    worker.local_rank = index;
    worker.argv = command(options, local_rank, inherited);
    worker.own_python = runs_python(options);
    worker.script = worker.own_python && !options.module ? options.program : "";
    worker.prefix = console_prefix(options, facts, worker.rank, local_rank);
    worker.out = stream(options, worker.rank, local_rank, kStdout, attempt, std::to_string(index));
    worker.err = stream(options, worker.rank, local_rank, kStderr, attempt, std::to_string(index));
    worker.error_file = attempt.empty() ? "" : worker_error_file(facts.log_root, generation.number, index);
    worker.log = facts.keeps_logs ? worker.err.file : "";
    worker.cpus = index < facts.cpu_sets.size() ? facts.cpu_sets[index] : CpuSet{};
    worker.inherit_stdin = options.stdin_mode == StdinMode::rank0 && worker.rank == 0;
    worker.out.fold = worker.err.fold =  // never for an interactive worker: its lines must not wait
        options.fold_lines && generation.local_size >= kWorthFolding && !worker.inherit_stdin;
    apply_changes(slurm_changes(options.slurm_env, generation, index, facts.task.has_value(), inherited), environment);
    environment["RANK"] = std::to_string(worker.rank);
    bool const sees_one = options.virtual_local_rank || mig;
    environment["LOCAL_RANK"] = std::to_string(sees_one ? 0 : local_rank);
    if (sees_one && options.slurm_env != SlurmEnv::keep && environment.contains("SLURM_LOCALID")) {
      environment["SLURM_LOCALID"] = "0";  // ignite refuses a value that differs from LOCAL_RANK
    }
    if (auto const device = device_of(inherited, mig ? local_rank % *mig : local_rank); sees_one && device) {
      environment[device->variable] = device->value;
    }
    worker.gpu = gpu_of(environment);
    environment["ROLE_RANK"] = std::to_string(generation.role_base + index);
    environment["TORCHELASTIC_ERROR_FILE"] = worker.error_file;
    environment.erase("CXXRUN_IMPORTS");
    if (index == 0 && !options.warm.empty() && !attempt.empty()) {
      environment["CXXRUN_IMPORTS"] = imports_file(worker.error_file);
    }
    worker.environment = as_words(environment);
    worker.keep = alone ? facts.mpi_descriptors : std::vector<int>();
    workers.push_back(std::move(worker));
  }
  return workers;
}

WorkerSpec plan_zygote(Options const& options, NodeFacts const& facts, Environment const& inherited) {
  Environment environment = without_mpi_identity(inherited);  // importing a module may call MPI_Init, which uses it up
  set_defaults(environment, facts);
  lead_python_path(environment, facts.bootstrap);
  WorkerSpec zygote;
  zygote.argv = command(options, first_local_rank(facts), inherited);
  zygote.environment = as_words(environment);
  zygote.prefix = "[" + facts.host + ":warm] ";
  return zygote;
}

std::uint64_t descriptors_needed(std::uint32_t workers, std::uint32_t agents) {
  constexpr std::uint64_t kOwn = 48;
  constexpr std::uint64_t kOfWorker = 8;  // two pipes, each with two files; a connection, a page
  constexpr std::uint64_t kOfAgent = 2;   // two connections, one of them for beats
  return kOwn + kOfWorker * workers + kOfAgent * agents;
}

WorkerSpec plan_check(rendezvous::Generation const& generation, Options const& options, NodeFacts const& facts,
                      Environment const& inherited) {
  Environment environment = without_mpi_identity(inherited);
  environment[variables::kGeneration] = std::to_string(generation.number);
  environment[variables::kHost] = facts.host;
  environment[variables::kRunId] = facts.run_id;
  set_or_erase(environment, variables::kJobStep, job_step(inherited));
  environment["LOCAL_WORLD_SIZE"] = std::to_string(generation.local_size);
  WorkerSpec check;
  check.argv = {"/bin/sh", "-c", options.health_check};
  check.environment = as_words(environment);
  check.prefix = "[" + facts.host + ":health] ";
  check.out = StreamPlan{"", false};
  check.err.file = facts.log_root.empty() ? "" : attempt_dir(facts.log_root, generation.number) + "/health.log";
  check.out_is_err = true;
  return check;
}

std::string explain_check(std::vector<rendezvous::WorkerExit> const& exits, std::vector<std::string> const& unkillable,
                          std::optional<Millis> limit) {
  if (!unkillable.empty()) {
    return "health check: survives SIGKILL: " + unkillable.front();
  }
  if (exits.empty()) {
    return "health check: its end is unknown";
  }
  auto const& exit = exits.front();
  if (!limit && exit.status.ok()) {
    return {};
  }
  std::string why = "health check: ";
  why += limit ? "still ran after " + seconds_text(*limit) : exit.status.describe();
  auto const line = last_line(exit.stderr_tail);
  return line.empty() ? why : why + ": " + line;
}

}  // namespace cxxrun::launcher
