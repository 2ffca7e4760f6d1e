#include "tests/simulation/node.hpp"

#include <utility>

#include "tests/simulation/job.hpp"
#include "tests/support/said.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

std::string address_text(HostId host) {
  return "10.0." + std::to_string(host / 250) + "." + std::to_string(host % 250 + 1);
}

HostId host_of(std::string const& address) {
  auto const last = address.rfind('.');
  auto const middle = address.rfind('.', last - 1);
  if (last == std::string::npos || middle == std::string::npos) {
    return 0;
  }
  return static_cast<HostId>(std::stoul(address.substr(middle + 1)) * 250 + std::stoul(address.substr(last + 1)) - 1);
}

Node::Node(Job& owner, std::uint32_t number, HostId on, bool joins)
    : job(owner),
      index(number),
      host(on),
      added(joins),
      policy(owner.schedule.agent),
      process(owner.world),
      parent(owner.world),
      hosted(owner, *this) {
  info.host = "n" + std::to_string(index);
  info.incarnation = "i" + std::to_string(index);
  info.slots = static_cast<std::uint32_t>(1 + index % 2);
  info.standby_port = static_cast<Port>(kStandbyBase + index);
  policy.added = added;
  policy.pair =
      !added && owner.schedule.nodes == 2 && owner.schedule.policy.max_nodes == 2 && policy.tie == rdzv::Tie::rank;
}

Address Node::standby() const {
  return {host, info.standby_port};
}

bool Node::executing() const {
  return workers && workers->executing() && !job.hosts[host]->dead && job.hosts[host]->frozen == 0;
}

bool Node::calling() const {
  for (auto const& [id, link] : links_) {
    if (link.calling) {
      return true;
    }
  }
  return false;
}

// ---- the loop: event → step → actions --------------------------------------------------------------------------

void Node::feed(agent::Event event) {
  inbox_.push_back(std::move(event));
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!inbox_.empty() && process.alive()) {
    agent::Event next = std::move(inbox_.front());
    inbox_.pop_front();
    if (job.coverage != nullptr) {
      ++job.coverage->lives[static_cast<std::size_t>(state.life)][next.index()];
    }
    mutate(next);
    auto const before = state.life;
    agent::Step result = agent::step(std::move(state), next, job.clock(host), policy);
    state = std::move(result.next);
    if (before != state.life || !result.said.empty()) {
      job.world.note([&] {
        return name() + " agent, life " + std::to_string(static_cast<int>(before)) + " → " +
               std::to_string(static_cast<int>(state.life)) + " by event " + std::to_string(next.index()) + ": " +
               text_of(result.said);
      });
    }
    for (auto const& action : result.actions) {
      std::visit([this](auto const& concrete) { perform(concrete); }, action);
    }
    job.judge.agent_stepped(*this);
  }
  stepping_ = false;
}

void Node::perform(agent::StartCampaign const& action) {
  job.world.note([&] {
    return name() + " campaigns after generation " + std::to_string(action.campaign.decided.number) + " in round " +
           std::to_string(action.campaign.ballot.round);
  });
  if (job.coverage != nullptr) {
    ++job.coverage->elections;
  }
  auto campaign = action.campaign;
  if (job.mutated(Mutation::half_at_once)) {
    campaign.half_after = Millis{0};
  }
  if (job.mutated(Mutation::forget_end)) {
    campaign.job_end.reset();
  }
  hosted.start_campaign(campaign);
}

void Node::perform(agent::Withdraw const& action) {
  if (!job.mutated(Mutation::keep_campaign)) {
    hosted.feed(action);
  }
}

void Node::perform(agent::Learned const& action) {
  if (!job.mutated(Mutation::keep_news)) {
    hosted.feed(action);
  }
}

void Node::perform(agent::ArmTimer const& action) {
  if (job.mutated(Mutation::lost_timer) && state.follower.search) {
    return;
  }
  timer_armed = true;
  auto const timer = ++timer_;
  job.world.at(job.hosts[host]->clock.when(action.at), [this, timer] {
    process.run(
        [this, timer] {
          if (timer == timer_) {
            timer_armed = false;
            feed(agent::Tick{});
          }
        },
        Process::What::timer);
  });
}

void Node::perform(agent::Exit const& action) {
  if (exit_code) {
    return;
  }
  exit_code = action.code;
  job.world.note([&] { return name() + " leaves with " + std::to_string(action.code) + " " + action.line; });
  job.judge.left(*this, action.code);
  for (auto& [id, link] : links_) {
    hang_up(link);
  }
  leave_if_done();
}

void Node::leave_if_done() {
  if (exit_code && !hosted.leads() && process.alive()) {
    death_notice_ = {};
    close_everything(rendezvous::Ended::goodbye);
    process.die();
    hosted.die();
    job.network.close(standby());
    job.network.close({host, kRendezvousPort});
  }
}

void Node::close_everything(rendezvous::Ended ended) {
  for (auto& [id, link] : links_) {
    hang_up(link, ended);
  }
  hosted.hang_up_all(ended);
}

// ---- workers --------------------------------------------------------------------------------------------------

void Node::perform(agent::StartWorkers const& action) {
  hosted.announce();
  if (workers && !workers->reaped()) {
    job.world.violated(name() + " starts workers while others of its own are not reaped");
  }
  if (workers && workers->waiting()) {
    job.world.note([&] { return name() + ": workers that waited are of the next generation"; });
  }
  Workers::Handlers on;
  auto const number = action.generation.number;
  on.ended = [this, number](rdzv::WorkerExit const& exit) {
    job.worker_failed(*this, exit);
    process.run([this, number, exit] { feed(agent::WorkerEnded{number, exit}); });
  };
  on.all_ended = [this, number](std::vector<rdzv::WorkerExit> const& exits, std::vector<std::string> const& lines,
                                bool waiting) {
    if (process.alive()) {
      process.run([this, number, exits, lines, waiting] {
        bool const stepped = (job.schedule.seed + number) % 3 == 0;
        auto const at = job.clock(host);
        auto const steps = stepped ? rdzv::StepTimes{at, at} : rdzv::StepTimes{};
        auto const good = [](rdzv::WorkerExit const& exit) { return exit.status.ok(); };
        bool const lacks = job.schedule.seed % 2 == 0 && !std::all_of(exits.begin(), exits.end(), good);
        feed(agent::GroupEnded{number, exits, lines, waiting, steps, lacks});
      });
    } else if (sweeps_) {
      end_sweep();
    } else {
      parent.run([this] { send_death_notice(); });
    }
  };
  on.changed = [this] {
    if (!workers->alive()) {
      job.workers_gone(*this, !process.alive());
    }
    job.judge.executing_changed();
  };
  auto const terms = rdzv::lease_terms(job.schedule.timeout());
  Micros const kill_takes = micros(terms.kill) * 8 / 10;
  workers = std::make_unique<Workers>(job.world, action.generation, kill_takes, std::move(on));
  agent_froze_ = false;
  job.world.note([&] { return name() + " starts workers of generation " + std::to_string(number); });
  job_end = launcher::adopt(job_end, state.follower.job_end);
  job.judge.started(*this, action.generation);
  job.workers_started(*this);
  parent.run([this] { guard_lease(); });
}

void Node::perform(agent::FillWorkers const& action) {
  auto const number = action.generation.number;
  if (!workers || !workers->reaped() || workers->generation().number != number) {
    job.world.violated(name() + " is to start what is missing of workers that have not ended");
    return;
  }
  job.world.note([&] { return name() + " starts what is missing of generation " + std::to_string(number); });
  workers->fill();
  auto& random = job.world.random();
  process.after(random.chance(30) ? random.pick(1'000, 100'000) : random.pick(100'000, 20'000'000),
                [this, number, whole = random.chance(80)] {
                  feed(agent::Filled{number, whole});
                });
}

void Node::perform(agent::RunCheck const& action) {
  auto const number = action.generation.number;
  process.after(job.world.random().pick(1'000, 20'000), [this, number] {
    rdzv::WorkerExit exit;
    exit.status = job.world.random().chance(5) ? ExitStatus::exited(3) : ExitStatus::exited(0);
    feed(agent::GroupEnded{number, {exit}, {}});
  });
}

void Node::perform(agent::StopWorkers const& action) {
  if (workers) {
    workers->stop(action.order,
                  [this](std::function<void()> kill) { process.run(std::move(kill), Process::What::timer); });
  }
}

void Node::perform(agent::Freeze const&) {
  agent_froze_ = true;
  freeze_workers("the agent");
}

void Node::perform(agent::Thaw const&) {
  agent_froze_ = false;
  thaw_workers();
}

void Node::freeze_workers(std::string const& by) {
  if (!workers || !workers->alive() || job.mutated(Mutation::expiry_ignored)) {
    return;
  }
  job.world.note([&] { return name() + ": " + by + " freezes the workers, whose lease is over"; });
  if (job.mutated(Mutation::expiry_kills)) {
    workers->kill();
  } else {
    workers->freeze();
  }
}

void Node::thaw_workers() {
  if (workers && workers->alive()) {
    job.world.note([&] { return name() + " thaws its workers"; });
    workers->thaw();
  }
}

/// The page that agent and parent share; the parent looks when it changes.
void Node::perform(agent::HoldLease const& action) {
  lease = job.mutated(Mutation::no_lease) ? std::nullopt : action.until;
  parent.run([this] { guard_lease(); });
}

/// What the parent does (src/base/os/monitor.cpp).
void Node::guard_lease() {
  auto const look_at = ++guard_look_;
  if (!workers || !workers->alive()) {
    guard_ = {};
    return;
  }
  auto const [next, what] = look(guard_, lease, job.clock(host), {policy.lease.lease, policy.lease.timeout});
  bool const again = guard_.frozen_until && (what == Enforce::freeze || next.killed == guard_.killed);
  guard_ = next;
  if (what == Enforce::freeze && !again) {
    freeze_workers("the parent");
  } else if (what == Enforce::kill && !again) {
    job.world.note([&] { return name() + ": the parent kills the workers: no new lease has come"; });
    workers->kill();
  } else if (what == Enforce::thaw && !agent_froze_) {
    thaw_workers();
  }
  if (guard_.wake) {
    job.world.at(job.hosts[host]->clock.when(*guard_.wake), [this, look_at] {
      parent.run(
          [this, look_at] {
            if (look_at == guard_look_) {
              guard_lease();
            }
          },
          Process::What::timer);
    });
  }
}

}  // namespace cxxrun::simulation
