#include "launcher/options/option_table.hpp"

#include <algorithm>
#include <array>

#include "launcher/facts/discovery.hpp"
#include "launcher/options/option_values.hpp"
#include "src/core/endpoint.hpp"
#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

using Text = std::string const&;

Error expected(std::string what) {
  return fail(Errc::usage, std::move(what));
}

template <auto Parse, auto Member>
Result<void> set(Options& options, Text text) {
  auto parsed = Parse(text);
  if (!parsed) {
    return parsed.error();
  }
  options.*Member = std::move(*parsed);
  return {};
}

template <auto Member>
Result<void> set_flag(Options& options, Text text) {
  auto const number = parse_unsigned(text, 0, 1'000'000);
  if (!number) {
    return expected("0 or 1 is expected");
  }
  options.*Member = *number != 0;
  return {};
}

template <std::uint64_t Most>
Result<std::uint32_t> parse_number(Text text) {
  auto const number = parse_unsigned(text, 0, Most);
  return number ? Result<std::uint32_t>(static_cast<std::uint32_t>(*number)) : Result<std::uint32_t>(number.error());
}

Result<std::chrono::milliseconds> parse_grace(Text text) {
  return parse_seconds(text, true);
}

Result<std::chrono::milliseconds> parse_delay(Text text) {
  return parse_seconds(text, false);
}

/// Agents: shorter silences cannot be told from a busy machine. Workers: they are looked at about once per second.
Result<std::chrono::milliseconds> parse_second_or_never(Text text) {
  auto timeout = parse_seconds(text, true);
  if (timeout && *timeout != Millis{0} && *timeout < Millis{1000}) {
    return expected("at least 1 second is expected, or 0 for never");
  }
  return timeout;
}

Result<Quorum> parse_quorum(Text text) {
  return text == "majority" ? Result<Quorum>(Quorum::majority)
         : text == "none"   ? Result<Quorum>(Quorum::none)
                            : Result<Quorum>(expected("majority or none is expected"));
}

Result<bool> parse_scale_out(Text text) {
  return text == "now" || text == "at-restart" ? Result<bool>(text == "now")
                                               : Result<bool>(expected("now or at-restart is expected"));
}

Result<std::string> parse_text(Text text) {
  return text.empty() ? Result<std::string>(expected("a value is expected")) : Result<std::string>(text);
}

Result<std::string> parse_any(Text text) {
  return text;
}

/// The value itself where only the syntax is checked here; "" means "not given", as in torchrun.
Result<std::string> parse_endpoint_text(Text text) {
  auto const endpoint = text.empty() ? Result<Endpoint>(Endpoint{}) : parse_endpoint(text);
  return endpoint ? Result<std::string>(text) : Result<std::string>(endpoint.error());
}

Result<std::string> parse_host_or_nothing(Text text) {
  return text.empty() ? Result<std::string>(text) : parse_host(text);
}

Result<std::string> parse_backend(Text text) {
  if (text == "static" || text == "c10d") {
    return text;
  }
  return text.starts_with("etcd") ? expected("etcd is not supported and not needed; drop the option")
                                  : expected("static or c10d is expected; both mean cxxrun's own rendezvous");
}

Result<std::string> parse_join(Text text) {
  auto const target = parse_join_target(text);
  return target ? Result<std::string>(text) : Result<std::string>(target.error());
}

Result<bool> parse_on_off(Text text) {
  return text == "on" || text == "off" ? Result<bool>(text == "on") : Result<bool>(expected("on or off is expected"));
}

Result<CpuMode> parse_cpu_bind(Text text) {
  if (text != "share" && text != "none") {
    return expected("share or none is expected");
  }
  return text == "share" ? CpuMode::share : CpuMode::none;
}

Result<CpuMode> parse_numa_binding(Text text) {
  for (auto const mode : {CpuMode::node, CpuMode::socket, CpuMode::exclusive, CpuMode::core_complex}) {
    if (text == name_of(mode)) {
      return mode;
    }
  }
  return expected("node, socket, exclusive or core-complex is expected");
}

Result<StdinMode> parse_stdin(Text text) {
  if (text != "null" && text != "rank0") {
    return expected("null or rank0 is expected");
  }
  return text == "null" ? StdinMode::null : StdinMode::rank0;
}

Result<SlurmEnv> parse_slurm_env(Text text) {
  if (text == "per-worker") {
    return SlurmEnv::per_worker;
  }
  return text == "keep"    ? Result<SlurmEnv>(SlurmEnv::keep)
         : text == "clear" ? Result<SlurmEnv>(SlurmEnv::clear)
                           : Result<SlurmEnv>(expected("per-worker, keep or clear is expected"));
}

Result<std::string> parse_level(Text text) {
  constexpr std::array kLevels = {"debug", "info", "warn", "error"};
  return std::find(kLevels.begin(), kLevels.end(), text) != kLevels.end()
             ? Result<std::string>(text)
             : Result<std::string>(expected("debug, info, warn or error is expected"));
}

Result<void> note_monitor_interval(Options& options, Text text) {
  if (auto const seconds = parse_seconds(text, false); !seconds) {
    return seconds.error();
  }
  options.notes.emplace_back("--monitor-interval has no effect: the end of a worker is an event, nothing is polled");
  return {};
}

Result<void> note_start_method(Options& options, Text text) {
  if (text != "spawn" && text != "fork" && text != "forkserver") {
    return expected("spawn, fork or forkserver is expected");
  }
  options.notes.emplace_back("--start-method has no effect: every worker is a new process");
  return {};
}

constexpr char const* kNodes = "Nodes and workers (under srun none of these is needed)";
constexpr char const* kSupervision = "Supervision";
constexpr char const* kElastic = "Nodes that are lost or come late (the same on all nodes)";
constexpr char const* kOutput = "Output";
constexpr char const* kProgram = "Program";

constexpr std::array kRows = {
    OptionRow{kNodes, "", "--nnodes", "N|MIN:MAX", "nodes of the job [the nodes of the Slurm step, else 1]",
              set<parse_nnodes, &Options::nnodes>},
    OptionRow{kNodes, "", "--nproc-per-node", "N|auto|gpu|cpu", "workers per node [visible GPUs, else 1]",
              set<parse_nproc, &Options::nproc>},
    OptionRow{kNodes, "", "--standalone", "", "one node, any free port, reachable from this host only",
              set_flag<&Options::standalone>},
    OptionRow{kNodes, "", "--rdzv-endpoint", "HOST[:PORT]", "where agents meet; the same on all nodes [port 29400]",
              set<parse_endpoint_text, &Options::rdzv_endpoint>},
    OptionRow{kNodes, "", "--rdzv-id", "ID", "name of the job, the same on all nodes [Slurm's, else none]",
              set<parse_text, &Options::rdzv_id>},
    OptionRow{kNodes, "", "--join", "JOBID[.STEP]", "enter that running job as one more node",
              set<parse_join, &Options::join>},
    OptionRow{kNodes, "", "--rdzv-backend", "static|c10d", "accepted; both mean cxxrun's own rendezvous",
              set<parse_backend, &Options::rdzv_backend>},
    OptionRow{kNodes, "", "--rdzv-conf", "KEY=VALUE,...",
              "join_timeout, last_call_timeout, is_host; others have no effect",
              set<parse_rdzv_conf, &Options::rdzv_conf>},
    OptionRow{kNodes, "", "--node-rank", "N", "position of this node; node 0 hosts the rendezvous",
              set<parse_number<65535>, &Options::node_rank>},
    OptionRow{kNodes, "", "--master-addr", "HOST", "MASTER_ADDR; without --rdzv-endpoint also where agents meet",
              set<parse_host, &Options::master_addr>},
    OptionRow{kNodes, "", "--master-port", "PORT", "MASTER_PORT, exactly [0: any free port]",
              set<parse_port, &Options::master_port>},
    OptionRow{kNodes, "", "--local-addr", "HOST", "address of this node as the others reach it",
              set<parse_host_or_nothing, &Options::local_addr>},
    OptionRow{kNodes, "", "--cpu-bind", "share|none", "divide the node's CPUs among its workers [share under Slurm]",
              set<parse_cpu_bind, &Options::cpu_bind>},
    OptionRow{kNodes, "", "--numa-binding", "MODE", "CPUs near each GPU: node, socket, exclusive or core-complex",
              set<parse_numa_binding, &Options::numa_binding>},

    OptionRow{kSupervision, "", "--max-restarts", "N", "restarts of the whole job after worker failures [3]",
              set<parse_number<1'000'000>, &Options::max_restarts>},
    OptionRow{kSupervision, "", "--restart-window", "SECONDS", "count restarts within it only [0: the whole job]",
              set<parse_grace, &Options::restart_window>},
    OptionRow{kSupervision, "", "--shutdown-timeout", "SECONDS", "from SIGTERM to SIGKILL when the job is stopped [30]",
              set<parse_grace, &Options::shutdown_timeout>, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
    OptionRow{kSupervision, "", "--restart-timeout", "SECONDS", "the same for the survivors of a failure [5]",
              set<parse_grace, &Options::restart_timeout>},
    OptionRow{kSupervision, "", "--kill-timeout", "SECONDS", "after SIGKILL, until a process counts as unkillable [60]",
              set<parse_grace, &Options::kill_timeout>},
    OptionRow{kSupervision, "", "--health-check", "CMD",
              "run on every node before each generation; failing sets it aside",
              set<parse_any, &Options::health_check>},
    OptionRow{kSupervision, "", "--health-check-timeout", "SECONDS", "a check that runs longer has failed [60]",
              set<parse_delay, &Options::health_check_timeout>},
    OptionRow{kSupervision, "", "--hang-timeout", "SECONDS",
              "kill a worker that others wait for in a collective [0: never]",
              set<parse_second_or_never, &Options::hang_timeout>},
    OptionRow{kSupervision, "", "--checkpoint-signal", "SIG@SECONDS", "sent to workers that long before the job's end",
              set<parse_checkpoint_signal, &Options::checkpoint_signal>},
    OptionRow{kSupervision, "", "--time-limit", "TIME", "as for sbatch; used where Slurm does not tell the job's end",
              set<parse_time_limit, &Options::time_limit>},
    OptionRow{kSupervision, "", "--requeue", "", "queue the Slurm job again when it ends not by its own doing",
              set_flag<&Options::requeue>},
    OptionRow{kSupervision, "", "--max-requeues", "N", "requeues in a row without progress [3]",
              set<parse_number<1'000'000>, &Options::max_requeues>},
    OptionRow{kSupervision, "", "--progress-path", "PATH", "changes when there is progress, such as the checkpoints",
              set<parse_text, &Options::progress_path>},
    OptionRow{kSupervision, "", "--role", "NAME", "ROLE_NAME of this node's workers [default]",
              set<parse_text, &Options::role>},
    OptionRow{kSupervision, "", "--agent-store", "on|off", "off leaves MASTER_PORT free for rank 0 to bind [on]",
              set<parse_on_off, &Options::agent_store>},
    OptionRow{kSupervision, "", "--stdin", "null|rank0", "rank0 gives cxxrun's standard input to rank 0 [null]",
              set<parse_stdin, &Options::stdin_mode>},
    OptionRow{kSupervision, "", "--slurm-env", "MODE", "SLURM_* of workers: per-worker, keep or clear [per-worker]",
              set<parse_slurm_env, &Options::slurm_env>},

    OptionRow{kElastic, "", "--heartbeat-timeout", "SECONDS", "until a silent node counts as lost; 0: never [5]",
              set<parse_second_or_never, &Options::heartbeat_timeout>},
    OptionRow{kElastic, "", "--quorum", "majority|none", "none: no vote; after a cut both sides may run [majority]",
              set<parse_quorum, &Options::quorum>},
    OptionRow{kElastic, "", "--fence", "DIR", "shared by all: of two halves the first to claim it goes on",
              set<parse_text, &Options::fence_dir>},
    OptionRow{kElastic, "", "--scale-out", "now|at-restart", "when nodes that come late are let in [now]",
              set<parse_scale_out, &Options::scale_out_now>},
    OptionRow{kElastic, "", "--join-window", "SECONDS", "wait for MAX once MIN are there [5; first under Slurm 60]",
              set<parse_grace, &Options::join_window>},

    OptionRow{kOutput, "", "--log-dir", "DIR", "directory of the workers' files; /dev/null: no files [temporary]",
              set<parse_any, &Options::log_dir>},
    OptionRow{kOutput, "-r", "--redirects", "SPEC", "to files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...",
              set<parse_streams, &Options::redirects>},
    OptionRow{kOutput, "-t", "--tee", "SPEC", "to files and to the console", set<parse_streams, &Options::tee>},
    OptionRow{kOutput, "", "--local-ranks-filter", "RANKS", "local ranks shown on the console, for example 0,3 [all]",
              set<parse_rank_list, &Options::local_ranks_filter>},
    OptionRow{kOutput, "", "--log-level", "LEVEL", "cxxrun's own lines: debug, info, warn or error [info]",
              set<parse_level, &Options::log_level>},

    OptionRow{kProgram, "-m", "--module", "", "program is a Python module (python3 -u -m program)",
              set_flag<&Options::module>},
    OptionRow{kProgram, "", "--no-python", "", "execute program directly even if its name ends in .py",
              set_flag<&Options::no_python>},
    OptionRow{kProgram, "", "--monitor-interval", "SECONDS", "accepted without effect: nothing is polled",
              note_monitor_interval},
    OptionRow{kProgram, "", "--start-method", "METHOD", "accepted without effect: every worker is a new process",
              note_start_method},
    OptionRow{kProgram, "", "--dry-run", "", "show what would be started, and end", set_flag<&Options::dry_run>},
    OptionRow{kProgram, "", "--version", "", "show the version, and end", nullptr},
    OptionRow{kProgram, "-h", "--help", "", "show this text, and end", nullptr},
};

constexpr std::array kRefused = {
    RefusedOption{"--duplicate-stderr-filters", "filter the files of --log-dir afterwards"},
    RefusedOption{"--duplicate-stdout-filters", "filter the files of --log-dir afterwards"},
    RefusedOption{"--event-log-handler", "cxxrun's own lines go to standard error; see --log-level"},
    RefusedOption{"--exit-barrier-timeout", "nodes end together without a barrier"},
    RefusedOption{"--logs-specs", "the layout of --log-dir is fixed"},
    RefusedOption{"--run-path", "every worker is a new process; drop it"},
    RefusedOption{"--signals-to-handle", "TERM, INT, HUP and QUIT stop the job, others are passed on; drop it"},
    RefusedOption{"--virtual-local-rank", "use srun --gpus-per-task=1, which gives each worker one device"},
};

std::string bare(std::string_view name) {
  auto const start = std::min(name.find_first_not_of('-'), name.size());
  return replace_all(lower(name.substr(start)), "_", "-");
}

std::string left_column(OptionRow const& row) {
  std::string left = *row.short_name == '\0' ? "  " : "  " + std::string(row.short_name) + ", ";
  left += row.name;
  return *row.value_name == '\0' ? left : left + " " + row.value_name;
}

}  // namespace

std::span<OptionRow const> option_rows() {
  return kRows;
}

std::span<RefusedOption const> refused_options() {
  return kRefused;
}

std::string underscored(std::string_view name) {
  return "--" + replace_all(name.substr(2), "-", "_");
}

std::string pet_variable(std::string_view name) {
  std::string variable = "PET_" + replace_all(name.substr(2), "-", "_");
  for (char& c : variable) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::string explain_unknown(std::string_view argument) {
  std::string const given = printable(argument.substr(0, argument.find('=')), 60);
  for (auto const& refused : kRefused) {
    if (bare(given) == bare(refused.name)) {
      return given + " is not supported: " + refused.instead;
    }
  }
  std::vector<std::string> names;
  names.reserve(kRows.size());
  for (auto const& row : kRows) {
    names.push_back(bare(row.name));
  }
  auto const nearest = nearest_word(bare(given), names);
  return "unknown option " + given + (nearest ? "; did you mean --" + *nearest + "?" : "; cxxrun --help lists all");
}

std::string help_text() {
  constexpr std::size_t kLeft = 36;
  std::string text = "usage: cxxrun [options] program [arguments]\n";
  text += "Starts program on every node of the job, supervises the workers and restarts them together.\n";
  std::string_view group;
  for (auto const& row : kRows) {
    if (group != row.group) {
      group = row.group;
      text += "\n" + std::string(group) + "\n";
    }
    std::string const left = left_column(row);
    text += left + std::string(left.size() < kLeft ? kLeft - left.size() : 1, ' ') + row.help + "\n";
  }
  text += "\nNames may be written with - or _. PET_NAME in the environment replaces a default, as in torchrun.\n";
  return text += "${local_rank} in an argument becomes the worker's local rank. Manual: man cxxrun\n";
}

}  // namespace cxxrun::launcher
