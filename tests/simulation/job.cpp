#include "tests/simulation/job.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "rendezvous/membership/state.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

namespace {

/// Without a quorum two generations may have one number.
std::uint64_t key_of(rdzv::Generation const& generation) {
  return generation.decree.tie == rdzv::Tie::none ? generation.decree.members + generation.number : generation.number;
}

/// Whom it follows, and whom it has called.
std::string links_of(Node const& node) {
  std::string text;
  for (auto const& [id, link] : node.state.follower.links) {
    text += (text.empty() ? ", links" : "") + std::string(" ") + std::to_string(id) +
            (id == node.state.follower.main ? "(main)" : "") + (link.up ? "(up)" : "") + (link.own ? "(own)" : "") +
            (link.dialled ? "→" + link.to.host : "");
  }
  return node.process.alive() ? text : "";
}

}  // namespace

Job::Job(Schedule drawn, Coverage* covered)
    : schedule(std::move(drawn)), world(schedule.seed), network(world), judge(*this), coverage(covered) {
  network.most_delay = schedule.most_delay;
  network.call_timeout = micros(schedule.timeout()) / 4 + 100'000;
  for (std::uint32_t i = 0; i < schedule.nodes; ++i) {
    add_node(add_host());
  }
  if (schedule.forged) {
    forger = std::make_unique<Forger>(*this);
  }
  for (auto const& fault : schedule.faults) {
    world.at(fault.at, [this, fault] { strike(fault); });
  }
  world.at(schedule.trouble_ends + kSettles * micros(schedule.timeout()), [this] { judge.settled(); });
}

Job::~Job() = default;

HostId Job::add_host() {
  auto host = std::make_unique<Host>();
  // No clock begins at 0: an unset time is never a time.
  host->clock = HostClock(world.random().pick(1'000'000, 1'000'000'000'000),
                          world.random().pick(-schedule.clock_ppm, schedule.clock_ppm));
  hosts.push_back(std::move(host));
  return static_cast<HostId>(hosts.size() - 1);
}

Node& Job::add_node(HostId host, bool added) {
  auto const index = static_cast<std::uint32_t>(nodes.size());
  nodes.push_back(std::make_unique<Node>(*this, index, host, added));
  Node& node = *nodes.back();
  if (schedule.policy.expected_nodes && index < *schedule.policy.expected_nodes) {
    node.info.node_index = index;
  }
  Micros const starts = index == 0 ? 0 : world.random().pick(0, 20'000);
  world.after(starts, [&node] { node.process.run([&node] { node.start(); }); });
  return node;
}

bool Job::over() const {
  return std::none_of(nodes.begin(), nodes.end(), [](auto const& node) { return node->process.alive(); });
}

std::string Job::run() {
  world.note([this] { return simulation::describe(schedule); });
  bool healed = false;
  while (!world.broken && !over()) {
    if (!healed && world.now() >= schedule.trouble_ends) {
      healed = true;
      end_trouble();
    }
    if (!world.step()) {
      world.violated("nothing will ever happen again, and the job has not ended");
    } else if (world.steps() > schedule.most_steps) {
      world.violated("no end in sight: " + std::to_string(world.steps()) + " steps");
    } else if (world.now() > schedule.bound) {
      world.violated("no end in sight");
    }
  }
  if (coverage != nullptr) {
    ++coverage->schedules;
    coverage->steps += world.steps();
    coverage->generations += judge.generations;
    coverage->decrees += judge.decrees;
    ++coverage->rounds[judge.rounds];
    for (auto const& [end, count] : judge.ends) {
      coverage->ends[end] += static_cast<std::uint64_t>(count);
    }
  }
  return world.broken.value_or("");
}

std::string Job::describe() const {
  std::string text = simulation::describe(schedule) + "\n";
  for (auto const& line : world.trace) {
    text += line + "\n";
  }
  text += "at the end (" + std::to_string(world.now() / 1000) + " ms):\n";
  for (auto const& node : nodes) {
    text += "  " + node->name() + " on host " + std::to_string(node->host) +
            (node->process.alive() ? ", life " + std::to_string(static_cast<int>(node->state.life)) : ", gone") +
            (node->process.frozen() ? ", frozen" : "") + ", phase " +
            std::to_string(static_cast<int>(node->hosted.state().phase)) + ", decided " +
            std::to_string(node->hosted.state().proposer.decided.number) + (node->timer_armed ? "" : ", no timer") +
            (node->hosted.timer_armed ? "" : ", no timer of its coordinator") +
            (node->executing() ? ", workers of " + std::to_string(node->workers->generation().number) + " run" : "") +
            links_of(*node) + (node->exit_code ? ", code " + std::to_string(*node->exit_code) : "") + "\n";
  }
  return text;
}

// ---- the program ----------------------------------------------------------------------------------------------

void Job::workers_started(Node& node) {
  auto const number = key_of(node.workers->generation());
  Program& program = programs_[number];
  program.started.push_back(&node);
  if (program.broken) {
    // The others have ended before these began: they find nobody.
    break_program(program, node);
  } else if (program.started.size() == node.workers->generation().group_size) {
    auto const now = world.now();
    auto const done =
        schedule.ends_after ? now + *schedule.ends_after : std::max(now, schedule.trouble_ends) + schedule.work;
    world.at(done, [this, number] { check_work(number); });
  }
}

/// The work is done when all of them have run together for long enough.
void Job::check_work(std::uint64_t number) {
  Program& program = programs_[number];
  if (program.broken || program.finishing) {
    return;
  }
  bool const all = std::all_of(program.started.begin(), program.started.end(), [&](Node* node) {
    return key_of(node->workers->generation()) == number && node->executing();
  });
  if (!all) {
    world.after(micros(schedule.timeout()) / 2, [this, number] { check_work(number); });
    return;
  }
  program.finishing = true;
  for (Node* const node : program.started) {
    world.after(world.random().pick(0, 50'000), [this, node, number] { succeed(*node, number); });
  }
}

/// Workers that are frozen at this moment end once they run again.
void Job::succeed(Node& node, std::uint64_t number) {
  if (key_of(node.workers->generation()) != number || !node.workers->alive()) {
    return;
  }
  if (node.executing()) {
    node.workers->succeed();
  } else {
    world.after(micros(schedule.timeout()) / 20, [this, &node, number] { succeed(node, number); });
  }
}

void Job::worker_failed(Node& node, rdzv::WorkerExit const& exit) {
  Program& program = programs_[key_of(node.workers->generation())];
  if (!program.broken) {
    program.culprit = exit.rank;
  }
  break_program(program, node);
}

void Job::workers_gone(Node& node, bool node_lost) {
  Program& program = programs_[key_of(node.workers->generation())];
  if (program.finishing) {
    return;
  }
  if (schedule.only_suspended) {
    world.violated("a suspended job does not go on where it was: the workers of " + node.name() + " are gone");
  }
  if (!program.broken && node_lost) {
    program.node_lost = true;
  }
  break_program(program, node);
}

/// Its peers sit in a collective that never ends; some notice and fail, clearly later than the first.
void Job::break_program(Program& program, Node const& first) {
  if (std::exchange(program.broken, true)) {
    return;
  }
  for (Node* const node : program.started) {
    if (node == &first || !world.random().chance(60)) {
      continue;
    }
    auto const number = key_of(node->workers->generation());
    bool const all = world.random().chance(50);
    auto const when = 4 * network.most_delay + world.random().pick(1'000, micros(schedule.timeout()));
    world.after(when, [node, number, all] {
      if (key_of(node->workers->generation()) == number && node->executing()) {
        node->workers->fail(ExitStatus::exited(1), all);
      }
    });
  }
}

void Job::concluded(Node const& node, rdzv::Verdict const& verdict) {
  auto const program = programs_.find(verdict.generation);
  judge.concluded(node, verdict, program == programs_.end() ? nullptr : &program->second);
}

}  // namespace cxxrun::simulation
