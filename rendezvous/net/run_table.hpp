// RunTable: which run of a coordinator a calling agent belongs to. Pure.
//
// A run is one launch of cxxrun, from the first agent that joins to the verdict. A coordinator inside an agent has one,
// opened by that agent. cxxrun-rendezvous has the runs of a whole job, one after another or several at once, opened by
// whoever calls first. The rules are a table in docs/use/rendezvous.md.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

/// One run of this coordinator; given out in the order of opening, never reused.
using RunKey = std::uint32_t;

struct RunEntry {
  RunKey key = 0;
  std::string id;
  std::string step;         ///< its other name: Slurm's job and step, whatever --rdzv-id says; "" = none
  bool active = true;       ///< until its verdict
  bool lingers = false;     ///< it has its verdict, and tells it to members that call late
  bool standby = false;     ///< another agent coordinates: only who follows is let in
  std::string opened_from;  ///< address of the agent that did; "" = this one
  Terms terms;
  std::uint64_t number = 0;    ///< last generation number given out
  std::uint32_t restarts = 0;  ///< consumed
  int exit_code = 0;           ///< of its verdict
  std::string summary;         ///< of its verdict
};

struct RunTable {
  bool serves_all = false;      ///< agents open runs; false: only its owner does, with open_run
  std::string only_id;          ///< serve this run id alone; "" = any
  std::vector<RunEntry> runs;   ///< the active ones and the last few that are over, oldest first
  RunKey last_key = 0;          ///< 0: none was opened yet
  std::uint64_t number = 0;     ///< highest generation number that any run has given out
  std::uint32_t inherited = 0;  ///< restarts that the last run to end used in vain; 0 after a success
};

/// The agent belongs to this active run.
struct Belongs {
  RunKey run;
  bool operator==(Belongs const&) const = default;
};
/// The agent opens a run of its run id.
struct Opens {
  bool operator==(Opens const&) const = default;
};
/// Another coordinator is meant: the agent may try its next port.
struct Elsewhere {
  std::string why;
  bool operator==(Elsewhere const&) const = default;
};
/// The agent has to leave.
struct TurnedAway {
  int exit_code;
  std::string why;
  RunKey of = 0;  ///< the run that is not complete without it; 0: none
  bool operator==(TurnedAway const&) const = default;
};
using Place = std::variant<Belongs, Opens, Elsewhere, TurnedAway>;

/// Where an agent belongs that says this hello. Asked twice, at the hello and at the join: others may have come or
/// gone in between.
[[nodiscard]] Place place(RunTable const& table, Hello const& hello);

/// The same for an agent that joins: one that wants other terms than its run has, or opens one without any, is turned
/// away; so is one that wanted a run of one node and found its port taken by another, and one that would open more runs
/// than agents `from` its address may. Never Elsewhere.
[[nodiscard]] Place admit(RunTable const& table, Hello const& hello, Join const& join, std::string const& from);

/// How a hello has come.
struct Arrival {
  BothEnds seen;  ///< as seen from here
  Way way = Way::direct;
  bool guarded = true;  ///< who is relayed is turned away; false: --auth none
};
/// The answer to a hello.
[[nodiscard]] HelloReply answer_to(RunTable const& table, Hello const& hello, std::string const& coordinator,
                                   Arrival const& arrival = {});

/// Opens a run and returns its entry. It goes on with the generation numbers of all runs before it, so that a number
/// never comes back; and with the restart count of the last one when that ended without success and nobody else
/// runs: it is the same job, launched again.
RunEntry const& open_run(RunTable& table, std::string const& id, Terms const& terms, std::string const& from = "",
                         std::string const& step = "");
/// The run has come this far. `leads`: it decides, and is not (or no more) waiting for the loss of who does.
void note_progress(RunTable& table, RunKey run, std::uint64_t number, std::uint32_t restarts, bool leads = true);
/// The run has no verdict here: another coordinator goes on with it.
void forget_run(RunTable& table, RunKey run);
/// The run has its verdict.
void note_verdict(RunTable& table, RunKey run, Verdict const& verdict);
/// Nobody of it is left.
void note_closed(RunTable& table, RunKey run);

/// The entry of a run, nothing when it is forgotten.
[[nodiscard]] RunEntry const* find_run(RunTable const& table, RunKey run);
}  // namespace cxxrun::rendezvous
