#include "cxxrun/worker_env.hpp"

#include <cstdlib>
#include <limits>
#include <string_view>

#include "src/base/core/hostlist.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"

namespace cxxrun {
namespace {

// Reads variables one by one and keeps the first error, so that the caller checks once.
class Reader {
 public:
  explicit Reader(std::function<char const*(char const*)> const& lookup) : lookup_(lookup) {}

  [[nodiscard]] std::string_view text(char const* name) const {
    char const* const value = lookup_(name);
    return value == nullptr ? std::string_view{} : std::string_view{value};
  }
  // An empty variable counts as missing: `RANK= ./train` is a mistake, not a rank.
  [[nodiscard]] bool has(char const* name) const { return !text(name).empty(); }

  template <class Number>
  Number required(char const* name, Number least, Number most) {
    if (!has(name)) {
      complain(std::string(name) + " is not set, but other variables of a launcher are; start the program with " +
               "cxxrun, or unset RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE to run it alone");
      return least;
    }
    return number(name, least, most);
  }

  /// For a variable of another program: a value that is not a number counts as missing, and is no error.
  template <class Number = int>
  [[nodiscard]] std::optional<Number> peek(char const* name) const {
    return number_in<Number>(text(name));
  }

  template <class Number>
  Number optional(char const* name, Number fallback, Number least, Number most) {
    return has(name) ? number(name, least, most) : fallback;
  }

  void complain(std::string why) {
    if (!error_) {
      error_ = fail(Errc::environment, std::move(why));
    }
  }
  [[nodiscard]] std::optional<Error> const& error() const { return error_; }

 private:
  template <class Number>
  Number number(char const* name, Number least, Number most) {
    std::string_view const value = text(name);
    auto const n = number_in<Number>(value);
    if (!n || *n < least || *n > most) {
      std::string const bound = most == std::numeric_limits<Number>::max() ? " up" : " to " + std::to_string(most);
      complain(std::string(name) + " is \"" + std::string(value) + "\", not a number from " + std::to_string(least) +
               bound);
      return least;
    }
    return *n;
  }

  std::function<char const*(char const*)> const& lookup_;
  std::optional<Error> error_;
};

constexpr int kMost = std::numeric_limits<int>::max();

// The number of tasks on node `index`, from a list like "4(x2),2".
std::optional<int> tasks_of_node(std::string_view list, std::optional<std::size_t> index) {
  auto const tasks = expand_counts(list);
  return tasks && index && *index < tasks->size() ? std::optional(static_cast<int>((*tasks)[*index])) : std::nullopt;
}

struct Place {
  std::optional<int> rank;
  std::optional<int> size;
};

// The place on this node that srun or mpirun assigned, if RANK and WORLD_SIZE repeat their numbers. In a batch script
// Slurm's variables describe the script, so the check uses the step's own task count.
Place place_on_node(Reader const& env, int rank, int world) {
  auto const numbered = [&](char const* its_rank, char const* its_world) {
    return env.peek(its_rank) == rank && env.peek(its_world) == world;
  };
  if (world == 1) {
    return {0, 1};
  }
  if (numbered("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    return {env.peek("OMPI_COMM_WORLD_LOCAL_RANK"), env.peek("OMPI_COMM_WORLD_LOCAL_SIZE")};
  }
  if (numbered("PMI_RANK", "PMI_SIZE") && env.has("MPI_LOCALRANKID")) {  // MPICH and its derivatives
    return {env.peek("MPI_LOCALRANKID"), env.peek("MPI_LOCALNRANKS")};
  }
  if (numbered("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")) {
    return {env.peek("SLURM_LOCALID"),
            tasks_of_node(env.text("SLURM_STEP_TASKS_PER_NODE"), env.peek<std::size_t>("SLURM_NODEID"))};
  }
  return {};
}

void read_place(Reader& env, WorkerEnv& me) {
  Place const place = place_on_node(env, me.rank, me.world_size);
  bool const named = env.has("RANK") && env.has("WORLD_SIZE");
  if (named && !env.has("LOCAL_RANK") && !place.rank) {
    env.complain(
        "LOCAL_RANK is not set, but RANK is; set it to $SLURM_LOCALID under srun, to $OMPI_COMM_WORLD_LOCAL_RANK "
        "under mpirun, or start the program with cxxrun");
  }
  if (named && !env.has("LOCAL_WORLD_SIZE") && !place.size) {
    env.complain(
        "LOCAL_WORLD_SIZE is not set, but RANK is; set it to the number of ranks on this node, or start the "
        "program with cxxrun");
  }
  me.local_world_size = env.optional("LOCAL_WORLD_SIZE", place.size.value_or(1), 1, me.world_size);
  me.local_rank = env.optional("LOCAL_RANK", place.rank.value_or(0), 0, me.local_world_size - 1);
}

std::optional<StoreAddress> read_store(Reader& env) {
  bool const own = env.has(variables::kStoreAddr) || env.has(variables::kStorePort);
  char const* const host = own ? variables::kStoreAddr : "MASTER_ADDR";
  char const* const port = own ? variables::kStorePort : "MASTER_PORT";
  if (!env.has(host) && !env.has(port)) {
    return std::nullopt;
  }
  if (!env.has(host) || !env.has(port)) {
    env.complain(std::string(env.has(host) ? port : host) + " is not set, but " + (env.has(host) ? host : port) +
                 " is; the store needs both");
    return std::nullopt;
  }
  return StoreAddress{std::string(env.text(host)), static_cast<std::uint16_t>(env.optional(port, 0, 1, 65535))};
}

}  // namespace

Result<WorkerEnv> WorkerEnv::from(std::function<char const*(char const*)> const& lookup) {
  Reader env(lookup);
  WorkerEnv me;
  if (env.has("RANK") || env.has("WORLD_SIZE") || env.has("LOCAL_RANK") || env.has("LOCAL_WORLD_SIZE")) {
    me.world_size = env.required("WORLD_SIZE", 1, kMost);
    me.rank = env.required("RANK", 0, me.world_size - 1);
    read_place(env, me);
    me.group_world_size = env.optional("GROUP_WORLD_SIZE", 1, 1, me.world_size);
    me.group_rank = env.optional("GROUP_RANK", 0, 0, me.group_world_size - 1);
    me.store = read_store(env);
    if (me.world_size > 1 && !me.store) {
      env.complain("MASTER_ADDR is not set, so the " + std::to_string(me.world_size) +
                   " workers cannot find each other; start the program with cxxrun");
    }
  }
  me.store_unserved = me.store && !env.has(variables::kStoreAddr) && env.text("TORCHELASTIC_USE_AGENT_STORE") != "True";
  me.generation = env.optional<std::uint64_t>(variables::kGeneration, 0, 0, std::numeric_limits<std::uint64_t>::max());
  me.restart_count = env.optional("TORCHELASTIC_RESTART_COUNT", 0, 0, kMost);
  me.run_id = env.text("TORCHELASTIC_RUN_ID");
  if (env.error()) {
    return *env.error();
  }
  return me;
}

Result<WorkerEnv> WorkerEnv::from_environment() {
  return from([](char const* name) -> char const* { return std::getenv(name); });
}

}  // namespace cxxrun
