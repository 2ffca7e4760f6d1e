#include "cxxrun/worker_env.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace cxxrun {
namespace {

// Reads variables one by one and keeps the first complaint, so that the caller checks once.
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
    Number n{};
    auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc{} || end != value.data() + value.size() || n < least || n > most) {
      std::string const bound = most == std::numeric_limits<Number>::max() ? " up" : " to " + std::to_string(most);
      complain(std::string(name) + " is \"" + std::string(value) + "\", not a number from " + std::to_string(least) +
               bound);
      return least;
    }
    return n;
  }

  std::function<char const*(char const*)> const& lookup_;
  std::optional<Error> error_;
};

constexpr int kMost = std::numeric_limits<int>::max();

std::optional<StoreAddress> read_store(Reader& env) {
  bool const own = env.has("CXXRUN_STORE_ADDR") || env.has("CXXRUN_STORE_PORT");
  char const* const host = own ? "CXXRUN_STORE_ADDR" : "MASTER_ADDR";
  char const* const port = own ? "CXXRUN_STORE_PORT" : "MASTER_PORT";
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
    me.local_world_size = env.required("LOCAL_WORLD_SIZE", 1, me.world_size);
    me.local_rank = env.required("LOCAL_RANK", 0, me.local_world_size - 1);
    me.group_world_size = env.optional("GROUP_WORLD_SIZE", 1, 1, me.world_size);
    me.group_rank = env.optional("GROUP_RANK", 0, 0, me.group_world_size - 1);
    if (me.world_size > 1 && !env.error()) {
      me.store = read_store(env);
      if (!me.store) {
        env.complain("MASTER_ADDR is not set, so the " + std::to_string(me.world_size) +
                     " workers cannot find each other; start the program with cxxrun");
      }
    } else {
      me.store = read_store(env);
    }
  }
  me.store_unserved = me.store && !env.has("CXXRUN_STORE_ADDR") && env.text("TORCHELASTIC_USE_AGENT_STORE") != "True";
  me.generation = env.optional<std::uint64_t>("CXXRUN_GENERATION", 0, 0, std::numeric_limits<std::uint64_t>::max());
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
