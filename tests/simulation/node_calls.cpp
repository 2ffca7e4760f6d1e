// The calls of an agent: joining, following, heartbeats; and what is left of it when it dies.
#include <utility>

#include "tests/simulation/job.hpp"
#include "tests/simulation/node.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

namespace {

constexpr Micros kReplyDeadline = 2'000'000;
constexpr Micros kRetry = 300'000;

Address address_of(rdzv::Successor const& to) {
  return {host_of(to.address), to.port};
}

}  // namespace

void Node::start() {
  if (exit_code) {
    return;  // it was told to end before it began
  }
  job_end = launcher::plan_end(std::nullopt, time_limit(index), {}, 0, job.clock(host));
  if (added) {
    job.network.listen(standby(), nullptr);  // who calls waits, as long as there are no terms to coordinate by
  } else {
    listen_on_standby();
  }
  if (index == 0) {
    job.network.listen({host, kRendezvousPort}, process.wrap<EndPtr>([this](EndPtr end) { hosted.accept(end); }));
    info.coordinates = true;
    hosted.open();
  } else if (!added) {
    hosted.stand_by(job.schedule.policy);
  }
  join_until_ = job.world.now() + micros(job.schedule.policy.join_timeout);
  call_home(agent::kFirstLink, {}, join_until_, true);
}

void Node::listen_on_standby() {
  stands_by_ = true;
  job.network.listen(standby(), process.wrap<EndPtr>([this](EndPtr end) { hosted.accept(end); }));
}

/// As launcher/agent/agent.cpp: who was added learns the terms here, unless nothing runs there.
void Node::joined(rdzv::HelloReply const& reply) {
  if (added && reply.terms && !stands_by_) {
    hosted.stand_by(*reply.terms);
    listen_on_standby();
  }
}

rdzv::Hello Node::hello(rdzv::Hello::Purpose purpose, rdzv::Hello::Asks asks) const {
  rdzv::Hello hello;
  hello.run_id = kRunId;
  hello.nonce = info.incarnation;
  hello.purpose = purpose;
  hello.asks = asks;
  return hello;
}

/// Until somebody coordinates there, or nobody has for too long: at the start the endpoint and whoever was heard of
/// since, later one address, whose owner may say that another coordinates for a while (rendezvous/net/probing.hpp).
void Node::call_home(agent::LinkId link, Address at, Micros give_up_at, bool at_home) {
  Address to = at;
  if (at_home) {
    to = added                                             ? job.announced.at
         : job.discovered && job.world.random().chance(60) ? *job.discovered
                                                           : Address{0, kRendezvousPort};
  }
  links_[link].to = to;
  call(link, to, true, [this, link, at, give_up_at, at_home](bool) {
    auto const now = job.world.now();
    auto const& wrong_since = links_[link].wrong_since;
    bool const wrong_for_long = !at_home && wrong_since && now - *wrong_since > 2 * micros(job.schedule.timeout());
    if (now >= give_up_at || wrong_for_long) {
      links_.erase(link);
      nobody_home(link);
      return;
    }
    links_[link].calling = true;
    process.after(kRetry, [this, link, at, give_up_at, at_home] {
      if (!exit_code && links_.contains(link)) {
        call_home(link, at, give_up_at, at_home);
      }
    });
  });
}

/// Who has never been in the job leaves without a step of its life.
void Node::nobody_home(agent::LinkId link) {
  if (link == agent::kFirstLink) {
    perform(agent::Exit{added ? kExitCoordinatorLost : kExitTooFewNodes, "nobody coordinates"});
  } else {
    feed(agent::LinkFailed{link, "nobody coordinates there", false});
  }
}

void Node::call(agent::LinkId id, Address at, bool joins, std::function<void(bool)> failed) {
  Link& link = links_[id];
  link.calling = true;
  link.joins = joins;
  link.to = at;
  job.network.call(host, at, [this, id, joins, failed = std::move(failed)](Called result) {
    process.run([this, id, joins, failed, result] {
      if (!links_.contains(id) || exit_code) {
        if (result.end != nullptr) {
          job.network.hang_up(result.end);
        }
      } else if (result.end == nullptr) {
        links_[id].calling = false;
        failed(result.refused);
      } else {
        linked(id, result.end, joins, failed);
      }
    });
    if (!process.alive() && result.end != nullptr) {
      job.network.hang_up(result.end);
    }
  });
}

void Node::linked(agent::LinkId id, EndPtr end, bool joins, std::function<void(bool)> failed) {
  links_[id].end = end;
  auto const give_up = [this, id, end, failed] {
    auto const it = links_.find(id);
    if (it != links_.end() && it->second.calling && it->second.end == end) {
      it->second.calling = false;
      it->second.end = nullptr;
      job.network.hang_up(end);
      failed(false);
    }
  };
  end->received = process.wrap<Frame const&>([this, id, end, joins, give_up](Frame const& frame) {
    auto const it = links_.find(id);
    if (it == links_.end() || it->second.end != end) {
      return;
    }
    if (auto const* const reply = std::get_if<rdzv::HelloReply>(&frame)) {
      if (!reply->refused.empty()) {
        it->second.wrong_since = it->second.wrong_since.value_or(job.world.now());
        give_up();
        return;
      }
      it->second.calling = false;
      if (joins) {
        home_ = it->second.to;
        joined(*reply);
        auto const terms = added ? std::nullopt : std::optional<rdzv::Terms>(job.schedule.policy);
        auto const known = added ? std::nullopt : launcher::job_end(job_end);
        auto const left = known ? std::optional(rdzv::time_left(*known, job.clock(host))) : std::nullopt;
        job.network.send(end, rdzv::ToCoordinator(rdzv::Join{info, terms, left}));
      }
      feed(agent::LinkUp{id, reply->coordinator});
    } else if (auto const* const message = std::get_if<rdzv::ToAgent>(&frame)) {
      feed(agent::FromLink{id, *message});
    }
  });
  end->closed = process.wrap<rdzv::Ended>([this, id, end, give_up](rdzv::Ended ended) {
    auto const it = links_.find(id);
    if (it == links_.end() || it->second.end != end) {
      return;
    }
    if (it->second.calling) {
      give_up();
      return;
    }
    hang_up(it->second);
    feed(agent::LinkDown{id, ended == rdzv::Ended::broken ? "connection reset" : "end of file", ended});
  });
  auto const asks = !joins ? rdzv::Hello::Asks::follow : added ? rdzv::Hello::Asks::enter : rdzv::Hello::Asks::meet;
  job.network.send(end, hello(rdzv::Hello::Purpose::agent, asks));
  process.after(joins ? kReplyDeadline : micros(job.schedule.timeout()) / 2, give_up);
}

void Node::hang_up(Link& link, rdzv::Ended ended) {
  for (EndPtr const end : {std::exchange(link.end, nullptr), std::exchange(link.beats.end, nullptr)}) {
    if (end != nullptr) {
      job.network.hang_up(end, ended);
    }
  }
}

void Node::perform(agent::TellLink const& action) {
  auto const it = links_.find(action.link);
  if (it == links_.end() || it->second.end == nullptr) {
    return;
  }
  auto message = action.message;
  mutate(message);
  job.judge.said(*this, message);
  job.network.send(it->second.end, message);
}

void Node::perform(agent::Dial const& action) {
  call(action.link, action.to.port == 0 ? home_ : address_of(action.to), false, [this, id = action.link](bool refused) {
    links_.erase(id);
    feed(agent::LinkFailed{id, refused ? "refused" : "no answer", refused});
  });
}

void Node::perform(agent::HangUp const& action) {
  if (auto const it = links_.find(action.link); it != links_.end()) {
    hang_up(it->second);
    links_.erase(it);
  }
}

void Node::perform(agent::Rejoin const& action) {
  info.incarnation += "'";
  bool const at_home = action.to.address.empty();
  Address const endpoint = added ? job.announced.at : Address{0, kRendezvousPort};
  Address const to = at_home ? endpoint : address_of(action.to);
  job.world.note([&] { return name() + " joins again as " + info.incarnation; });
  if (added && at_home && !action.once) {
    bool const was_member = state.follower.decided.decree.number > 0;
    if (was_member) {
      join_until_ = job.world.now() + micros(job.schedule.policy.join_timeout);
    } else if (std::exchange(stands_by_, false)) {  // it may come to be in another run
      hosted.abandon();
      job.network.listen(standby(), nullptr);
    }
    call_home(action.link, {}, join_until_, true);
    return;
  }
  if (!action.once) {
    call_home(action.link, to, job.world.now() + micros(job.schedule.policy.join_timeout), false);
    return;
  }
  call(action.link, to, true, [this, id = action.link](bool) {
    links_.erase(id);
    nobody_home(id);
  });
}

// ---- heartbeats -----------------------------------------------------------------------------------------------

/// After two beats without an answer the next one goes on a connection of its own: the old one may be the trouble.
void Node::perform(agent::TellBeat const& action) {
  auto const it = links_.find(action.link);
  if (it == links_.end() || it->second.end == nullptr || job.mutated(Mutation::no_beats)) {
    return;
  }
  Line& line = it->second.beats;
  if (line.end != nullptr && !line.calling) {
    ++line.unanswered;
    job.network.send(line.end, action.beat);
  }
  if ((line.end == nullptr || line.unanswered > 1) && !line.calling) {
    line.waiting = action.beat;
    open_line(action.link);
  } else if (line.calling) {
    line.waiting = action.beat;
  }
}

void Node::open_line(agent::LinkId id) {
  links_[id].beats.calling = true;
  job.network.call(host, links_[id].to, [this, id](Called result) {
    process.run([this, id, result] {
      auto const it = links_.find(id);
      if (it == links_.end() || it->second.end == nullptr || exit_code) {
        if (result.end != nullptr) {
          job.network.hang_up(result.end);
        }
        return;
      }
      Line& line = it->second.beats;
      line.calling = false;
      if (result.end == nullptr) {
        return;
      }
      if (line.end != nullptr) {
        job.network.hang_up(line.end);
      }
      line.end = result.end;
      line.unanswered = 0;
      result.end->received = process.wrap<Frame const&>([this, id](Frame const& frame) {
        if (auto const* const ack = std::get_if<rdzv::BeatAck>(&frame)) {
          answered(id, *ack);
        }
      });
      result.end->closed = process.wrap<rdzv::Ended>([this, id, end = result.end](rdzv::Ended) {
        if (auto const known = links_.find(id); known != links_.end() && known->second.beats.end == end) {
          known->second.beats.end = nullptr;
        }
      });
      job.network.send(line.end, hello(rdzv::Hello::Purpose::beat, rdzv::Hello::Asks::meet));
      if (line.waiting) {
        job.network.send(line.end, *std::exchange(line.waiting, std::nullopt));
      }
    });
  });
}

void Node::answered(agent::LinkId id, rdzv::BeatAck ack) {
  auto const it = links_.find(id);
  if (it == links_.end()) {
    return;
  }
  it->second.beats.unanswered = 0;
  if (job.mutated(Mutation::lease_from_receipt)) {
    ack.echo = rdzv::own_time(job.clock(host));
  }
  feed(agent::BeatAnswered{id, ack});
}

// ---- death ----------------------------------------------------------------------------------------------------

void Node::signal(int number) {
  process.run([this, number] {
    if (!exit_code) {
      feed(agent::EndSignal{number});
    }
  });
}

void Node::agent_dies(bool parent_too) {
  if (!process.alive()) {
    return;
  }
  job.world.note([&] { return name() + (parent_too ? ": agent and parent die" : ": the agent dies"); });
  killed = true;
  bool const unread = process.pending() || (job.schedule.seed + index) % 5 == 0;  // its kernel says RST then
  close_everything(unread ? rdzv::Ended::broken : rdzv::Ended::in_order);
  process.die();
  hosted.die();
  job.network.close({host, kRendezvousPort});
  job.network.listen(standby(), nullptr);  // the parent's copy of the socket: nobody answers, nobody refuses
  if (parent_too) {
    parent.die();
    Micros const later = static_cast<Micros>((job.schedule.seed + index) % 4) * 5000;  // the kernel takes one by one
    job.world.after(later, [this] { job.network.close(standby()); });
  }
  if (workers && workers->waiting()) {
    workers->kill();
  }
  bool const reaped = !workers || !workers->alive();
  if (!reaped) {
    workers->kill();  // by the parent, else by the kernel (PR_SET_PDEATHSIG)
  } else {
    parent.run([this] { send_death_notice(); });
  }
}

/// src/base/os/monitor.cpp: sweep_and_exit(). What others say meanwhile waits in the kernel.
void Node::parent_dies() {
  job.world.note([&] { return name() + ": the parent dies"; });
  killed = sweeps_ = true;
  parent.die();
  process.die();
  hosted.die();
  job.network.listen(standby(), nullptr);
  if (job.network.listeners().contains({host, kRendezvousPort})) {
    job.network.listen({host, kRendezvousPort}, nullptr);
  }
  bool const reaped = !workers || !workers->alive();
  if (workers && (!reaped || workers->waiting())) {
    workers->kill();
  }
  if (reaped) {
    end_sweep();
  }
}

/// It may be among those that it tells, and waits a little for an answer.
void Node::end_sweep() {
  send_death_notice();
  job.world.after(micros(job.schedule.timeout()) / 25, [this] {
    bool const unread = (job.schedule.seed + index) % 2 == 1;  // often by now
    close_everything(unread ? rdzv::Ended::broken : rdzv::Ended::in_order);
    job.network.close(standby());
    job.network.close({host, kRendezvousPort});
  });
}

void Node::send_death_notice() {
  if (!sweeps_) {
    job.network.close(standby());
  }
  for (auto const& recipient : death_notice_.recipients) {
    job.network.call(
        host, recipient.port == 0 ? home_ : address_of(recipient), [this, gone = death_notice_.gone](Called result) {
          if (result.end != nullptr && (parent.alive() || sweeps_)) {
            job.network.send(result.end, hello(rdzv::Hello::Purpose::death_notice, rdzv::Hello::Asks::follow));
            job.network.send(result.end, rdzv::ToCoordinator(gone));
            job.network.hang_up(result.end);
          }
        });
  }
  death_notice_ = {};
}

void Node::vanishes() {
  killed = killed || process.alive();
  process.die();
  parent.die();
  hosted.die();
  if (workers) {
    workers->vanish();
  }
}

}  // namespace cxxrun::simulation
