// cxxrun: parse → gather facts about this node → split into parent and agent → run → exit code. The executable is also
// the other programs: the name that it is called by decides.
#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <completions.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/utsname.h>
#include <system_error>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent.hpp"
#include "launcher/agent/refusing.hpp"
#include "launcher/doctor/doctor.hpp"
#include "launcher/doctor/judge.hpp"
#include "launcher/facts/cpu_share.hpp"
#include "launcher/facts/outer_launcher.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/job_end/end_watch.hpp"
#include "launcher/live/gpus.hpp"
#include "launcher/logs/log_dir.hpp"
#include "launcher/options/option_values.hpp"
#include "launcher/options/parse_options.hpp"
#include "launcher/place/discovery_file.hpp"
#include "launcher/place/machine.hpp"
#include "launcher/place/python_package.hpp"
#include "launcher/place/secret_file.hpp"
#include "launcher/place/slurm_env.hpp"
#include "launcher/programs/dry_run.hpp"
#include "launcher/programs/programs.hpp"
#include "launcher/warm/warm_command.hpp"
#include "launcher/workers/worker_program.hpp"
#include "rendezvous/net/fence.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/standard_input.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kRefusing{15'000};

/// `typed`: with a terminal, an interactive shell runs a command in a process group of its own, whereas the process
/// that srun starts leads its session. Without a terminal, a process that is below no slurmstepd was not started by
/// Slurm.
Whereabouts whereabouts() {
  return {os::short_hostname(), os::has_terminal() ? getpgrp() != getsid(0) : !os::find_ancestor("slurmstepd")};
}

int complain(Error const& error) {
  std::fprintf(stderr, "cxxrun: %s\n", os::explain(error).c_str());
  return error.code == Errc::usage || error.code == Errc::environment ? kExitUsage
         : error.code == Errc::closed                                 ? kExitCoordinatorLost
                                                                      : kExitSystem;
}

std::uint32_t count_here(Options const& options, Environment const& environment) {
  auto const* const word = std::get_if<ProcWord>(&options.nproc);
  if (word != nullptr && *word == ProcWord::xpu) {
    auto const named = named_devices(environment);
    return named ? *named : os::intel_gpus();
  }
  return os::count_gpus(find_value(environment, "CUDA_VISIBLE_DEVICES"), os::gpu_devices());
}

/// The loopback addresses of this host, the one of the meeting first. Empty if this agent neither hosts the rendezvous
/// nor meets others by loopback.
Result<std::vector<std::string>> find_loopbacks(Meeting const& meeting) {
  if (!meeting.loopback_only && meeting.host != Meeting::Host::me) {
    return std::vector<std::string>{};
  }
  auto found = os::loopback_addresses();
  if (found.empty()) {
    return fail(Errc::io,
                "this host cannot reach itself: neither 127.0.0.1 nor ::1 is there; bring its loopback interface up "
                "(ip link set lo up)");
  }
  if (auto const asked = std::ranges::find(found, meeting.address); asked != found.end()) {
    std::rotate(found.begin(), asked, asked + 1);
  }
  return found;
}

Result<NodeFacts> gather_facts(Options const& options, JobTopology const& topology, Environment const& environment) {
  NodeFacts facts;
  facts.host = topology.host.empty() ? os::short_hostname() : topology.host;
  facts.task = topology.task;
  facts.cpus = os::usable_cpus();
  facts.run_id = topology.run_id;
  bool const counted = std::holds_alternative<std::uint32_t>(options.nproc);  // then GPUs are not counted
  auto const from_slurm = slurm_devices(environment);
  auto const gpus = counted ? 0U : from_slurm ? *from_slurm : count_here(options, environment);
  auto const workers = resolve_nproc(options.nproc, gpus, facts.cpus, topology.task.has_value());
  if (!workers) {
    return workers.error();
  }
  facts.workers = *workers;
  CpuUse const use{facts.cpus, facts.workers, topology.task ? topology.task->tasks_on_node : 1};
  if (!topology.task || topology.task->local == 0) {  // else the first task of the node warns
    facts.cpu_warnings = cpu_warnings(environment, use);
  }
  facts.cpus = cpus_of_task(environment, use);
  if (auto const quota = os::cpu_quota()) {  // more threads than this are throttled
    facts.cpus = std::min(facts.cpus, std::max(1U, static_cast<std::uint32_t>(std::min(*quota, 65536.0))));
  }
  auto loopbacks = find_loopbacks(topology.meeting);
  if (!loopbacks) {
    return loopbacks.error();
  }
  facts.loopbacks = *std::move(loopbacks);
  auto const devices = check_devices(options, facts, environment);
  return devices ? Result<NodeFacts>(std::move(facts)) : devices.error();
}

/// The bootstrap directory for workers of this agent, which may be Python or start it.
std::string bootstrap_here(AgentConfig const& config, Environment const& environment) {
  auto const worker = plan_zygote(config.options, config.facts, environment);  // with the command and PATH of workers
  return find_bootstrap(value_of(environment, "PYTHONPATH"), os::executable_of(getpid()),
                        is_python(worker.argv.front()) ? find_worker_program(worker).path : "");
}

/// Makes the directory of this agent's logs. Without --log-dir it is temporary, and kept only if --redirects, --tee or
/// a filter sends output there.
Result<void> open_logs(AgentConfig& config, std::vector<std::string>& notes) {
  auto const& options = config.options;
  auto root = make_log_root(options.log_dir, config.facts.run_id, log_place(config.facts),
                            value_of(config.environment, "TMPDIR"));
  if (!root) {
    return root.error();
  }
  bool const wanted = options.redirects != StreamChoice{} || options.tee != StreamChoice{} ||
                      !options.stdout_filters.empty() || !options.stderr_filters.empty();
  if (std::error_code failed; !root->path.empty()) {  // make it absolute: workers may run in another directory
    auto const whole = std::filesystem::absolute(root->path, failed);
    root->path = failed ? root->path : whole.lexically_normal().string();
  }
  if (root->temporary && wanted) {
    root->temporary = false;
    notes.push_back("logs are in " + root->path + "; choose with --log-dir");
  }
  config.logs = *std::move(root);
  config.facts.log_root = config.logs.path;
  config.facts.keeps_logs = !config.logs.temporary;
  return {};
}

/// Checked before anything is started: during a start an error would not show which limit was reached.
Result<void> check_descriptors(AgentConfig const& config) {
  auto const& topology = config.topology;
  bool const coordinates = topology.meeting.host != Meeting::Host::other;
  auto const needed = descriptors_needed(config.facts.workers, coordinates ? topology.min_nodes : 0);
  return os::descriptors_left(needed)
             ? Result<void>()
             : fail(Errc::io, os::explain_refusal("this agent needs " + std::to_string(needed) + " descriptors for " +
                                                      counted(config.facts.workers, "worker"),
                                                  EMFILE));
}

/// Makes the directory for the sockets by which workers call this agent. First removes what killed agents have left.
std::string open_sockets(Environment const& environment) {
  if (auto const swept = sweep_temporary(value_of(environment, "TMPDIR")); swept > 0) {
    log(Level::debug, "temporary directories of killed agents removed: " + std::to_string(swept));
  }
  auto made = make_socket_dir(value_of(environment, "TMPDIR"));
  if (made.empty()) {
    log(Level::warn, "no directory for sockets in TMPDIR or /tmp: other users of this node can call this agent");
  }
  return made;
}

/// An exception means that the system refused a thread, timer or descriptor. The parent stops workers that run already.
int agent_or_refusal(AgentConfig const& config, os::AgentSide const& side) {
  try {
    return run_agent(config, side);
  } catch (std::exception const& error) {
    std::string const why = os::explain_refusal("the agent cannot run", error);
    log(Level::error, why);
    tell_refusal(config, why);
    return kExitSystem;
  }
}

int show_dry_run(AgentConfig config) {
  auto plan = find_cpus(config.cpus.mode, config.facts.workers, find_value(config.environment, "CUDA_VISIBLE_DEVICES"));
  config.facts.cpu_sets = std::move(plan.sets);
  auto& notes = config.topology.notes;
  notes.insert(notes.end(), config.facts.cpu_warnings.begin(), config.facts.cpu_warnings.end());
  if (!config.cpus.note.empty() || !plan.note.empty()) {
    notes.push_back(config.cpus.note + plan.note);
  }
  auto const& [options, topology, facts] = std::tie(config.options, config.topology, config.facts);
  auto const workers = likely_workers(options, topology, facts, config.environment);
  assert(!workers.empty());
  auto const program = find_worker_program(workers.front());
  auto const run_by = program.run_by.empty() ? "" : ", run by " + program.run_by;
  std::fputs(dry_run_text(options, topology, facts, config.environment, absolute_name(program.path) + run_by).c_str(),
             stdout);
  std::fflush(stdout);
  if (program.error != 0) {
    std::fprintf(stderr, "cxxrun: %s; %s\n", program.why.c_str(), place_of(program.what).c_str());
    return ExitStatus::not_started(program.error).shell_code();
  }
  auto const logs = check_log_dir(options.log_dir, value_of(config.environment, "TMPDIR"));
  return logs ? 0 : complain(logs.error());
}

/// Makes the path of --fence absolute, and checks now that fence files, which are needed much later, can be made there.
Result<void> prepare_fence(Options& options, std::string const& nonce) {
  if (!options.fence_dir.empty()) {
    std::error_code failed;  // absolute: agents that join later get the path, and may have another working directory
    auto const whole = std::filesystem::absolute(options.fence_dir, failed);
    options.fence_dir = failed ? options.fence_dir : whole.lexically_normal().string();
    if (auto const usable = rendezvous::check_fence(options.fence_dir, nonce); !usable) {
      return fail(Errc::usage, "--fence " + usable.error().context);
    }
  }
  return {};
}

/// Adds notes about what a job can run without, but not as well.
void add_system_notes(JobTopology& topology) {
  if (!os::read_stat(getpid())) {
    topology.notes.push_back(
        "/proc is not mounted: processes that a worker starts cannot be found, and may outlive it");
  }
  utsname system{};
  uname(&system);
  if (doctor::kernel_too_old(system.release)) {
    topology.notes.push_back("this node has Linux " + std::string(system.release) +
                             ": cxxrun is made for 4.18 and newer; srun --exclude leaves the node out");
  }
}

/// The environment of this process, without the variables of a step that it is not a task of.
Environment read_own_environment() {
  auto environment = os::read_environment();
  auto const stepd = environment.contains("SLURM_STEP_ID") ? os::find_ancestor("slurmstepd").value_or(0) : 0;
  return without_false_step(std::move(environment),
                            stepd > 0 ? os::read_text("/proc/" + std::to_string(stepd) + "/cmdline") : "");
}

void add_device_notes(AgentConfig& config, Environment const& environment) {
  auto const& task = config.topology.task;
  bool const says = !task && config.topology.meeting.host != Meeting::Host::other;
  if (auto line = says ? devices_of_workers(environment, config.facts.workers) : ""; !line.empty()) {
    config.topology.remarks.push_back(std::move(line));
  }
  auto const on_node = task ? task->tasks_on_node : config.facts.workers;
  for (auto& line : {hidden_devices(environment, os::amd_gpus()),
                     unnamed_partitions(environment, os::partitioned_gpus(), on_node)}) {
    if (!line.empty() && (!task || task->local == 0)) {
      config.topology.notes.push_back(line);
    }
  }
}

/// Gathers and checks everything before anything is started. `notes` gets the warnings for the user.
Result<AgentConfig> prepare(Options options, Environment const& environment, GivenSecret const& secret,
                            std::vector<std::string>& notes) {
  AgentConfig config;
  config.options = std::move(options);
  config.join_until = Clock::now() + config.options.terms.join_timeout;
  config.end = make_end_plan(config.options, environment);
  if (auto const lost = lost_slurm(config.options, environment, os::find_ancestor)) {
    return *lost;
  }
  std::vector<std::string> trouble;
  auto const discovery = discover(config.options, environment, config.join_until, trouble);
  if (!discovery) {
    return discovery.error();
  }
  auto topology = make_topology(config.options, environment, random_hex(16), *discovery, whereabouts());
  if (!topology) {
    return topology.error();
  }
  config.topology = *std::move(topology);
  add_system_notes(config.topology);
  auto facts = gather_facts(config.options, config.topology, environment);
  if (!facts) {
    return facts.error();
  }
  config.facts = *std::move(facts);
  config.facts.bootstrap = config.options.watch ? bootstrap_here(config, environment) : "";
  add_device_notes(config, environment);
  auto const source = check_program_source(config.options, environment, os::input_is_null(),
                                           config.facts.workers > 1 || config.topology.max_nodes > 1);
  if (!source) {
    return source.error();
  }
  config.cpus = choose_cpu_mode(config.options, environment, config.facts.workers);
  config.environment = environment;
  auto transports = key_transports(config.options.auth, secret, value_of(environment, "HOME"));
  if (!transports) {
    return transports.error();
  }
  config.keys = *std::move(transports);
  if (auto& meeting = config.topology.meeting; config.topology.max_nodes > 1) {
    meeting.hidden = hidden_ports_of(config.keys, meeting.ports);
  }
  config.nonce = random_hex(16);
  if (auto const usable = prepare_fence(config.options, config.nonce); !usable) {
    return usable.error();
  }
  config.colour = os::stderr_takes_colour();
  notes = config.options.notes;
  notes.insert(notes.end(), trouble.begin(), trouble.end());
  notes.insert(notes.end(), config.topology.notes.begin(), config.topology.notes.end());
  notes.insert(notes.end(), config.facts.cpu_warnings.begin(), config.facts.cpu_warnings.end());
  for (auto const& note : {config.cpus.note, *source}) {
    if (!note.empty()) {
      notes.push_back(note);
    }
  }
  return config;
}

/// Whether this agent is to warn about unread standard input: workers do not get it, and it is not that of a script
/// around cxxrun. srun passes its input to all tasks, so only task 0 warns.
bool drops_input(AgentConfig const& config) {
  auto const task = value_of(config.environment, "SLURM_PROCID");
  return config.options.stdin_mode == StdinMode::null && (task.empty() || task == "0") && !os::input_is_of_ancestor();
}

std::string input_dropped(Environment const& environment) {
  std::string const by_srun = "; `srun --input=none` leaves it to the script";
  return "standard input has data that nobody reads: workers read /dev/null; `--stdin rank0` gives it to "
         "rank 0" +
         (environment.contains("SLURM_STEP_ID") ? by_srun : "");
}

void log_notes(AgentConfig const& config, std::vector<std::string> const& notes) {
  auto const task = config.facts.task ? ":" + std::to_string(config.facts.task->process) : "";
  log_setup("cxxrun[" + config.facts.host + task + "]", log_level(config.options.log_level).value_or(Level::info));
  for (auto const& note : notes) {
    log(Level::warn, note);
  }
  for (auto const& remark : config.topology.remarks) {
    log(Level::info, remark);
  }
}

/// The exit code if the options ask for something that starts no job.
std::optional<int> run_without_job(Options const& options, std::vector<std::string> const& arguments,
                                   Environment const& environment, GivenSecret const& secret) {
  if (auto const& shell = options.print_completion; !shell.empty()) {
    std::fputs(shell == "bash" ? kBashCompletion : shell == "zsh" ? kZshCompletion : kFishCompletion, stdout);
    return 0;
  }
  return options.doctor ? std::optional(doctor::run_doctor(options, environment, whereabouts(), secret))
         : options.init ? std::optional(doctor::run_init(options, arguments, environment))
                        : std::nullopt;
}

using Refuse = std::function<int(Error const&)>;  ///< tells the user and the other nodes, and returns the exit code

int run_job(AgentConfig config, std::vector<std::string> notes, Refuse const& refuse) {
  os::raise_nofile_limit();
  if (auto const enough = check_descriptors(config); !enough) {
    return refuse(enough.error());
  }
  if (auto const logs = open_logs(config, notes); !logs) {
    return refuse(logs.error());
  }
  bool const drops = drops_input(config);
  bool const told = drops && os::waiting_input() > 0;
  if (told) {
    notes.push_back(input_dropped(config.environment));
  }
  log_notes(config, notes);
  pid_t const self = getpid();
  os::UniqueFd standby;
  if (config.topology.max_nodes > 1 || config.options.join) {
    auto opened = os::open_standby(config.topology.meeting.loopback_only ? config.facts.loopbacks.front() : "");
    if (opened) {
      standby = *std::move(opened);
    } else if (opened.error().os_errno == EADDRINUSE) {
      log(Level::warn,
          "no port is free on this node: others cannot call this agent, and it cannot take over if the coordinator is "
          "lost; `ss -tan` shows which programs have them");
    } else {
      return refuse(opened.error());
    }
  }
  config.sockets = open_sockets(config.environment);
  std::array claims{config.logs.temporary ? claim_temporary(config.logs.path) : os::UniqueFd(),
                    config.sockets.empty() ? os::UniqueFd() : claim_temporary(config.sockets)};
  auto const code = os::run_under_parent([&](os::AgentSide const& side) { return agent_or_refusal(config, side); },
                                         std::move(standby));
  if (getpid() == self) {
    claims = {};  // close them first: NFS keeps an open file, and with it the directory
    remove_log_root(config.logs);
    remove_socket_dir(config.sockets);
    if (drops && !told && os::waiting_input() > 0) {  // it arrived later
      std::fprintf(stderr, "cxxrun: %s\n", input_dropped(config.environment).c_str());
    }
  }
  return code ? *code : refuse(code.error());
}

int run(std::vector<std::string> const& arguments) {
  os::ensure_standard_descriptors();
  auto const secret = take_secret();
  auto const environment = read_own_environment();
  auto mpi_descriptors = os::open_among(launcher::mpi_descriptors(environment));  // before other files get the numbers
  auto const tell_others = [&](std::string const& why) {
    tell_refusal(arguments, environment, whereabouts(), secret, why);
  };
  auto const refuse = [&](Error const& error) {
    int const code = complain(error);
    tell_others(os::explain(error));
    return code;
  };
  auto parsed = parse_options(arguments, without_outer_options(environment));
  if (auto const* early = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    if (early->code != 0) {
      tell_others(early->text.substr(0, early->text.find('\n')));
    }
    return early->code;
  }
  auto& options = *std::get_if<Options>(&parsed);
  if (auto const code = run_without_job(options, arguments, environment, secret)) {
    return *code;
  }
  std::vector<std::string> notes;
  auto prepared = prepare(std::move(options), environment, secret, notes);
  if (!prepared) {
    return refuse(prepared.error());
  }
  prepared->facts.mpi_descriptors = std::move(mpi_descriptors);
  return prepared->options.dry_run ? show_dry_run(*std::move(prepared))
                                   : run_job(*std::move(prepared), std::move(notes), refuse);
}

/// Tells the other nodes on a thread, whose stack has the needed size whatever the limit is.
int refuse_for_memory(std::vector<std::string> const& arguments, Error const& error) {
  int const code = complain(error);
  auto const told = os::BoundedThread::start("cxxrun-refuse", [arguments, why = error.message()] {
    tell_refusal(arguments, read_own_environment(), whereabouts(), take_secret(), why);
  });
  (void)(told && told->join_until(Clock::now() + kRefusing));
  return code;
}

int run_by_name(std::string_view called, std::vector<std::string> const& arguments) {
  auto const name = called.substr(called.rfind('/') + 1);  // npos + 1 is 0
  if (!arguments.empty() && arguments.front() == live::kTellGpus) {
    return tell_gpus({arguments.begin() + 1, arguments.end()});
  }
  if (auto const enough = os::check_memory(); !enough) {
    return name == "cxxrun-rendezvous" || name == "cxxrun-store" ? complain(enough.error())
                                                                 : refuse_for_memory(arguments, enough.error());
  }
  return name == "cxxrun-rendezvous" ? run_rendezvous(arguments)
         : name == "cxxrun-store"    ? run_store(arguments)
                                     : run(arguments);
}

}  // namespace
}  // namespace cxxrun::launcher

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // NOLINT(cert-err33-c): a full log file must not end the job; workers get the default
  cxxrun::os::set_stack_size_of_threads();
  std::string const name = argc > 0 ? argv[0] : "cxxrun";
  try {
    return cxxrun::os::after_output("cxxrun",
                                    cxxrun::launcher::run_by_name(name, {argv + std::min(argc, 1), argv + argc}));
  } catch (std::exception const& error) {  // the system refused a thread, timer or descriptor
    std::fprintf(stderr, "%s\n", cxxrun::os::explain_refusal(name.substr(name.rfind('/') + 1), error).c_str());
    return cxxrun::kExitSystem;
  }
}
