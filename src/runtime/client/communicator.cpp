#include "cxxrun/communicator.hpp"

#include <algorithm>
#include <utility>

#include "src/base/core/call.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/thread.hpp"
#include "src/runtime/client/access.hpp"
#include "src/runtime/client/device_memory.hpp"
#include "src/runtime/client/engine.hpp"
#include "src/runtime/client/generations.hpp"
#include "src/runtime/client/group_registry.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/client/local_facts.hpp"
#include "src/runtime/comm/requests.hpp"

namespace cxxrun {

Work::Work() = default;
Work::Work(std::shared_ptr<client::Engine> engine, std::uint64_t ticket)
    : engine_(std::move(engine)), ticket_(ticket) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

bool Work::done() const {
  return engine_ == nullptr || engine_->done(ticket_);
}

void Work::wait() {
  if (engine_ != nullptr) {
    engine_->wait(ticket_);
  }
}

void Work::wait_on(Stream stream) {
  if (engine_ != nullptr) {
    engine_->wait_on(ticket_, stream);
  }
}

struct Communicator::Impl {
  std::shared_ptr<client::Generations> generations;
  bool is_group = false;
  WorkerEnv env{};  ///< of the world that was met last; a group has its own rank and size here
  std::vector<std::string> hosts{};
  std::vector<int> names{};  ///< by rank: its rank in the world
  std::shared_ptr<client::GroupRegistry> registry{};
  std::shared_ptr<client::Engine> engine{};
  worker::AgentLink::Watch
      watch{};  ///< declared after the engine, so that the link's thread lets go of the engine before it is destroyed
  std::string unmet{};  ///< why the last attempt to meet a world failed
  comm::Requests requests{};
  std::int32_t wanted = 0;  ///< this rank's part of the maximum in progress, and its result
  Work agreeing{};

  [[nodiscard]] int name() const { return names[static_cast<std::size_t>(env.rank)]; }
  [[nodiscard]] std::string here() const { return rank_name(name(), hosts[static_cast<std::size_t>(env.rank)]); }
  [[nodiscard]] std::size_t place(int rank) const {
    if (rank < 0 || rank >= env.world_size) {
      throw Failure(fail(Errc::usage, here() + ": there is no rank " + std::to_string(rank) + ": the ranks are 0 to " +
                                          std::to_string(env.world_size - 1)));
    }
    return static_cast<std::size_t>(rank);
  }
  /// Throws Failure in a forked child.
  void require_own() const {
    if (engine != nullptr) {
      engine->require_own();
    }
  }
  // An invalid call ends the Communicator, so that the others do not wait for this rank's next call.
  void check(comm::Call const& call) const {
    if (is_group && registry->given_up()) {
      throw Failure(fail(Errc::usage, here() + ": " + comm::describe(call) + " in a group of generation " +
                                          std::to_string(env.generation) +
                                          ", which has ended; after rebuild() split the Communicator again"));
    }
    auto why = comm::refusal(call, env.rank, env.world_size);
    if (!why && engine->device() != nullptr) {
      engine->require_own();  // a forked child must not call CUDA
      why = engine->device()->refusal(call);
    } else if (!why) {
      why = client::out_of_reach(call);
    }
    if (why) {
      Failure const failure(fail(Errc::usage, here() + ": " + *why));
      auto const ended = std::make_exception_ptr(failure);
      engine->refuse(failure);
      registry->keep(ended);  // before peers can tell another group that this rank has left
      engine->leave();
      registry->end(ended, here());
    }
  }
  void run(comm::Call const& call) const {
    check(call);
    engine->run(call);
  }

  // If it fails, the old world stays what it was: finished.
  void join() {
    client::JoinResult joined;
    try {
      joined = generations->join();
    } catch (PeerFailure const& failure) {
      unmet = failure.what();
      throw;
    }
    unmet.clear();
    take(std::move(joined));
  }
  void take(client::JoinResult joined) {
    env = generations->env();
    requests.new_generation();
    agreeing = {};
    wanted = 0;
    env.rank = joined.rank;
    env.world_size = static_cast<int>(joined.hosts.size());
    hosts = std::move(joined.hosts);
    names = std::move(joined.names);
    registry = std::move(joined.registry);
    engine = client::Engine::shared(std::move(joined.backend), generations->recorder());
    watch = generations->watch(
        [raw = engine.get()] { raw->abort(host::stopped_by_launcher()); },
        [raw = engine.get()](std::function<void()> answer) { raw->give_up_early(std::move(answer)); });
  }

  /// Null if this rank wants no group.
  std::unique_ptr<Impl> split(comm::Wish wish) {
    auto joined = generations->split({.run = [this](comm::Call const& call) { run(call); },
                                      .throw_trouble = [this] { engine->throw_trouble(); },
                                      .rank = env.rank,
                                      .size = env.world_size,
                                      .registry = registry,
                                      .recorder = generations->recorder()},
                                     wish);
    if (joined.backend == nullptr) {
      return nullptr;
    }
    auto group = std::unique_ptr<Impl>(new Impl{.generations = generations, .is_group = true});
    group->requests = requests;  // the group does not repeat requests that were answered
    group->take(std::move(joined));
    registry->adopt(group->engine);
    return group;
  }

  void give_up() {
    watch.reset();
    if (engine == nullptr) {
      return;
    }
    auto const time = generations->options().abort_deadline;
    os::Watchdog const watchdog(time, here() + ": cannot abort the communicator within " +
                                          std::to_string(time.count()) + " ms: exiting, to be restarted");
    engine->abort(host::stopped_by_launcher());
    registry->give_up();
    engine->close();
  }

  void rebuild() {
    give_up();
    std::string const ended = engine == nullptr ? "" : engine->why();
    std::string const why = ended.empty() && registry != nullptr ? registry->why() : ended;
    generations->await_next(unmet.empty() ? why : unmet);
    join();
  }
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    Communicator const before(std::move(impl_));
    impl_ = std::move(other.impl_);
  }
  return *this;
}
Communicator::~Communicator() {
  if (impl_ != nullptr && impl_->engine != nullptr) {
    impl_->engine->close();  // Works and Arenas may outlive the Communicator
  }
}

Communicator Communicator::init(Options const& options) {
  auto const env = WorkerEnv::from_environment();
  if (!env) {
    throw Failure(client::from_here(env.error()));
  }
  return init(*env, options);
}

Communicator Communicator::init(WorkerEnv const& env, Options const& options) {
  Communicator comm(
      std::unique_ptr<Impl>(new Impl{.generations = std::make_shared<client::Generations>(env, options)}));
  Impl& self = *comm.impl_;
  for (bool first = true;; first = false) {
    try {
      first ? self.join() : self.rebuild();
      return comm;
    } catch (PeerFailure const&) {  // this process is healthy, but has not met a world yet
      if (!self.generations->can_go_on()) {
        throw;
      }
    }
  }
}

void Communicator::rebuild() {
  impl_->require_own();
  if (impl_->is_group) {
    throw Failure(fail(Errc::usage, impl_->here() +
                                        ": rebuild() of a group; call that of the Communicator that was split, and "
                                        "split it again"));
  }
  if (!can_rebuild()) {
    throw Failure(fail(Errc::usage, impl_->here() +
                                        ": rebuild() needs Options::survive, given to the first Communicator"
                                        " of the process, and cxxrun as launcher; a rank that the others gave up "
                                        "cannot"));
  }
  impl_->rebuild();
}
bool Communicator::can_rebuild() const {
  // A rank that the others gave up has to end: nothing else tells the launcher of the failure.
  bool const given_up =
      impl_->engine != nullptr && (impl_->engine->blames(impl_->name()) || impl_->registry->blames(impl_->name()));
  return !impl_->is_group && impl_->generations->can_go_on() && !given_up;
}

void Communicator::report_step(std::uint64_t completed) {
  impl_->require_own();  // in a forked child the page belongs to the parent
  if (auto* const page = impl_->generations->page()) {
    worker::note_step(*page, completed);
  }
}
bool Communicator::checkpoint_wanted() {
  auto const* const page = impl_->generations->page();
  auto const asked = page == nullptr ? 0U : page->checkpoints.load(std::memory_order_relaxed);
  bool const ends = page != nullptr && page->ends.load(std::memory_order_relaxed) != 0;
  std::exchange(impl_->agreeing, Work()).wait();
  bool const alone = world_size() == 1;
  if (alone) {
    barrier();  // throws if the generation is over
  }
  auto const agreed = alone ? impl_->requests.mine(asked, ends) : comm::Wanted{impl_->wanted};
  impl_->wanted = static_cast<std::int32_t>(impl_->requests.answer(agreed, asked, ends));
  if (!alone) {
    impl_->agreeing = start_all_reduce(&impl_->wanted, &impl_->wanted, 1, DType::i32, ReduceOp::max);
  }
  return agreed != comm::Wanted::nothing;
}
bool Communicator::job_ends() const {
  return impl_->requests.last() == comm::Wanted::save_and_end;
}

std::optional<Communicator> Communicator::split(std::optional<int> color, int key) {
  auto group = impl_->split(comm::wish_of(color, key));
  return group == nullptr ? std::nullopt : std::optional(Communicator(std::move(group)));
}

int Communicator::rank() const {
  return impl_->env.rank;
}
int Communicator::world_size() const {
  return impl_->env.world_size;
}
int Communicator::local_rank() const {
  return impl_->env.local_rank;
}
WorkerEnv const& Communicator::env() const {
  return impl_->env;
}
std::uint64_t Communicator::generation() const {
  return impl_->env.generation;
}
std::string const& Communicator::host(int rank) const {
  return impl_->hosts[impl_->place(rank)];
}
int Communicator::world_rank(int rank) const {
  return impl_->names[impl_->place(rank)];
}
std::string Communicator::describe() const {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(world_size()) +
         (impl_->is_group ? " (a group; rank " + std::to_string(impl_->name()) + " of the world)" : "") + " on " +
         host(rank()) + ": " + impl_->engine->describe();
}

void Communicator::all_reduce(void const* in, void* out, std::size_t count, DType type, ReduceOp op) {
  impl_->run({.kind = comm::Kind::all_reduce, .type = type, .op = op, .count = count, .in = in, .out = out});
}
void Communicator::reduce_scatter(void const* in, void* out, std::size_t count, DType type, ReduceOp op) {
  impl_->run({.kind = comm::Kind::reduce_scatter, .type = type, .op = op, .count = count, .in = in, .out = out});
}
void Communicator::all_gather(void const* in, void* out, std::size_t count, DType type) {
  impl_->run({.kind = comm::Kind::all_gather, .type = type, .count = count, .in = in, .out = out});
}
void Communicator::broadcast(void* data, std::size_t count, DType type, int root) {
  impl_->run({.kind = comm::Kind::broadcast, .type = type, .root = root, .count = count, .in = data, .out = data});
}
void Communicator::all_to_all(void const* in, void* out, std::size_t count, DType type) {
  impl_->run({.kind = comm::Kind::all_to_all, .type = type, .count = count, .in = in, .out = out});
}
void Communicator::barrier() {
  impl_->run({.kind = comm::Kind::barrier});
}

// NOLINTBEGIN(readability-function-size): the parameters of a collective
namespace {
comm::Call reduction(comm::Kind kind, void const* in, void* out, std::size_t count, DType type, ReduceOp op, Wire wire,
                     float scale, Stream stream) {
  return {.kind = kind,
          .type = type,
          .op = op,
          .wire = wire,
          .count = count,
          .scale = scale,
          .in = in,
          .out = out,
          .stream = stream};
}
}  // namespace
Work Communicator::start_all_reduce(void const* in, void* out, std::size_t count, DType type, ReduceOp op, Wire wire,
                                    float scale, Stream stream) {
  return client::Access::start(*this, reduction(comm::Kind::all_reduce, in, out, count, type, op, wire, scale, stream));
}
Work Communicator::start_reduce_scatter(void const* in, void* out, std::size_t count, DType type, ReduceOp op,
                                        Wire wire, float scale, Stream stream) {
  return client::Access::start(*this,
                               reduction(comm::Kind::reduce_scatter, in, out, count, type, op, wire, scale, stream));
}
// NOLINTEND(readability-function-size)
Work Communicator::start_all_gather(void const* in, void* out, std::size_t count, DType type, Stream stream) {
  return client::Access::start(
      *this, {.kind = comm::Kind::all_gather, .type = type, .count = count, .in = in, .out = out, .stream = stream});
}
Work Communicator::start_broadcast(void* data, std::size_t count, DType type, int root, Stream stream) {
  return client::Access::start(*this, {.kind = comm::Kind::broadcast,
                                       .type = type,
                                       .root = root,
                                       .count = count,
                                       .in = data,
                                       .out = data,
                                       .stream = stream});
}

host::DeviceQueue* client::Access::device(Communicator& comm) {
  return comm.impl_->engine->device();
}
bool client::Access::on_device(Communicator& comm, void const* memory) {
  auto* const device = comm.impl_->engine->device();
  return device != nullptr ? device->is_device(memory) : DeviceMemory::own().holds(memory);
}
std::unique_ptr<client::Ending> client::Access::ending(Communicator const& comm) {
  auto ending = std::make_unique<Ending>();
  ending->generation = comm.generation();
  ending->watch = comm.impl_->generations->watch([raw = ending.get()] { raw->over.raise(); });
  return ending;
}
std::uint64_t client::Access::met_before(Communicator const& comm) {
  return comm.impl_->generations->met_before();
}
Work client::Access::start(Communicator& comm, comm::Call const& call) {
  comm.impl_->check(call);
  return {comm.impl_->engine, comm.impl_->engine->submit(call)};
}

void client::Access::run(Communicator& comm, comm::Call const& call) {
  comm.impl_->run(call);
}
bool client::Access::wait_for(Work const& work, Millis most) {
  return work.engine_ == nullptr || work.engine_->wait_for(work.ticket_, most);
}

Arena::Arena(std::span<std::byte> memory, std::shared_ptr<void const> owner, std::string holder)
    : memory_(memory), owner_(std::move(owner)), used_(std::make_shared<std::size_t>(0)), holder_(std::move(holder)) {}

std::span<std::byte> Arena::allocate_bytes(std::size_t bytes) {
  std::size_t const before = used();
  // The rounding cannot overflow: no object is larger than half the address space.
  std::size_t const first = std::min(size(), (before + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes > size() - first) {
    throw Failure(fail(Errc::usage, (holder_.empty() ? "" : holder_ + ": ") + "arena exhausted: asked for " +
                                        std::to_string(bytes) + " bytes, " + std::to_string(before) + " of its " +
                                        std::to_string(size()) + " are used; make a larger one"));
  }
  if (bytes > 0) {
    *used_ = first + bytes;
  }
  return memory_.subspan(first, bytes);
}

Arena Communicator::arena(std::size_t bytes) {
  impl_->check({.kind = comm::Kind::allocate, .count = bytes});
  return {{impl_->engine->allocate(bytes), bytes}, impl_->engine, impl_->here()};
}

}  // namespace cxxrun
