// RunTable: decides which run of a coordinator a calling agent belongs to. Pure.
//
// A run is one launch of cxxrun, from the first agent that joins to the verdict. A coordinator inside an agent has one
// run, which that agent opens. cxxrun-rendezvous has all runs of a job, one after another or several at once, each
// opened by the agent that calls first. The rules are a table in docs/use/rendezvous.md.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

/// Identifies a run of this coordinator. Keys count up and are never reused.
using RunKey = std::uint32_t;

struct RunEntry {
  RunKey key = 0;
  std::string id;
  std::string step;         ///< its other name: Slurm's job and step, whatever --rdzv-id is; "" = none
  bool active = true;       ///< it has no verdict yet
  bool lingers = false;     ///< it has a verdict, which it tells members that call late
  bool standby = false;     ///< another agent coordinates it: only followers are let in
  std::string opened_from;  ///< address of the agent that opened it; "" = this one
  Terms terms;
  std::uint64_t number = 0;    ///< last generation number used
  std::uint32_t restarts = 0;  ///< consumed
  int exit_code = 0;           ///< of its verdict
  std::string summary;         ///< of its verdict
};

struct RunTable {
  bool serves_all = false;      ///< agents open runs; false: only the owner of the coordinator does
  std::string only_id;          ///< the only run id that is served; "" = any
  std::vector<RunEntry> runs;   ///< active ones and the latest that are over, oldest first
  RunKey last_key = 0;          ///< 0: none was opened yet
  std::uint64_t number = 0;     ///< highest generation number of all runs
  std::uint32_t inherited = 0;  ///< restarts consumed by the last run that ended; 0 if it succeeded
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
/// The agent must exit.
struct TurnedAway {
  int exit_code;
  std::string why;
  RunKey of = 0;  ///< the run that must learn of this: it needs the agent, or tells it the verdict; 0: none
  bool operator==(TurnedAway const&) const = default;
};
using Place = std::variant<Belongs, Opens, Elsewhere, TurnedAway>;

/// Where the agent of this hello belongs. Asked at the hello and again at the join, since runs may have changed in
/// between.
[[nodiscard]] Place place(RunTable const& table, Hello const& hello);

/// The same for an agent that joins. It is turned away if its terms differ from those of the run, if it would open a
/// run without terms, if a run of a single node has the port, or if agents at `from` have too many runs. Never
/// Elsewhere.
[[nodiscard]] Place admit(RunTable const& table, Hello const& hello, Join const& join, std::string const& from);

/// How a hello arrived.
struct Arrival {
  BothEnds seen;  ///< ends of the connection as the coordinator sees them
  Way way = Way::direct;
  bool guarded = true;  ///< relayed callers are turned away; false: --auth none
};
/// The answer to a hello.
[[nodiscard]] HelloReply answer_to(RunTable const& table, Hello const& hello, std::string const& coordinator,
                                   Arrival const& arrival = {});

/// Opens a run and returns its entry. Generation numbers continue from all runs before it, so that none is used twice.
/// The restart count continues from the last run if that failed and no other run is active: it is the same job,
/// launched again.
RunEntry const& open_run(RunTable& table, std::string const& id, Terms const& terms, std::string const& from = "",
                         std::string const& step = "");
/// The run has come this far. `leads`: it decides; false: it is on standby.
void note_progress(RunTable& table, RunKey run, std::uint64_t number, std::uint32_t restarts, bool leads = true);
/// Another coordinator continues the run, so it gets no verdict here.
void forget_run(RunTable& table, RunKey run);
/// The run has its verdict.
void note_verdict(RunTable& table, RunKey run, Verdict const& verdict);
/// The last agent of the run is gone.
void note_closed(RunTable& table, RunKey run);

/// Null: the run is forgotten.
[[nodiscard]] RunEntry const* find_run(RunTable const& table, RunKey run);

}  // namespace cxxrun::rendezvous
