#include "launcher/place/slurm_env.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "launcher/facts/outer_launcher.hpp"
#include "launcher/options/options.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"

namespace cxxrun::launcher {

namespace {

constexpr char const* kRemedy =
    "; pass all SLURM_* variables on (containers often drop some), or unset them all, or give --standalone";

/// Slurm reserves step numbers from here on (above SLURM_MAX_NORMAL_STEP_ID), for example 4294967290 for the shell of
/// salloc at sites with interactive steps.
constexpr std::uint32_t kFirstSpecialStep = 4294967281;

/// Whether the SLURM_STEP_ID is that of a batch script or of the shell of salloc. 26.05 writes these numbers as -5 and
/// -6.
bool is_special(std::string_view step) {
  bool const negative = step.starts_with('-');
  step.remove_prefix(negative ? 1 : 0);
  bool const is_number = !step.empty() && step.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number && (negative || !parse_unsigned(step, 0, kFirstSpecialStep - 1));
}

/// Whether a task of another job started this process: salloc, typed in a step, leaves SLURM_STEP_* as they are. The
/// parts of a heterogeneous job are jobs of their own, but SLURM_JOB_ID names the first.
bool is_of_another_job(Environment const& environment, std::string_view slurmstepd) {
  auto const open = slurmstepd.find('[');
  auto const dot = slurmstepd.find('.', open);
  auto const job = value_of(environment, "SLURM_JOB_ID");
  return open != std::string_view::npos && dot != std::string_view::npos && number_in<std::uint32_t>(job) &&
         slurmstepd.substr(open + 1, dot - open - 1) != job &&
         std::ranges::none_of(environment,
                              [](auto const& variable) { return variable.first.starts_with("SLURM_JOB_ID_"); });
}

constexpr std::uint64_t kMaxTasks = 1'000'000;

Error wrong(std::string const& what) {
  return fail(Errc::environment, "Slurm environment: " + what + kRemedy);
}

Result<std::uint32_t> number(Environment const& environment, std::string const& name, std::uint64_t most) {
  std::string const text = value_of(environment, name);
  auto const value = parse_unsigned(text, 0, most);
  if (!value) {
    return wrong(name + "=" + printable(text, 40) + ": " + value.error().context);
  }
  return static_cast<std::uint32_t>(*value);
}

/// An error that lists what is missing, if anything is.
Result<void> require(Environment const& environment, std::string const& because) {
  constexpr std::array kNeeded = {
      "SLURM_JOB_ID",  "SLURM_LOCALID",       "SLURM_NODEID",         "SLURM_PROCID",
      "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"};
  std::vector<std::string> missing;
  for (char const* const name : kNeeded) {
    std::string const value = value_of(environment, name);
    if (value == "(null)") {
      return wrong(std::string(name) + " is (null), so Slurm had no value for it");
    }
    if (value.empty()) {
      missing.push_back(name);
    }
  }
  return missing.empty() ? Result<void>() : wrong(because + " is set but " + join(missing, ", ") + " is not");
}

/// A variable that shows that srun started this process, or "".
std::string sign_of_step(Environment const& environment) {
  for (char const* const name :
       {"SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"}) {
    if (!value_of(environment, name).empty()) {
      return name;
    }
  }
  // A batch script has these, too, but all 0 and together with a job id.
  for (char const* const name : {"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"}) {
    auto const value = value_of(environment, name);
    if (!value.empty() && (value != "0" || value_of(environment, "SLURM_JOB_ID").empty())) {
      return name;
    }
  }
  return "";
}

/// The components of a heterogeneous job may differ in everything, even in the program.
Result<void> refuse_heterogeneous(Environment const& environment) {
  for (char const* const name : {"SLURM_HET_SIZE", "SLURM_PACK_SIZE"}) {
    std::string const size = value_of(environment, name);
    if (!size.empty() && size != "1") {
      return fail(Errc::environment,
                  "heterogeneous Slurm job (" + std::string(name) + "=" + printable(size, 40) +
                      "): not supported; submit a job without ':' or hetjob, or, for one part alone, type srun "
                      "--het-group=N env -u SLURM_HET_SIZE -u SLURM_PACK_SIZE cxxrun ...");
    }
  }
  return {};
}

/// The name of this node if it is not part of the job, else "": the shell of salloc runs on the login node.
std::string node_outside(Environment const& environment, std::string const& host) {
  auto const name = value_of(environment, "SLURMD_NODENAME");
  auto const here = name.empty() ? host : name;
  auto const nodes = expand_hostlist(value_of(environment, "SLURM_JOB_NODELIST"));
  bool const known = !here.empty() && nodes && !nodes->empty();
  return known && std::ranges::none_of(*nodes, [&here](std::string const& node) { return same_host_name(node, here); })
             ? here
             : "";
}

SlurmView outside_step(Environment const& environment, Whereabouts const& here) {
  SlurmView view;
  auto const job = value_of(environment, "SLURM_JOB_ID");
  auto const nodes = parse_unsigned(value_of(environment, "SLURM_JOB_NUM_NODES"), 2, kMaxHosts);
  if (job.empty() || inside_worker(environment)) {
    return view;
  }
  if (auto const node = node_outside(environment, here.host); !node.empty()) {
    view.notes.push_back("this runs on " + printable(node, 80) + ", which is no node of the Slurm job " +
                         printable(job, 40) + " (" + printable(value_of(environment, "SLURM_JOB_NODELIST"), 80) +
                         "): workers started here use none of its nodes; start cxxrun with srun");
  } else if (nodes) {
    view.notes.push_back("the Slurm job has " + std::to_string(*nodes) +
                         " nodes but this runs on one; start cxxrun with srun to use them all");
  }
  return view;
}

/// Whether this command was typed into the shell of `srun --pty bash`. Only task 0 is a shell, because the others had
/// no input and have ended. SLURM_PTY_PORT alone proves nothing: the tasks of an srun that is typed there inherit it.
bool typed_into_shell(Environment const& environment, SlurmStep const& step, Whereabouts const& here) {
  return here.typed && step.process == 0 && step.tasks > 1 && !value_of(environment, "SLURM_PTY_PORT").empty();
}

SlurmView in_shell(SlurmStep const& step) {
  SlurmView view;
  auto const alone = "this was typed into the shell of srun --pty, the only one of " + counted(step.tasks, "task") +
                     " that is left: a job of this node alone";
  if (step.nodes() == 1) {
    view.remark = alone;
  } else {
    view.notes.push_back(alone + "; for all nodes type: srun --overlap cxxrun ...");
  }
  return view;
}

/// SLURMD_NODENAME is set by slurmd itself. A node list copied from another step does not have it at this position.
Result<void> check_name(Environment const& environment, SlurmStep const& step) {
  std::string const name = value_of(environment, "SLURMD_NODENAME");
  if (name.empty() || same_host_name(name, step.node_names[step.node_index])) {
    return {};
  }
  bool const elsewhere =
      std::ranges::any_of(step.node_names, [&name](std::string const& other) { return same_host_name(name, other); });
  return wrong("SLURMD_NODENAME is " + printable(name, 80) +
               (elsewhere
                    ? " but node " + std::to_string(step.node_index) + " of SLURM_STEP_NODELIST (SLURM_NODEID) is " +
                          printable(step.node_names[step.node_index], 80)
                    : ", which SLURM_STEP_NODELIST does not name"));
}

/// Sets how the tasks are spread over the nodes.
Result<void> read_tasks(Environment const& environment, std::vector<unsigned> const& tasks, SlurmStep& step) {
  step.tasks_on_node = tasks[step.node_index];
  step.several_tasks = *std::ranges::max_element(tasks) > 1;
  if (step.task_index >= step.tasks_on_node) {
    return wrong("SLURM_LOCALID is " + std::to_string(step.task_index) + " but this node has " +
                 counted(step.tasks_on_node, "task"));
  }
  auto const sum = std::accumulate(tasks.begin(), tasks.end(), std::uint64_t{0});
  if (sum > kMaxTasks) {
    return wrong("SLURM_STEP_TASKS_PER_NODE adds up to " + std::to_string(sum) + " tasks; the limit is " +
                 std::to_string(kMaxTasks));
  }
  step.tasks = static_cast<std::uint32_t>(sum);
  if (!value_of(environment, "SLURM_STEP_NUM_TASKS").empty()) {
    auto const total = number(environment, "SLURM_STEP_NUM_TASKS", kMaxTasks);
    if (!total) {
      return total.error();
    }
    if (*total != step.tasks) {
      return wrong("SLURM_STEP_NUM_TASKS is " + std::to_string(*total) + " but SLURM_STEP_TASKS_PER_NODE adds up to " +
                   std::to_string(step.tasks));
    }
  }
  if (step.process >= step.tasks) {
    return wrong("SLURM_PROCID is " + std::to_string(step.process) + " but the step has " + std::to_string(step.tasks) +
                 " tasks");
  }
  return {};
}

/// Reads the list of nodes and the counts of tasks, and checks that they agree.
Result<void> read_nodes(Environment const& environment, SlurmStep& step) {
  std::string const list = value_of(environment, "SLURM_STEP_NODELIST");
  auto names = expand_hostlist(list);
  if (!names) {
    return wrong("SLURM_STEP_NODELIST: " + names.error().context);
  }
  auto const tasks = expand_counts(value_of(environment, "SLURM_STEP_TASKS_PER_NODE"));
  if (!tasks) {
    return wrong("SLURM_STEP_TASKS_PER_NODE: " + tasks.error().context);
  }
  auto const nodes = number(environment, "SLURM_STEP_NUM_NODES", kMaxHosts);
  if (!nodes) {
    return nodes.error();
  }
  if (names->size() != *nodes) {
    return wrong("SLURM_STEP_NUM_NODES is " + std::to_string(*nodes) + " but SLURM_STEP_NODELIST names " +
                 std::to_string(names->size()));
  }
  if (tasks->size() != *nodes) {
    return wrong("SLURM_STEP_NUM_NODES is " + std::to_string(*nodes) + " but SLURM_STEP_TASKS_PER_NODE counts " +
                 std::to_string(tasks->size()));
  }
  if (step.node_index >= *nodes) {
    return wrong("SLURM_NODEID is " + std::to_string(step.node_index) + " but the step has " + std::to_string(*nodes) +
                 " nodes");
  }
  step.node_names = *std::move(names);
  if (auto const spread = read_tasks(environment, *tasks, step); !spread) {
    return spread.error();
  }
  return check_name(environment, step);
}

}  // namespace

std::optional<Error> lost_slurm(Options const& options, Environment const& environment,
                                std::function<std::optional<int>(std::string_view)> const& find_ancestor) {
  bool const described = inside_worker(environment) || options.standalone || options.nnodes || options.node_rank ||
                         options.master_addr || options.join || options.rdzv_endpoint;
  // 0 stands for an ancestor outside this PID namespace, which may be any program.
  if (described || !value_of(environment, "SLURM_JOB_ID").empty() || find_ancestor("slurmstepd").value_or(0) <= 0) {
    return std::nullopt;
  }
  return fail(Errc::environment,
              "Slurm started this, but none of its SLURM_* variables came through (a container may drop them), so "
              "cxxrun knows of no other nodes; pass them on, or give --standalone for a job on this node alone");
}

Environment without_false_step(Environment environment, std::string_view slurmstepd) {
  if (slurmstepd.find(".batch]") != std::string_view::npos || is_special(value_of(environment, "SLURM_STEP_ID")) ||
      is_of_another_job(environment, slurmstepd)) {
    std::erase_if(environment, [](auto const& variable) {
      return variable.first.starts_with("SLURM_STEP_") || variable.first == "SLURM_STEPID";
    });
  }
  return environment;
}

Result<SlurmView> read_slurm(Environment const& environment, Whereabouts const& here) {
  std::string const sign = sign_of_step(environment);
  if (sign.empty() || is_special(value_of(environment, "SLURM_STEP_ID"))) {
    return outside_step(environment, here);
  }
  if (inside_worker(environment)) {
    return SlurmView{std::nullopt,
                     {},
                     "below a worker of cxxrun (run " + printable(value_of(environment, variables::kRunId), 80) +
                         ") and not a task of Slurm: this is a job of its own on this node; for another step type srun "
                         "--overlap cxxrun ..."};
  }
  if (auto alike = refuse_heterogeneous(environment); !alike) {
    return alike.error();
  }
  if (auto complete = require(environment, sign); !complete) {
    return complete.error();
  }
  SlurmStep step;
  auto const node = number(environment, "SLURM_NODEID", kMaxHosts);
  auto const task = number(environment, "SLURM_LOCALID", kMaxHosts);
  auto const process = number(environment, "SLURM_PROCID", kMaxTasks);
  auto const job_id = number(environment, "SLURM_JOB_ID", UINT32_MAX);
  auto const step_id = number(environment, "SLURM_STEP_ID", UINT32_MAX);
  for (auto const* const checked : {&node, &task, &process, &job_id, &step_id}) {
    if (!*checked) {
      return checked->error();
    }
  }
  step.node_index = *node;
  step.task_index = *task;
  step.process = *process;
  step.run_id = std::to_string(*job_id) + "." + std::to_string(*step_id);
  if (!value_of(environment, "SLURM_RESTART_COUNT").empty()) {
    auto const restarts = number(environment, "SLURM_RESTART_COUNT", UINT32_MAX);
    if (!restarts) {
      return restarts.error();
    }
    step.run_id += *restarts == 0 ? "" : "." + std::to_string(*restarts);
  }
  if (auto read = read_nodes(environment, step); !read) {
    return read.error();
  }
  return typed_into_shell(environment, step, here) ? in_shell(step) : SlurmView{std::move(step), {}};
}

}  // namespace cxxrun::launcher
