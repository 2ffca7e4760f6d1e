// Table: reads the answers of a job: the live table, stacks, the ends of files. Pure and total.
//
// The answers come from another process, maybe of another version, and contain what workers and hosts say of
// themselves. Every text is made safe to show here; a field that is missing or absurd counts as unknown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/live/gpus.hpp"
#include "launcher/live/question.hpp"
#include "rendezvous/values/history.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::view {

/// The answer to `who`.
struct Who {
  std::string run_id;
  std::string step;
  std::string host;
};

struct Worker {
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::optional<Millis> step_ago;
  std::optional<Millis> per_step;
  std::uint64_t begun = 0;
  bool waits = false;
  std::uint64_t memory_mib = 0;
  std::uint64_t permille = 0;
  char state = '?';
  std::optional<live::Gpu> gpu{};
};

struct Node {
  std::string host;
  std::uint64_t generation = 0;
  Millis heard_ago{0};
  std::vector<Worker> workers;
  bool gpus_silent = false;  ///< the driver of its GPUs does not answer
};

struct Table {
  std::string run_id;
  std::string coordinator;
  std::string program;
  std::string phase;
  Millis phase_age{0};
  Millis job_age{0};
  std::uint64_t generation = 0;
  std::optional<Millis> generation_age;
  std::uint64_t nodes = 0;  ///< of the generation
  std::uint64_t ranks = 0;
  std::uint64_t restarts = 0;
  std::optional<std::uint64_t> max_restarts;
  std::optional<std::uint64_t> nodes_lost;  ///< as far as the coordinator knows
  std::optional<Millis> checkpoint_age;     ///< of the state that the newest known checkpoint holds
  std::optional<Millis> hour_ago_per_step;  ///< the usual time of a step an hour ago
  std::optional<rendezvous::Account> account;
  bool steps_known = false;  ///< the program has told of a training step
  std::string why;
  std::vector<Node> members;  ///< ordered by the ranks of their workers
  bool gpus = false;          ///< there is a worker with a GPU that is known
  struct Slow {
    std::uint32_t rank = 0;   ///< the first one
    std::uint32_t ranks = 1;  ///< more than 1: all of a node
    std::string host;
    Millis late{0};  ///< in each step
    std::uint64_t percent = 0;
    std::string source;
    std::string spent;
    std::string says;
  };
  std::vector<Slow> slow;  ///< ranks that the others wait for
  struct Event {
    Millis at{0};  ///< since the job's start
    std::string text;
  };
  std::vector<Event> events;  ///< the newest, oldest first
};

/// Errors: refused (the words of the other side), protocol (not such an answer).
[[nodiscard]] Result<Who> read_who(std::string const& answer);
[[nodiscard]] Result<Table> read_table(std::string const& answer);
/// The same of an answer that may not have come.
[[nodiscard]] Result<Table> read_table(Result<std::string> const& answer);

/// Training in thousandths of the time of the job so far, rounded down. Nothing: the program tells of no steps.
[[nodiscard]] std::optional<std::uint64_t> goodput(Table const& table);
/// The ranks that are slow, at most so many.
[[nodiscard]] std::vector<std::uint32_t> slow_ranks(Table const& table, std::size_t most);

/// The stack of one worker.
struct Stack {
  std::uint32_t rank = 0;
  std::string host;
  std::string place;
  std::vector<std::string> frames;
};
struct Tail {
  std::uint32_t rank = 0;
  std::string host;
  std::string file;
  std::string text;                                    ///< as the worker wrote it, control characters included
  std::uint64_t left_out = 0;                          ///< bytes before it that were too many
  std::optional<live::LogPlace> place = std::nullopt;  ///< what comes next is to be asked for with it
};
/// An answer of several lines. A line with "error" goes to `errors`.
template <class Item>
struct Items {
  std::vector<Item> items;
  std::vector<std::string> errors;
};
[[nodiscard]] Items<Stack> read_stacks(std::string const& answer);
[[nodiscard]] Items<Tail> read_tails(std::string const& answer);
/// The answer to a question that changes the job.
struct Change {
  std::string done;           ///< what was done; "": nothing, or a checkpoint was asked for
  std::uint64_t asked = 0;    ///< for a checkpoint: workers that could be asked
  std::uint64_t workers = 0;  ///< of so many
  std::vector<std::string> errors;
};
[[nodiscard]] Change read_change(std::string const& answer);
struct Event {
  std::uint64_t number = 0;
  std::string line;   ///< of events.jsonl
  bool last = false;  ///< the verdict: the job is over
};
struct Events : Items<Event> {
  std::string nonce;         ///< of the coordinator; each coordinator numbers its events from 1
  std::uint64_t missed = 0;  ///< so many before the first one are not kept any more
};
[[nodiscard]] Events read_events(std::string const& answer);
/// As a file events.jsonl.
[[nodiscard]] std::string events_file(std::vector<Event> const& events);
/// How far the events of each coordinator have been read: one that loses the job may be elected again.
struct Bookmark {
  std::string nonce;  ///< of the one that has answered last
  std::map<std::string, std::uint64_t> read;
  /// The number to ask with.
  [[nodiscard]] std::uint64_t after() const;
};
/// Moves it behind these lines of the answer to a question with mark.after() and mark.nonce, and drops the events that
/// have been read.
void advance(Bookmark& mark, Events& events);

/// One line of JSON for programs (docs/use/live.md). `says`, `well`: the Judgement.
[[nodiscard]] std::string table_json(Table const& table, std::string const& says, bool well);

}  // namespace cxxrun::launcher::view
