// The options of the three programs.
#include "launcher/options/parse_options.hpp"

#include <algorithm>
#include <utility>

#include "launcher/options/option_values.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

/// Options of other launchers that have one equivalent in cxxrun.
std::vector<ForeignOption> foreign_options() {
  constexpr char const* kPerNode = "--nproc-per-node N, the workers of one node";
  constexpr char const* kNodes = "--nnodes N";
  constexpr char const* kMeet = "start cxxrun on every node, by srun or with --rdzv-endpoint HOST:PORT";
  constexpr char const* kInherited = "drop it: workers inherit the environment of cxxrun";
  return {
      {"-np -n -ppn --ppn --npernode --map-by", "mpirun", kPerNode},
      {"-H --host --hosts -f --hostfile --machinefile", "mpirun", kMeet},
      {"--bind-to --report-bindings", "mpirun", "--cpu-bind share, or --numa-binding"},
      {"-x -env -genv --env", "mpirun", kInherited},
      {"--oversubscribe --allow-run-as-root", "mpirun", "drop it: nothing forbids that"},
      {"--num-proc", "horovodrun", kPerNode},
      {"--ntasks --ntasks-per-node", "srun", "--nproc-per-node N, or srun --ntasks-per-node N cxxrun program"},
      {"-N --nodes", "srun", "--nnodes N, or srun --nodes N cxxrun program"},
      {"-c --cpus-per-task", "srun", "srun --cpus-per-task N cxxrun program"},
      {"--gpus-per-node --gpus-per-task --gres", "srun", "srun --gpus-per-node N cxxrun program"},
      {"--num-processes", "accelerate launch",
       "--nproc-per-node N, the workers of one node; accelerate counts those of all"},
      {"--num-machines", "accelerate launch", kNodes},
      {"--machine-rank", "accelerate launch", "--node-rank N"},
      {"--main-process-ip", "accelerate launch", "--master-addr HOST"},
      {"--main-process-port", "accelerate launch", "--master-port PORT"},
      {"--gpu-ids", "accelerate launch", "CUDA_VISIBLE_DEVICES=0,1 cxxrun program"},
      {"--multi-gpu --cpu", "accelerate launch", "drop it: the program chooses its device"},
      {"--config-file", "accelerate launch", "options, or PET_* variables; there is no file of them"},
      {"--num-gpus", "deepspeed", kPerNode},
      {"--num-nodes", "deepspeed", kNodes},
      {"--include --exclude", "deepspeed", "CUDA_VISIBLE_DEVICES chooses GPUs, srun --nodelist nodes"},
      {"--gpus --devices", "Lightning", kPerNode},
      {"--nprocs", "torch.multiprocessing.spawn", kPerNode},
      {"--use-env", "torch.distributed.launch", "drop it: LOCAL_RANK is in the environment"},
      {"--rank", "scripts that start themselves", "--node-rank N; each worker finds its RANK in the environment"},
      {"--world-size", "scripts that start themselves",
       "--nnodes N and --nproc-per-node N; WORLD_SIZE is their product"},
      {"--dist-url --init-method", "scripts that start themselves", "--rdzv-endpoint HOST:PORT"},
      {"--trace", "an older cxxrun", "--log-dir DIR, and after the job python -m cxxrun.trace DIR/*/events.jsonl"},
      {"--exit-barrier-timeout", "a newer torchrun", "drop it: nodes end together without a barrier"},
  };
}

using store::StoreAccess;
using Text = std::string const&;
using Words = std::vector<std::string>;

/// Default join timeout of a node that is added: longer than an election takes.
constexpr Millis kLookForJob{30'000};

/// For agents, a shorter silence may just be a busy machine. Workers are checked about once per second.
Result<Millis> parse_second_or_never(Text text) {
  auto timeout = parse_grace(text);
  if (timeout && *timeout != Millis{0} && *timeout < Millis{1000}) {
    return expected("at least 1 second is expected, or 0 for never");
  }
  return timeout;
}

Result<std::string> parse_any(Text text) {
  return text;
}

/// Ignores "", which means "not given", as in torchrun.
Apply unless_empty(Apply apply) {
  return [apply = std::move(apply)](Text text, OptionRow const& row) {
    return text.empty() ? Result<void>() : apply(text, row);
  };
}

/// Also records that the option was given.
Apply and_note(Apply apply, bool& given) {
  return [apply = std::move(apply), &given](Text text, OptionRow const& row) {
    given = true;
    return apply(text, row);
  };
}

Result<PortRange> parse_port_range(std::string_view text) {
  auto const dash = text.find('-');
  auto const first = parse_port(text.substr(0, dash));
  auto const last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return expected("FIRST-LAST is expected, for example 20000-20100");
  }
  return PortRange{*first, *last};
}

/// "1" stands for the option without a value.
Result<std::string> parse_modules(std::string_view text) {
  if (text == "0" || text == "1") {
    return std::string(text == "1" ? "torch" : "");
  }
  constexpr char const* kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  for (auto const& name : split(text, ',')) {
    for (auto const& part : split(name, '.')) {
      if (part.empty() || part.find_first_not_of(kWord) != std::string::npos || (part[0] >= '0' && part[0] <= '9')) {
        return expected("names of Python modules are expected, for example torch,torchvision");
      }
    }
  }
  return std::string(text);
}

Apply set_backend(std::string& backend) {
  return [&backend](Text text, OptionRow const& row) -> Result<void> {
    return text.starts_with("etcd") ? expected("etcd is not supported and not needed; drop the option")
                                    : set_word(backend)(text, row);
  };
}

/// Accepts the option, and notes that it has no effect.
Apply note(Options& o, Apply verify, char const* why) {
  return [&o, verify = std::move(verify), why](Text text, OptionRow const& row) {
    o.notes.push_back(row.name + std::string(" has no effect: ") + why);
    return verify(text, row);
  };
}

std::vector<OptionRow> nodes(Options& o) {
  return {
      {"--nnodes", "N|MIN:MAX", "nodes of the job [the nodes of the Slurm step, else 1]", set(o.nnodes, parse_nnodes)},
      {"--nproc-per-node", "N|auto|gpu|xpu|cpu", "workers per node [visible GPUs, else 1]", set(o.nproc, parse_nproc)},
      {"--standalone", "", "one node, any free port, reachable from this host only", set(o.standalone, parse_flag)},
      {"--rdzv-endpoint", "HOST[:PORT]", "where agents meet; the same on all nodes [port 29400]",
       unless_empty(set(o.rdzv_endpoint, parse_endpoint))},
      {"--rdzv-id", "ID", "name of the job, the same on all nodes [Slurm's, else none]", set(o.rdzv_id, parse_text)},
      ours({"--join", "JOBID[.STEP]", "enter that running job as one more node", set(o.join, parse_join_target)}),
      {"--rdzv-backend", "static|c10d", "accepted; both mean cxxrun's own rendezvous", set_backend(o.rdzv_backend)},
      {"--rdzv-conf", "KEY=VALUE,...", "join_timeout, last_call_timeout, is_host; others have no effect",
       set(o.rdzv_conf, parse_rdzv_conf)},
      {"--node-rank", "N", "position of this node; node 0 hosts the rendezvous", set(o.node_rank, parse_number<65535>)},
      {"--master-addr", "HOST", "MASTER_ADDR; without --rdzv-endpoint also where agents meet",
       set(o.master_addr, parse_host)},
      {"--master-port", "PORT", "MASTER_PORT, exactly [0: any free port]", set(o.master_port, parse_port)},
      {"--local-addr", "HOST", "address of this node as the others reach it",
       unless_empty(set(o.local_addr, parse_host))},
      ours({"--auth", "auto|munge|file|none", "how agents prove that they belong to the job [auto]",
            choose(o.auth, {Auth::automatic, Auth::munge, Auth::file, Auth::none})}),
      ours({"--cpu-bind", "share|none", "divide the node's CPUs among its workers [share under Slurm]",
            choose(o.cpu_bind, {CpuMode::share, CpuMode::none})}),
      {"--numa-binding", "node|socket|exclusive|core-complex", "bind each worker to CPUs near its GPU",
       choose(o.numa_binding, {CpuMode::node, CpuMode::socket, CpuMode::exclusive, CpuMode::core_complex})},
  };
}

std::vector<OptionRow> supervision(Options& o) {
  return {
      {"--max-restarts", "N", "restarts of the whole job after worker failures [3]",
       and_note(set(o.terms.max_restarts, parse_number<1'000'000>), o.terms.max_restarts_given)},
      ours({"--restart-window", "SECONDS", "count restarts within it only [0: the whole job]",
            set(o.terms.restart_window, parse_grace)}),
      ours({"--restart-delay", "SECONDS", "longest wait before a restart, after failures in a row [30]",
            set(o.terms.restart_delay, parse_grace)}),
      {"--shutdown-timeout", "SECONDS", "from SIGTERM to SIGKILL when the job is stopped [30]",
       set(o.shutdown_timeout, parse_grace), "", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
      {"--signals-to-handle", "SIGNAMES", "stop the job, besides SIGTERM, SIGINT, SIGHUP and SIGQUIT",
       set(o.stop_signals, parse_stop_signals)},
      ours({"--restart-timeout", "SECONDS", "from SIGTERM to SIGKILL for the survivors of a failure [5]",
            set(o.restart_timeout, parse_grace)}),
      ours({"--kill-timeout", "SECONDS", "after SIGKILL, until a process counts as unkillable [60]",
            set(o.kill_timeout, parse_grace)}),
      ours({"--health-check", "CMD", "run on each node before a generation; failing excludes the node",
            set(o.health_check, parse_any)}),
      ours({"--health-check-timeout", "SECONDS", "a check that runs longer has failed [60]",
            set(o.health_check_timeout, parse_delay)}),
      ours({"--hang-timeout", "SECONDS", "kill a worker that others wait for in a collective [0: never]",
            set(o.terms.hang_timeout, parse_second_or_never)}),
      ours({"--checkpoint-signal", "SIG@SECONDS", "sent to workers that long before the job's end",
            set(o.checkpoint_signal, parse_checkpoint_signal)}),
      ours({"--time-limit", "TIME", "as for sbatch: ends the job, unless Slurm does so earlier",
            set(o.time_limit, parse_time_limit)}),
      ours({"--requeue", "", "requeue the Slurm job unless its own program ended it", set(o.requeue, parse_flag)}),
      ours({"--max-requeues", "N", "requeues in a row without progress [3]",
            set(o.max_requeues, parse_number<1'000'000>)}),
      ours({"--progress-path", "PATH", "changes when the job makes progress, such as its checkpoints",
            set(o.progress_path, parse_text)}),
      {"--role", "NAME", "ROLE_NAME of this node's workers [default]", set(o.role, parse_text)},
      ours({"--agent-store", "on|off", "off leaves MASTER_PORT free for rank 0 to bind [on]",
            choose(o.terms.agent_store, {true, false})}),
      ours({"--store-access", "user|hosts|any", "who may use the store: the job's user, its nodes, all [user]",
            choose(o.terms.store_access, {StoreAccess::user, StoreAccess::hosts, StoreAccess::any})}),
      ours({"--stdin", "null|rank0", "rank0 gives cxxrun's standard input to rank 0 [null]",
            choose(o.stdin_mode, {StdinMode::null, StdinMode::rank0})}),
      ours({"--slurm-env", "per-worker|all|keep|clear", "SLURM_* of the workers [per-worker]",
            choose(o.slurm_env, {SlurmEnv::per_worker, SlurmEnv::all, SlurmEnv::keep, SlurmEnv::clear})}),
  };
}

std::vector<OptionRow> elastic(Options& o) {
  return {
      ours({"--heartbeat-timeout", "SECONDS", "until a silent node counts as lost; 0: never [5]",
            set(o.terms.heartbeat_timeout, parse_second_or_never)}),
      ours({"--quorum", "majority|none", "none: no vote; after a cut both sides may run [majority]",
            choose(o.quorum, {Quorum::majority, Quorum::none})}),
      ours({"--fence", "DIR", "shared directory; of two halves the first to claim it continues",
            set(o.fence_dir, parse_text)}),
      ours({"--scale-out", "now|at-restart", "when late nodes are let in [now]",
            choose(o.terms.scale_out_now, {true, false})}),
      ours({"--join-window", "SECONDS", "wait for MAX once MIN are there [5; first under Slurm 60]",
            set(o.join_window, parse_grace)}),
  };
}

std::vector<OptionRow> output(Options& o) {
  return {
      {"--log-dir", "DIR", "directory of the workers' files; /dev/null: no files [temporary]",
       set(o.log_dir, parse_any)},
      ours({"--log-rotate", "SIZE[:COUNT]", "start a new file at SIZE (100M), keep COUNT full ones [never]",
            set(o.log_rotate, parse_rotation)}),
      {"--redirects", "SPEC", "to files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...",
       set(o.redirects, parse_streams), "-r"},
      {"--tee", "SPEC", "to files and to the console", set(o.tee, parse_streams), "-t"},
      {"--local-ranks-filter", "RANKS", "local ranks shown on the console, for example 0,3 [all]",
       set(o.local_ranks_filter, parse_rank_list)},
      ours({"--ranks", "RANKS", "ranks of the job shown on the console, for example 0,8-15 [all]",
            set(o.ranks, parse_rank_ranges)}),
      ours({"--fold-lines", "auto|off", "show equal lines of 8 or more workers of a node once [auto]",
            choose(o.fold_lines, {true, false})}),
      {"--log-line-prefix-template", "TEXT", "may contain ${role_name}, ${local_rank}, ${rank}, ${hostname}",
       set(o.line_prefix, parse_any), "", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
      {"--duplicate-stdout-filters", "WORD,...", "lines with such a word also go to filtered_stdout.log",
       set(o.stdout_filters, parse_filters)},
      {"--duplicate-stderr-filters", "WORD,...", "the same for stderr", set(o.stderr_filters, parse_filters)},
      ours(
          {"--log-level", "debug|info|warn|error", "lowest level of cxxrun's own lines [info]", set_word(o.log_level)}),
  };
}

std::vector<OptionRow> program(Options& o) {
  return {
      {"--module", "", "program is a Python module (python3 -u -m program)", set(o.module, parse_flag), "-m"},
      {"--no-python", "", "execute program directly even if its name ends in .py", set(o.no_python, parse_flag)},
      {"--run-path", "", "program is a Python script, whatever its name", set(o.run_path, parse_flag)},
      {"--virtual-local-rank", "", "each worker sees its own GPU alone, and LOCAL_RANK is 0",
       set(o.virtual_local_rank, parse_flag)},
      ours({"--watch", "auto|off", "auto: see hangs of PyTorch without changes to the program [auto]",
            choose(o.watch, {true, false})}),
      ours({"--warm", "[=MODULES]", "fork workers from a Python with these; auto: learn them [torch]",
            set(o.warm, parse_modules)}),
      {"--monitor-interval", "SECONDS", "accepted without effect: nothing is polled",
       note(o, only_check(parse_delay), "the end of a worker is an event, nothing is polled")},
      {"--start-method", "spawn|fork|forkserver", "accepted without effect: every worker is a new process",
       note(o, check_word, "every worker is a new process")},
      {"--event-log-handler", "null|console", "accepted without effect: cxxrun's lines go to stderr",
       note(o, check_word, "cxxrun's own lines go to standard error; see --log-level")},
      {"--logs-specs", "default", "accepted without effect: the layout of --log-dir is fixed",
       note(o, check_word, "the layout of --log-dir is fixed")},
      {"--print-completion", "bash|zsh|fish", "print the completion of that shell, and end",
       set_word(o.print_completion)},
      ours({"--dry-run", "", "show what would be started, and end", set(o.dry_run, parse_flag)}),
      ours({"--doctor", "", "check for what keeps jobs from running here, and end", set(o.doctor, parse_flag)}),
      ours({"--init", "", "print a job script for this cluster, and end", set(o.init, parse_flag)}),
      ours({"--json", "", "with --doctor: print an object instead of a table", set(o.json, parse_flag)}),
      version_row,
      help_row,
  };
}

Result<void> check_pairs(Options const& o) {
  struct Pair {
    bool given;
    char const* names;
    char const* why = "";
  };
  std::vector<Pair> const pairs{{o.doctor && o.dry_run, "--doctor and --dry-run"},
                                {o.doctor && o.init, "--doctor and --init"},
                                {o.init && o.dry_run, "--init and --dry-run"},
                                {o.init && o.standalone, "--init and --standalone"},
                                {o.module && o.no_python, "-m and --no-python", " a module needs Python;"},
                                {o.numa_binding != CpuMode::none && o.cpu_bind, "--numa-binding and --cpu-bind"},
                                {o.quorum == Quorum::none && !o.fence_dir.empty(), "--fence and --quorum none",
                                 " a fence breaks ties in a vote;"}};
  auto const found = std::ranges::find_if(pairs, [](Pair const& each) { return each.given; });
  return found == pairs.end()
             ? Result<void>()
             : expected(std::string(found->names) + " exclude each other:" + found->why + " drop one of them");
}

/// Refuses or ignores options about this node's place in the job, which --join and --standalone determine.
Result<void> check_place(Options& options) {
  struct Place {
    std::string name;
    bool refused;  // with --join
    bool dropped;  // with --standalone
  };
  auto const place = [](char const* name, bool given) { return Place{name, given, given}; };
  std::vector<Place> const places{place("--rdzv-id", options.rdzv_id.has_value()),
                                  place("--rdzv-endpoint", options.rdzv_endpoint.has_value()),
                                  place("--node-rank", options.node_rank.has_value()),
                                  place("--rdzv-conf is_host", options.is_host.has_value()),
                                  {"--master-addr", false, options.master_addr.has_value()},
                                  {"--nnodes", options.nnodes.has_value(), options.nnodes && options.nnodes->max > 1},
                                  {"--standalone", options.standalone, false}};
  for (auto const& each : places) {
    if (each.refused && options.join) {
      return expected(each.name + " with --join: the job that is joined says that; drop it");
    }
    if (each.dropped && options.standalone) {
      options.notes.push_back("--standalone: " + each.name + " has no effect");
    }
  }
  return {};
}

Result<void> check(Options& options) {
  if (options.join) {
    options.terms.join_timeout = kLookForJob;
  }
  if (auto applied = apply_rdzv_conf(options); !applied) {
    return expected("--rdzv-conf: " + applied.error().context);
  }
  if (auto place = check_place(options); !place) {
    return place;
  }
  if (options.run_path) {  // overrides both, as in torchrun
    options.module = options.no_python = false;
  }
  if (auto pairs = check_pairs(options); !pairs) {
    return pairs;
  }
  if (!options.fence_dir.empty() && options.terms.heartbeat_timeout == Millis{0}) {
    return expected("--fence needs --heartbeat-timeout above 0: without heartbeats there is no vote; drop one of them");
  }
  if (options.join && std::exchange(options.requeue, false)) {
    options.notes.emplace_back(
        "--requeue has no effect with --join: the job that is joined decides about its own requeue");
  }
  if (options.quorum == Quorum::none) {
    options.notes.emplace_back(
        "--quorum none: after a cut of the network every side goes on by itself: two generations of one number may "
        "run at once, restarts are counted on each side, and whichever saves last overwrites the other's checkpoint");
  }
  if (options.log_dir == "/dev/null" && !(options.stdout_filters.empty() && options.stderr_filters.empty())) {
    return expected("--duplicate-stdout-filters and --duplicate-stderr-filters write files: drop --log-dir /dev/null");
  }
  if (options.json && !options.doctor) {
    options.notes.emplace_back("--json has no effect without --doctor; see events.jsonl and verdict.json in --log-dir");
  }
  if (options.program.empty() && options.print_completion.empty() && !options.doctor && !options.init) {
    return expected(
        "no program given\nusage: cxxrun [options] program [arguments]   (cxxrun --help lists the options)");
  }
  return {};
}

}  // namespace

Command cxxrun_command(Options& options) {
  return {"cxxrun",
          "usage: cxxrun [options] program [arguments]\n"
          "Starts program on every node of the job, supervises the workers and restarts them together.\n",
          "Names may be written with - or _. PET_NAME in the environment replaces a default, as in torchrun.\n"
          "${local_rank} in an argument becomes the worker's local rank. Manual: man cxxrun\n",
          {{"Nodes and workers (under srun none of these is needed)", nodes(options)},
           {"Supervision", supervision(options)},
           {"Nodes that are lost or come late (the same on all nodes)", elastic(options)},
           {"Output", output(options)},
           {"Program", program(options)}},
          [&options](Words const& words) {
            options.program = words.empty() ? "" : words.front();
            options.args.assign(words.begin() + (words.empty() ? 0 : 1), words.end());
            return check(options);
          },
          true,
          foreign_options()};
}

std::variant<Options, EarlyExit> parse_options(Words const& arguments, Environment const& environment) {
  Options options;
  options.terms.agent_store = value_of(environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1";
  if (auto early = parse(cxxrun_command(options), arguments, environment)) {
    return *std::move(early);
  }
  return options;
}

Command store_command(StoreOptions& o) {
  return {
      "cxxrun-store",
      "usage: cxxrun-store --port PORT [--loopback] [--store-access user|any]\n"
      "Serves one c10d key-value store (the TCPStore of PyTorch, every release) until SIGTERM or SIGINT.\n",
      "Exit codes: 0 ended by a signal, 100 bad arguments, 111 the port cannot be had.\n",
      {{"",
        {{"--port", "PORT", "where to listen; 0 lets the kernel choose and prints the port on stdout",
          set(o.port, parse_port)},
         {"--loopback", "", "listen on 127.0.0.1 and ::1 only, instead of every address", set(o.loopback, parse_flag)},
         {"--store-access", "user|any", "user: only what the same user connects on this host [any]",
          choose(o.access, {StoreAccess::user, StoreAccess::any})},
         version_row,
         help_row}}},
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
         {"--port-range", "FIRST-LAST", "use only these ports, also for the stores", set(o.range, parse_port_range)},
         {"--rdzv-id", "ID", "serve runs of this id alone", set(o.id, parse_text)},
         {"--loopback", "", "listen on the loopback only (127.0.0.1 and ::1)", set(o.loopback, parse_flag)},
         {"--auth", "auto|munge|file|none", "how agents prove that they belong to the job [auto]",
          choose(o.auth, {Auth::automatic, Auth::munge, Auth::file, Auth::none})},
         {"--background", "", "return once it listens and the steps can find it", set(o.background, parse_flag)},
         {"--log-dir", "DIR", "keep events.jsonl and verdict.json of each run there [no files]",
          set(o.log_dir, parse_text)},
         {"--log-level", "debug|info|warn|error", "lowest level of its own lines [info]", set_word(o.log_level)},
         version_row,
         help_row}}}};
}

}  // namespace cxxrun::launcher
