#include "launcher/doctor/doctor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <sys/file.h>
#include <thread>

#include "launcher/doctor/board.hpp"
#include "launcher/doctor/job_script.hpp"
#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/look.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/doctor/step.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/warm/warm_command.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/munge.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::doctor {

// ---- the file that shows a shared directory

os::UniqueFd show_token(std::string const& name, os::Caretaker const& caretaker, Facts& facts) {
  caretaker.remove_at_end(name);
  auto const folder = os::Folder::above(name);
  auto token = folder ? folder.create(os::name_in(name)) : os::UniqueFd();
  facts["fs.shared"] = token ? "1" : "0";
  facts["fs.locked"] = token && ::flock(token.get(), LOCK_EX | LOCK_NB) == 0 ? "1" : "0";
  return token;
}

void look_for_token(std::string const& name, Facts& facts) {
  auto const folder = os::Folder::above(name);
  auto const token = folder ? folder.open_file(os::name_in(name)) : os::UniqueFd();
  facts["fs.shared"] = token ? "1" : "0";
  bool const locked = token && ::flock(token.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  facts["fs.lock_seen"] = locked ? "1" : "0";
}

// ---- several nodes

namespace {

constexpr Millis kStepTime{40'000};  // srun starts the tasks one after the other, and Python may take 20 s
constexpr Millis kTellTime{15'000};  // the last part of it, to report: calls to other nodes have ended by then
constexpr Millis kStepPause{20};

std::string key_of(char const* what, std::uint32_t index) {
  return std::string(what) + "/" + std::to_string(index);
}

/// The name of a file in the working directory. A node that sees it shares that directory with the first node.
std::string token_of(Board const& board) {
  return ".cxxrun-doctor-" + board.name();
}

/// `told`: "PORT NAME", as the other node put it on the board.
Result<Callee> callee_by(std::string const& told, std::uint32_t peer) {
  auto const blank = told.find(' ');
  auto const port = number_in<std::uint16_t>(told.substr(0, blank));
  return port && blank != std::string::npos ? Result<Callee>(Callee(peer, told.substr(blank + 1), *port))
                                            : fail(Errc::protocol, "the node sent no port");
}

/// Calls each peer as soon as it is on the board and its name is resolved, so a missing node does not delay the others.
std::vector<Call> call_peers(StepMeeting const& meeting, Board& board, TimePoint deadline) {
  std::vector<Call> calls;
  std::map<std::uint32_t, Callee> callees;
  auto left = peers_in(meeting);
  auto const no_call = [&](std::uint32_t peer, Error const& why) {
    calls.push_back({peer, "not tried: " + why.message(), 0, 0});
    return true;
  };
  auto const call = [&](std::uint32_t peer) {
    bool const late = Clock::now() >= deadline;
    auto callee = callees.find(peer);
    auto const told = callee == callees.end() ? board.peek(key_of("port", peer)) : std::optional<std::string>("");
    if (!told) {
      return false;
    }
    if (late) {
      return no_call(peer, fail(Errc::timeout, "out of time"));
    }
    if (callee == callees.end()) {
      auto made = callee_by(*told, peer);
      if (!made) {
        return no_call(peer, made.error());
      }
      callee = callees.emplace(peer, *std::move(made)).first;
    }
    if (!callee->second.ready()) {
      return false;
    }
    calls.push_back(callee->second.call(board.key()));
    return true;
  };
  for (;;) {
    bool const last = Clock::now() >= deadline;
    std::erase_if(left, call);
    if (left.empty() || last) {
      return calls;
    }
    std::this_thread::sleep_for(kStepPause);
  }
}

/// Compares the working directories by the token. Skipped on a node whose own directory did not answer.
os::UniqueFd look_at_sharing(StepMeeting const& meeting, Board& board, os::Caretaker const& caretaker,
                             TimePoint deadline, Facts& facts) {
  bool const answers = facts.contains("fs.open_ms") || facts.contains("fs.error");
  os::UniqueFd token;
  if (meeting.index == 0) {
    token = answers ? show_token(token_of(board), caretaker, facts) : os::UniqueFd();
    board.put("token", token ? "1" : "0");
  } else if (answers) {
    auto const shown = board.wait_for("token", deadline);
    if (shown && *shown == "1") {
      look_for_token(token_of(board), facts);
    }
  }
  return token;
}

/// Whether this node can decode a MUNGE credential of the first node: "" or why not.
std::string try_munge(StepMeeting const& meeting, Board& board, TimePoint deadline) {
  if (meeting.index == 0) {
    auto const made = os::munge_encode("doctor");  // not empty: munge_decode() takes an empty payload for a failure
    board.put("munge", made ? *made : "");
    return made ? "" : made.error().context;
  }
  auto const made = board.wait_for("munge", deadline);
  auto const read = made && !made->empty() ? os::munge_decode(*made) : Result<std::string>("");
  return read ? "" : read.error().context;
}

/// Puts this node's facts on the board. Keep the result until the others are done: it holds the lock on the token.
os::UniqueFd take_part(StepMeeting const& meeting, Board& board, std::function<Facts()> const& look,
                       os::Caretaker const& caretaker, TimePoint deadline) {
  auto facts = look();
  auto token = look_at_sharing(meeting, board, caretaker, deadline - kTellTime, facts);
  facts["munge.error"] = try_munge(meeting, board, deadline - kTellTime);
  facts.merge(write_calls(call_peers(meeting, board, deadline - kTellTime)));
  board.put(key_of("facts", meeting.index), write_facts(facts));
  return token;
}

std::vector<StepNode> collect(StepMeeting const& meeting, Board& board, TimePoint deadline) {
  std::vector<StepNode> nodes;
  for (std::uint32_t i = 0; i < meeting.nodes; ++i) {
    StepNode node{i < meeting.names.size() ? meeting.names[i] : "node-rank-" + std::to_string(i), false, {}, {}};
    auto const told = board.wait_for(key_of("facts", i), deadline);
    if (auto facts = told ? read_facts(*told) : told.error()) {
      node.reported = true;
      node.calls = read_calls(*facts);
      node.facts = *std::move(facts);
      node.host = meeting.names.empty() ? value_of(node.facts, "host") : node.host;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// Exchanges facts between the nodes of a step. Returns those of all nodes on the first node, and nothing on the
/// others. `own_name`: this node as the others call it. `look` waits for this node's facts. An error means that the
/// first node cannot be reached, or that this node cannot listen.
Result<std::optional<std::vector<StepNode>>> meet_step(StepMeeting const& meeting, Transports const& transports,
                                                       std::string const& own_name, std::function<Facts()> const& look,
                                                       os::Caretaker const& caretaker) {
  auto const deadline = Clock::now() + kStepTime;
  bool const first = meeting.index == 0;
  auto const opened = first ? Board::host(meeting, transports) : Board::connect(meeting, transports, deadline);
  if (!opened) {
    return opened.error();
  }
  Board& board = **opened;
  board.put(key_of("port", meeting.index), std::to_string(board.port()) + " " + own_name);
  auto const shown = take_part(meeting, board, look, caretaker, deadline);
  if (!first) {
    // Stay until the first node ends: others may still call this one.
    static_cast<void>(board.wait_for("end", deadline + kTellTime));
    return std::optional<std::vector<StepNode>>();
  }
  auto nodes = collect(meeting, board, deadline);
  board.put("end", "1");
  return std::optional(std::move(nodes));
}

// ---- one node

constexpr Millis kSinfoPatience{5000};

LookOptions look_options(Options const& options, Environment const& environment, std::optional<SlurmStep> const& step,
                         std::optional<StepMeeting> const& meeting) {
  LookOptions wanted;
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

/// Without notes and warnings about Slurm: its settings are those of the cluster, and the first node reports them.
Findings judge_later_node(Facts const& facts) {
  auto findings = judge(facts);
  std::erase_if(findings, [](Finding const& each) { return each.about == "Slurm" && each.grade < Grade::failure; });
  return findings;
}

Report report_on(std::vector<StepNode> const& nodes) {
  Report report{{}, judge_step(nodes)};
  for (auto const& node : nodes) {
    if (node.reported) {
      report.nodes.push_back({node.host, report.nodes.empty() ? judge(node.facts) : judge_later_node(node.facts)});
    }
  }
  return report;
}

/// "2", "2-4"; "" without --nnodes.
std::string nodes_for_sbatch(Options const& options) {
  auto const& nodes = options.nnodes;
  return !nodes ? "" : std::to_string(nodes->min) + (nodes->max == nodes->min ? "" : "-" + std::to_string(nodes->max));
}

}  // namespace

int run_doctor(Options const& options, Environment const& environment, Whereabouts const& here,
               GivenSecret const& secret) {
  auto const slurm = read_slurm(environment, here);
  auto const step = slurm ? slurm->step : std::nullopt;
  if (step && step->task_index > 0) {
    return 0;  // one task per node is enough
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
  auto const look = start_looking(look_options(options, environment, step, *meeting), environment, caretaker);
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
  auto const program = words.end() - static_cast<std::ptrdiff_t>(options.program.empty() ? 0 : 1 + options.args.size());
  auto const asks = [](std::string const& word) { return word == "--init" || word == "--init=true"; };
  words.erase(std::remove_if(words.begin(), program, asks), program);
  std::ranges::transform(words, words.begin(), shell_quote);
  if (options.program.empty()) {
    words.emplace_back("train.py");
  }
  auto const kinds = failed ? std::vector<NodeKind>() : read_sinfo(told.said);
  std::fputs(job_script(kinds, join(words, " "), why, nodes_for_sbatch(options)).c_str(), stdout);
  return 0;
}

}  // namespace cxxrun::launcher::doctor
