#include "rendezvous/net/run_table.hpp"

#include <algorithm>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kRemembered = 256;   ///< runs; agents of an older step no longer come late
constexpr std::size_t kNamed = 8;          ///< runs that an error line lists
constexpr std::size_t kMostFromOne = 256;  ///< active runs opened from one address: each has a store with a port

/// For a const table and for a mutable one. Null: none.
template <class Table>
auto entry_of(Table& table, RunKey run) -> decltype(table.runs.data()) {
  auto const it =
      std::find_if(table.runs.begin(), table.runs.end(), [&](RunEntry const& entry) { return entry.key == run; });
  return it == table.runs.end() ? nullptr : &*it;
}

/// The latest run with this id or step; null: none.
RunEntry const* latest(RunTable const& table, std::string const& id) {
  auto const it = std::find_if(table.runs.rbegin(), table.runs.rend(), [&](RunEntry const& entry) {
    return entry.id == id || (!id.empty() && entry.step == id);
  });
  return it == table.runs.rend() ? nullptr : &*it;
}

/// "12.0, 12.1", at most eight of them.
std::string names_of(std::vector<RunEntry const*> const& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i == kNamed) {
      return text + ", …";
    }
    text += (i == 0 ? "" : ", ") + runs[i]->id;
  }
  return text;
}

/// Whether a run on standby will do, too: for a follower and for a death notice.
bool follows(Hello const& hello) {
  return hello.asks == Hello::Asks::follow || hello.purpose == Hello::Purpose::death_notice;
}

Elsewhere other_agent(std::string const& id) {
  return Elsewhere{"another agent coordinates " + id};
}

Place place_newcomer(RunTable const& table, std::string const& id) {
  std::vector<RunEntry const*> active;
  for (auto const& entry : table.runs) {
    if (entry.active && !entry.standby) {
      active.push_back(&entry);
    }
  }
  auto const wanted =
      std::find_if(active.begin(), active.end(), [&](RunEntry const* entry) { return entry->id == id; });
  if (wanted != active.end()) {
    return Belongs{(*wanted)->key};
  }
  if (id.empty() && active.size() == 1) {
    return Belongs{active.front()->key};
  }
  if (active.empty() && !table.runs.empty() && table.runs.back().standby) {
    return other_agent(table.runs.back().id);
  }
  if (active.empty()) {
    return TurnedAway{kExitCoordinatorLost, "there is no run here to join"};
  }
  return TurnedAway{kExitUsage, (id.empty() ? "several steps run here: " : id + " does not run here, but ") +
                                    names_of(active) + "; say which one with --join JOBID.STEP"};
}

Elsewhere elsewhere(RunTable const& table, std::string const& id) {
  if (!table.only_id.empty()) {
    return Elsewhere{"this is the rendezvous of " + table.only_id + ", not of " + id};
  }
  return Elsewhere{table.serves_all || table.runs.empty() ? "nothing called " + id + " runs here"
                                                          : "this is job " + table.runs.back().id + ", not " + id};
}

char const* option_of(Tie tie) {
  switch (tie) {
    case Tie::rank: return "--quorum majority";
    case Tie::fence: return "--fence";
    case Tie::none: return "--quorum none";
  }
  return "";
}

/// The first term that differs from the run's, in one line that names the option; "" = they agree.
std::string disagreement(Terms const& run, Terms const& agent) {
  auto const range = [](Terms const& terms) {
    return std::to_string(terms.min_nodes) +
           (terms.min_nodes == terms.max_nodes ? "" : ":" + std::to_string(terms.max_nodes));
  };
  auto const restarts = [](Terms const& terms) {
    return std::to_string(terms.max_restarts) + (terms.max_restarts_given ? "" : " (not given)");
  };
  auto const on_off = [](bool on) { return std::string(on ? "on" : "off"); };
  auto const when = [](Terms const& terms) { return std::string(terms.scale_out_now ? "now" : "at-restart"); };
  auto const access = [](store::StoreAccess who) {
    return std::string(who == store::StoreAccess::user ? "user" : who == store::StoreAccess::hosts ? "hosts" : "any");
  };
  struct Term {
    std::string what;
    std::string ours;
    std::string theirs;
  };
  Term const all[] = {
      // NOLINT(modernize-avoid-c-arrays)
      {"--nnodes is ", range(run), range(agent)},
      {"--max-restarts is ", restarts(run), restarts(agent)},
      {"--heartbeat-timeout is ", seconds_text(run.heartbeat_timeout), seconds_text(agent.heartbeat_timeout)},
      {"", option_of(run.tie), option_of(agent.tie)},
      {"--scale-out is ", when(run), when(agent)},
      {"--restart-window is ", seconds_text(run.restart_window), seconds_text(agent.restart_window)},
      {"--restart-delay is ", seconds_text(run.restart_delay), seconds_text(agent.restart_delay)},
      {"--hang-timeout is ", seconds_text(run.hang_timeout), seconds_text(agent.hang_timeout)},
      {"--store-access is ", access(run.store_access), access(agent.store_access)},
      {"--agent-store is ", on_off(run.agent_store), on_off(agent.agent_store)},
      {"--master-port is ", std::to_string(run.master_port), std::to_string(agent.master_port)}};
  for (auto const& [what, ours, theirs] : all) {
    if (ours != theirs) {
      std::string line = what;
      line.append(ours).append(what.empty() ? " holds" : "").append(" in this run but ").append(theirs);
      return line.append(" here: give the same to every agent, or --join JOBID to an agent that is added");
    }
  }
  return {};
}

/// Why an agent at this address may open no further run; "" = it may.
std::string too_many_runs(RunTable const& table, std::string const& address) {
  auto const theirs =
      static_cast<std::size_t>(std::count_if(table.runs.begin(), table.runs.end(), [&](RunEntry const& entry) {
        return entry.active && entry.opened_from == address;
      }));
  return theirs < kMostFromOne
             ? ""
             : "agents at " + address + " have " + std::to_string(theirs) + " active runs, which is the limit";
}

}  // namespace

Place place(RunTable const& table, Hello const& hello) {
  using Asks = Hello::Asks;
  if (hello.asks == Asks::enter) {
    return place_newcomer(table, hello.run_id);
  }
  RunEntry const* const known = latest(table, hello.run_id);
  if (known != nullptr && known->lingers && follows(hello)) {
    return Belongs{known->key};
  }
  if (known != nullptr && known->active) {
    return known->standby && !follows(hello) ? Place(other_agent(known->id)) : Belongs{known->key};
  }
  bool const may_open = table.serves_all && (table.only_id.empty() || table.only_id == hello.run_id);
  if (may_open && (hello.asks == Asks::reopen || (hello.asks == Asks::open && known == nullptr))) {
    return Opens{};
  }
  if (known != nullptr) {
    return TurnedAway{known->exit_code, "the job is over: " + known->summary, known->lingers ? known->key : 0};
  }
  return elsewhere(table, hello.run_id);
}

Place admit(RunTable const& table, Hello const& hello, Join const& join, std::string const& from) {
  Place where = place(table, hello);
  if (auto const* other = std::get_if<Elsewhere>(&where)) {
    RunEntry const* const known = latest(table, hello.run_id);
    bool const stepped_down = known != nullptr && known->standby;  // since the hello
    return TurnedAway{stepped_down ? kExitCoordinatorLost : kExitUsage, other->why};
  }
  if (std::holds_alternative<Opens>(where) && !join.terms) {
    return TurnedAway{kExitUsage, hello.run_id + " cannot begin with an agent that brings no terms"};
  }
  if (auto why = too_many_runs(table, from); std::holds_alternative<Opens>(where) && !why.empty()) {
    return TurnedAway{kExitSystem, std::move(why)};
  }
  auto const* belongs = std::get_if<Belongs>(&where);
  RunEntry const* const needs = belongs != nullptr && !join.terms ? find_run(table, belongs->run) : nullptr;
  if (needs != nullptr && needs->terms.expected_nodes && needs->number > 0 && hello.asks == Hello::Asks::meet) {
    return TurnedAway{kExitUsage,
                      "the job has started without this node"};  // it joins only to say that it takes no part
  }
  if (belongs == nullptr || !join.terms) {
    return where;
  }
  auto const& run = *find_run(table, belongs->run);
  if (auto line = disagreement(run.terms, *join.terms); !line.empty()) {
    bool const needed =
        run.active && run.number == 0 && run.terms.expected_nodes && join.node.node_index && !table.serves_all;
    return TurnedAway{kExitUsage, std::move(line), needed ? run.key : 0};
  }
  if (run.terms.max_nodes == 1 && !table.serves_all && !join.node.coordinates) {
    return TurnedAway{kExitSystem, "another job " + run.id +
                                       " of one node has this port; choose another one with --rdzv-endpoint HOST:PORT"};
  }
  return where;
}

HelloReply answer_to(RunTable const& table, Hello const& hello, std::string const& coordinator,
                     Arrival const& arrival) {
  HelloReply reply;
  reply.coordinator = coordinator;
  reply.run_id = hello.run_id;
  Place const where = place(table, hello);
  reply.seen = arrival.seen;
  if (hello.version != kProtocolVersion) {
    reply.why = HelloReply::Why::other_version;
    reply.refused = "this coordinator speaks protocol version " + std::to_string(kProtocolVersion) +
                    ", the agent version " + std::to_string(hello.version);
  } else if (arrival.way == Way::relayed && arrival.guarded) {
    reply.why = HelloReply::Why::relayed;
    reply.refused = relayed_line(hello.ends, arrival.seen);
  } else if (auto const* other = std::get_if<Elsewhere>(&where)) {
    reply.why = HelloReply::Why::other_job;
    reply.refused = other->why;
  } else if (auto const* belongs = std::get_if<Belongs>(&where)) {
    auto const& run = *find_run(table, belongs->run);
    reply.run_id = run.id;
    bool const newcomer = hello.asks != Hello::Asks::enter && hello.nonce != coordinator;
    if (newcomer && run.terms.max_nodes == 1 && run.active && !table.serves_all) {
      reply.why = HelloReply::Why::other_job;
      reply.refused = "another job " + run.id + " of one node has this port";
    }
    if (hello.asks == Hello::Asks::enter) {
      reply.terms = run.terms;
    }
  }
  return reply;
}

RunEntry const& open_run(RunTable& table, std::string const& id, Terms const& terms, std::string const& from,
                         std::string const& step) {
  bool const alone =
      std::none_of(table.runs.begin(), table.runs.end(), [](RunEntry const& entry) { return entry.active; });
  if (table.runs.size() >= kRemembered) {
    auto const oldest = std::find_if(table.runs.begin(), table.runs.end(), [](RunEntry const& entry) {
      return !entry.active && !entry.lingers;  // the coordinator still needs a run that lingers
    });
    if (oldest != table.runs.end()) {
      table.runs.erase(oldest);
    }
  }
  RunEntry entry;
  entry.key = ++table.last_key;
  entry.id = id;
  entry.step = step;
  entry.terms = terms;
  entry.opened_from = from;
  entry.number = table.number;
  entry.restarts = alone ? table.inherited : 0;
  return table.runs.emplace_back(std::move(entry));
}

void note_progress(RunTable& table, RunKey run, std::uint64_t number, std::uint32_t restarts, bool leads) {
  table.number = std::max(table.number, number);
  if (RunEntry* const entry = entry_of(table, run)) {
    entry->number = number;
    entry->restarts = restarts;
    entry->standby = !leads;
  }
}

void forget_run(RunTable& table, RunKey run) {
  std::erase_if(table.runs, [run](RunEntry const& entry) { return entry.key == run; });
}

void note_verdict(RunTable& table, RunKey run, Verdict const& verdict) {
  RunEntry* const entry = entry_of(table, run);
  if (entry == nullptr) {
    return;
  }
  entry->active = false;
  entry->lingers = true;
  entry->exit_code = verdict.exit_code;
  entry->summary = verdict.summary;
  table.inherited = verdict.end == End::success ? 0 : verdict.restarts;
}

void note_closed(RunTable& table, RunKey run) {
  if (RunEntry* const entry = entry_of(table, run)) {
    entry->lingers = false;
  }
}

RunEntry const* find_run(RunTable const& table, RunKey run) {
  return entry_of(table, run);
}

}  // namespace cxxrun::rendezvous
