#include "src/runtime/client/generations.hpp"

#include <cassert>
#include <memory>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

/// After a failure to meet the others, how long to wait for the agent to say that the generation is over: the store
/// goes first.
constexpr Millis kAgentHears{5000};

Generations::Generations(WorkerEnv env, Communicator::Options const& options)
    : env_(std::move(env)), options_(options), lookup_(worker::own_variables()) {
  if (env_.generation > 0) {
    link_ = worker::process_link(lookup_, {.generation = env_.generation,
                                           .local_rank = static_cast<std::uint32_t>(env_.local_rank),
                                           .survives = options_.survive,
                                           .shrinks = options_.survive && options_.shrink});
  }
}

JoinResult Generations::join() {
  auto joined = meet([this](JoinOptions const& options) { return client::join(env_, options); });
  before_ = std::exchange(met_, env_.generation);
  return joined;
}

JoinResult Generations::split(SplitParent const& parent, comm::Wish wish) {
  return meet([&](JoinOptions const& options) { return client::split(env_, options, parent, wish); });
}

JoinResult Generations::meet(std::function<JoinResult(JoinOptions const&)> const& how) {
  JoinOptions join_options{options_, lookup_};
  std::function<void()> tell;
  if (can_go_on()) {
    join_options.over = std::make_shared<Interruption>();
    tell = [over = join_options.over] { over->raise(); };
  }
  // A process that does not survive is asked to give up like the others, and must answer: otherwise it is ended as
  // hung.
  auto const watching = watch(std::move(tell), [give_up = join_options.early_give_up](std::function<void()> answer) {
    give_up->request(std::move(answer));
  });
  auto const began = Clock::now();  // NOLINT(clang-analyzer-deadcode.DeadStores): read after the catch
  try {
    return how(join_options);
  } catch (Failure const& failure) {
    if (join_options.over == nullptr || !is_of_the_end(failure, *join_options.over)) {
      throw;
    }
  }
  host::throw_failure(host::stopped_by_launcher(), env_.generation, began);
}

bool Generations::is_of_the_end(Failure const& failure, Interruption const& over) const {
  switch (failure.error().code) {
    case Errc::closed:
    case Errc::timeout:
    case Errc::io: return over.wait(kAgentHears);
    default: return over.raised();
  }
}

worker::Recorder Generations::recorder() {
  return link_ == nullptr ? worker::Recorder()
                          : worker::Recorder(link_->page(), env_.generation, link_->claim(env_.generation));
}

worker::AgentLink::Watch Generations::watch(std::function<void()> tell, worker::AgentLink::Hurry hurry) const {
  return link_ == nullptr ? worker::AgentLink::Watch()
                          : link_->watch(env_.generation, std::move(tell), std::move(hurry));
}

void Generations::await_next(std::string const& why) {
  assert(link_ != nullptr);  // can_go_on()
  auto const resume = link_->next_generation({.generation = env_.generation, .why = why});
  auto lookup = worker::variables_of(resume.environment);
  auto env = or_throw(WorkerEnv::from(lookup));
  env.generation = resume.generation;
  env_ = std::move(env);
  lookup_ = std::move(lookup);
}

}  // namespace cxxrun::client
