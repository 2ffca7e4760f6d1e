#include "launcher/doctor/doctor.hpp"

#include <algorithm>
#include <cstdio>

#include "launcher/doctor/findings_text.hpp"
#include "launcher/doctor/job_script.hpp"
#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/look.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/doctor/step.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/warm/warm_command.hpp"
#include "src/base/core/exit_codes.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr Millis kSinfoPatience{5000};

Wanted wanted_by(Options const& options, Environment const& environment, std::optional<SlurmStep> const& step,
                 std::optional<Meeting> const& meeting) {
  Wanted wanted;
  wanted.host = step ? step->node_names[step->node_index] : os::host_name();
  wanted.names = meeting ? names_to_know(*meeting) : std::vector<std::string>();
  wanted.by_address = meeting && meeting->by_address;
  wanted.nodes = meeting ? meeting->nodes : 1;
  wanted.python = is_python(options.program) ? options.program : python_of(environment);
  wanted.needs_python = runs_python(options) || is_python(options.program);
  wanted.log_dir = options.log_dir;
  auto const* const workers = std::get_if<std::uint32_t>(&options.nproc);
  wanted.cpus.workers = workers != nullptr ? *workers : slurm_devices(environment).value_or(1);
  wanted.cpus.tasks = step ? step->tasks_on_node : 1;
  wanted.slurm = environment.contains("SLURM_JOB_ID") && (!step || step->node_index == 0);
  return wanted;
}

int print_report(Options const& options, Report const& report) {
  std::fputs((options.json ? findings_json(report) : findings_text(report)).c_str(), stdout);
  return count(report, Grade::failure) == 0 ? 0 : 1;
}

/// Slurm's settings are those of the cluster: the first node tells them for all.
Findings judge_later_node(Facts const& facts) {
  auto findings = judge(facts);
  std::erase_if(findings, [](Finding const& each) { return each.about == "Slurm" && each.grade < Grade::failure; });
  return findings;
}

Report report_on(std::vector<StepNode> const& nodes) {
  Report report{{}, judge_step(nodes)};
  for (auto const& node : nodes) {
    if (node.came) {
      report.nodes.push_back({node.host, report.nodes.empty() ? judge(node.facts) : judge_later_node(node.facts)});
    }
  }
  return report;
}

}  // namespace

int run_doctor(Options const& options, Environment const& environment, Whereabouts const& here,
               GivenSecret const& secret) {
  auto const slurm = read_slurm(environment, here);
  auto const step = slurm ? slurm->step : std::nullopt;
  if (step && step->task_index > 0) {
    return 0;  // one task of a node is enough
  }
  auto const lost = lost_slurm(options, environment, os::find_ancestor);
  auto const meeting = meeting_of(options, step);
  if (!meeting) {
    std::fprintf(stderr, "cxxrun: %s\n", meeting.error().message().c_str());
    return kExitUsage;
  }
  auto const keys = key_transports(options.auth, secret, value_of(environment, "HOME"));
  if (!keys) {
    std::fprintf(stderr, "cxxrun: %s\n", keys.error().message().c_str());
    return kExitUsage;
  }
  os::Caretaker const caretaker;
  auto const look = start_looking(wanted_by(options, environment, step, *meeting), environment, caretaker);
  if (!*meeting) {
    auto facts = look();
    facts["slurm.note"] = slurm ? join(slurm->notes, "; ") : "";
    facts["slurm.remark"] = slurm ? slurm->remark : "";
    facts["slurm.trouble"] = lost ? lost->message() : slurm ? "" : slurm.error().message();
    return print_report(options, {{{value_of(facts, "host"), judge(facts)}}, {}});
  }
  Facts own;
  auto const towards_first = [&] { return os::address_towards((*meeting)->first, (*meeting)->ports.front(), kNaming); };
  auto const name = name_for_others(**meeting, towards_first);
  auto const nodes = meet_step(
      **meeting, options.auth == Auth::none ? Transports() : *keys, name.empty() ? os::host_name() : name,
      [&] { return own = look(); }, caretaker);
  if (nodes) {
    return *nodes ? print_report(options, report_on(**nodes)) : 0;
  }
  own = own.empty() ? look() : own;
  return print_report(options, {{{value_of(own, "host"), judge(own)}}, {judge_no_table(nodes.error())}});
}

int run_init(Options const& options, std::vector<std::string> words, Environment const& environment) {
  os::LimitedChild child([&](Say const& say) { look_at_partitions(environment, say); });
  auto const told = child.wait_until(Clock::now() + kSinfoPatience);
  bool const failed = told.said.starts_with(kNoPartitions);
  std::string const why = !told.error.empty() ? "sinfo not asked: " + told.error
                          : !told.ended       ? "sinfo did not answer"
                          : failed            ? told.said.substr(std::string(kNoPartitions).size())
                                              : "sinfo knows of no partition that is up";
  if (auto const asks = std::find(words.begin(), words.end(), "--init"); asks != words.end()) {
    words.erase(asks);
  }
  std::transform(words.begin(), words.end(), words.begin(), shell_quote);
  if (options.program.empty()) {
    words.emplace_back("train.py");
  }
  std::fputs(job_script(failed ? std::vector<NodeKind>() : read_sinfo(told.said), join(words, " "), why).c_str(),
             stdout);
  return 0;
}

}  // namespace cxxrun::launcher::doctor
