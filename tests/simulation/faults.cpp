// What goes wrong, drawn while it happens: who is hit depends on what has become of the job.
#include <algorithm>
#include <csignal>

#include "rendezvous/membership/state.hpp"
#include "tests/simulation/job.hpp"

namespace cxxrun::simulation {

Node* Job::any_alive() {
  std::vector<Node*> alive;
  for (auto const& node : nodes) {
    if (node->running()) {
      alive.push_back(node.get());
    }
  }
  if (alive.empty()) {
    return nullptr;
  }
  // The one that coordinates is worth more than its share.
  for (Node* const node : alive) {
    if (node->hosted.active() && world.random().chance(30)) {
      return node;
    }
  }
  return alive[static_cast<std::size_t>(world.random().pick(0, static_cast<std::int64_t>(alive.size()) - 1))];
}

Node* Job::agent_on(HostId host) {
  for (auto const& node : nodes) {
    if (node->host == host && node->process.alive()) {
      return node.get();
    }
  }
  return nullptr;
}

void Job::cut(std::vector<HostId> const& side, Micros lasts, Cut how, bool one_way) {
  std::vector<std::pair<HostId, HostId>> pairs;
  auto const in_side = [&](HostId host) { return std::find(side.begin(), side.end(), host) != side.end(); };
  for (HostId a = 0; a < hosts.size(); ++a) {
    for (HostId b = 0; b < hosts.size(); ++b) {
      if (in_side(a) && !in_side(b)) {
        pairs.emplace_back(a, b);
        if (!one_way) {
          pairs.emplace_back(b, a);
        }
      }
    }
  }
  for (auto const& [a, b] : pairs) {
    network.cut(a, b, how);
  }
  world.note([&] {
    std::string text = one_way ? "cut, one way, of hosts" : "cut of hosts";
    for (auto const host : side) {
      text += " " + std::to_string(host);
    }
    return text + " for " + std::to_string(lasts / 1000) + (how == Cut::reject ? ", with resets" : "");
  });
  world.after(lasts, [this, pairs] {
    world.note([] { return std::string("a cut heals"); });
    for (auto const& [a, b] : pairs) {
      network.heal(a, b, world.random().chance(30));
    }
  });
}

void Job::freeze_host(HostId id, Micros lasts) {
  world.note([&] { return "host " + std::to_string(id) + " freezes for " + std::to_string(lasts / 1000); });
  std::vector<Node*> on_it;
  for (auto const& node : nodes) {
    if (node->host == id) {
      on_it.push_back(node.get());
      node->process.freeze();
      node->parent.freeze();
    }
  }
  ++hosts[id]->frozen;
  world.after(lasts, [this, id, on_it] {
    world.note([&] { return "host " + std::to_string(id) + " thaws"; });
    --hosts[id]->frozen;
    auto const terms = rendezvous::lease_terms(schedule.timeout());
    hosts[id]->forgiven_until = world.now() + micros(terms.kill);
    judge.executing_changed();
    for (Node* const node : on_it) {
      // Within the first moments, one after the other, in no order.
      bool const parent_first = world.random().chance(50);
      Process& first = parent_first ? node->parent : node->process;
      Process& second = parent_first ? node->process : node->parent;
      first.thaw();
      world.after(world.random().pick(0, 2'000), [&second] { second.thaw(); });
    }
  });
}

void Job::kill_host(HostId id, bool silent) {
  world.note([&] { return "host " + std::to_string(id) + (silent ? " loses power" : " is emptied of processes"); });
  if (silent) {
    hosts[id]->dead = true;
    network.host_dies(id);
  }
  for (auto const& node : nodes) {
    if (node->host != id) {
      continue;
    }
    if (silent) {
      node->vanishes();
    } else {
      node->agent_dies(true);
    }
  }
  judge.executing_changed();
}

void Job::strike(Fault const& fault) {
  Random& random = world.random();
  Node* const node = fault.who ? nodes.at(*fault.who).get() : any_alive();
  if (node == nullptr || !node->running()) {
    return;
  }
  auto const how = random.chance(80) ? Cut::drop : Cut::reject;
  auto const some_host = [&] {
    return static_cast<HostId>(random.pick(0, static_cast<std::int64_t>(hosts.size()) - 1));
  };
  switch (fault.trouble) {
    case Trouble::agent_dies: node->agent_dies(false); break;
    case Trouble::both_die: node->agent_dies(true); break;
    case Trouble::host_dies: kill_host(node->host, true); break;
    case Trouble::host_vanishes: kill_host(node->host, false); break;
    case Trouble::agent_freezes:
      world.note([&] { return node->name() + " freezes for " + std::to_string(fault.lasts / 1000); });
      node->process.freeze();
      world.after(fault.lasts, [this, node] {
        world.note([&] { return node->name() + " thaws"; });
        node->process.thaw();
      });
      break;
    case Trouble::host_freezes: freeze_host(node->host, fault.lasts); break;
    case Trouble::job_freezes:
      for (HostId id = 0; id < hosts.size(); ++id) {
        world.after(random.pick(0, 3'000),
                    [this, id, lasts = fault.lasts + random.pick(0, 20'000)] { freeze_host(id, lasts); });
      }
      break;
    case Trouble::cut_off: cut({node->host}, fault.lasts, how); break;
    case Trouble::cut_in_two: {
      std::vector<HostId> side;
      for (HostId id = 0; id < hosts.size(); ++id) {
        if (random.chance(50)) {
          side.push_back(id);
        }
      }
      cut(side, fault.lasts, how);
      break;
    }
    case Trouble::cut_one_way: cut({node->host}, fault.lasts, how, true); break;
    case Trouble::flaky: {
      HostId const other = some_host();
      if (other != node->host) {
        network.cut(node->host, other, how);
        network.cut(other, node->host, how);
        world.note([&] {
          return "cut between hosts " + std::to_string(node->host) + " and " + std::to_string(other) + " for " +
                 std::to_string(fault.lasts / 1000);
        });
        world.after(fault.lasts, [this, a = node->host, b = other] {
          network.heal(a, b, world.random().chance(30));
          network.heal(b, a, false);
        });
      }
      break;
    }
    case Trouble::connections_die:
      for (std::size_t i = 0; i < network.ends().size(); i += 2) {
        EndPtr const end = &network.ends()[i];
        if (end->host != end->peer->host && (end->open || end->peer->open) && random.chance(40)) {
          world.note([&] {
            return "reset between hosts " + std::to_string(end->host) + " and " + std::to_string(end->peer->host);
          });
          network.reset(end);
        }
      }
      break;
    case Trouble::worker_fails:
      if (node->executing()) {
        world.note([&] { return "a worker of " + node->name() + " fails"; });
        node->workers->fail(random.chance(50) ? ExitStatus::signalled(SIGSEGV) : ExitStatus::exited(3),
                            random.chance(50));
      }
      break;
    case Trouble::worker_unkillable:
      if (node->executing()) {
        node->workers->unkillable = true;
        node->workers->fail(ExitStatus::exited(3), false);
      }
      break;
    case Trouble::told_to_end:
      world.note([&] { return node->name() + " is told to end"; });
      node->signal(SIGTERM);
      break;
    case Trouble::joins:
      if (nodes.size() < 12) {
        bool const added = schedule.seed % 2 == 0;  // else it was started like the others, only late
        add_node(add_host(), added);
        world.note([&] { return nodes.back()->name() + (added ? " comes with --join" : " comes"); });
      }
      break;
    case Trouble::comes_back:
      for (HostId id = 0; id < hosts.size(); ++id) {
        if (agent_on(id) == nullptr && !hosts[id]->dead && nodes.size() < 12) {
          Node& again = add_node(id);
          world.note([&] { return again.name() + " starts on host " + std::to_string(id); });
          break;
        }
      }
      break;
    case Trouble::parent_dies:
      if (!node->process.frozen()) {  // else nobody would enforce the lease
        node->parent_dies();
      }
      break;
    case Trouble::restarted:
    case Trouble::drained:
      for (auto const& each : nodes) {
        if (each->running() && !each->process.frozen() && each->hosted.leads()) {
          bool const drains = fault.trouble == Trouble::drained;
          rendezvous::Wanted wanted{rendezvous::Wanted::What::restart, each->hosted.state().number, "uid 0"};
          if (drains) {
            wanted.what = rendezvous::Wanted::What::drain;
            wanted.node = node->info.host;
          }
          world.note(
              [&] { return (drains ? node->name() + " is drained" : "restarted") + " by hand at " + each->name(); });
          each->hosted.feed(std::move(wanted));
        }
      }
      break;
    case Trouble::kCount: break;
  }
}

void Job::end_trouble() {
  world.note([] { return std::string("trouble ends"); });
  network.heal_all(30);
}

}  // namespace cxxrun::simulation
