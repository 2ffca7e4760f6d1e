#include "tests/src/runtime/client/random_world.hpp"

#include <algorithm>
#include <cstring>

#include "tests/src/runtime/client/small_numbers.hpp"

namespace cxxrun::test {
namespace {

constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr double kUntouched = 77;  // behind every result

std::size_t members(std::vector<int> const& group) {
  return group.size();
}

}  // namespace

/// The buffers of one call: input, and output with one extra element.
struct RandomWorld::Buffers {
  std::vector<std::byte> memory_in{};
  std::vector<std::byte> memory_out{};
  Arena arena{};
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t results = 0;
};

RandomWorld::RandomWorld(Communicator world, std::uint64_t seed)
    : common_(seed), own_(seed ^ (0x1000 + static_cast<std::uint64_t>(world.rank()))), rank_(world.rank()) {
  Slot slot;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    slot.mine.push_back(rank);
  }
  slot.groups = {slot.mine};
  slot.comm = std::move(world);
  slots_.push_back(std::move(slot));
}

std::size_t RandomWorld::play(int calls) {
  for (int i = 0; i < calls; ++i) {
    auto const what = common_.below(10);
    if (what == 0 && slots_.size() < 6) {
      split();
    } else if (what == 1) {
      train();
    } else if (what == 2) {
      finish(own_.below(3));
    } else {
      collective();
    }
  }
  finish(0);
  slots_.front().comm->barrier();
  return looked_;
}

/// Splits an existing slot; one color in four is none.
void RandomWorld::split() {
  Slot& parent = slots_[common_.below(slots_.size())];
  auto const salt = common_.next();
  auto const color = [salt](int rank) { return static_cast<int>(mixed(salt, 1, rank) % 4) - 1; };
  auto const key = [salt](int rank) { return static_cast<int>(mixed(salt, 2, rank) % 3); };
  Slot slot;
  for (auto const& group : parent.groups) {
    for (int each = 0; each < 3; ++each) {
      std::vector<int> part;
      std::copy_if(group.begin(), group.end(), std::back_inserter(part), [&](int rank) { return color(rank) == each; });
      std::stable_sort(part.begin(), part.end(), [&](int a, int b) { return key(a) < key(b); });
      bool const mine = std::find(part.begin(), part.end(), rank_) != part.end();
      slot.mine = mine ? part : slot.mine;
      slot.groups.push_back(part);
    }
  }
  if (parent.comm) {
    slot.comm = parent.comm->split(color(rank_) < 0 ? std::nullopt : std::optional(color(rank_)), key(rank_));
  }
  require(slot.comm.has_value() == !slot.mine.empty(), "who is in a group");
  if (slot.comm) {
    require(slot.comm->world_size() == static_cast<int>(members(slot.mine)), "its size");
    require(slot.mine[static_cast<std::size_t>(slot.comm->rank())] == rank_, "its order");
  }
  slots_.push_back(std::move(slot));
}

RandomWorld::Drawn RandomWorld::draw_call() {
  Drawn drawn{};
  drawn.kind = static_cast<Kind>(common_.below(static_cast<std::uint64_t>(Kind::kinds)));
  drawn.type = kTypes.at(common_.below(kTypes.size()));
  drawn.op = static_cast<ReduceOp>(common_.below(3));
  drawn.wire = static_cast<Wire>(common_.below(3));
  drawn.count = common_.below(std::array{8U, 700U, 9'000U, common_.one_in(16) ? 400'000U : 40U}.at(common_.below(4)));
  drawn.root = common_.next();
  drawn.salt = common_.next();
  drawn.arena = common_.one_in(3);
  drawn.in_place = common_.one_in(2) && drawn.kind == Kind::all_reduce;
  drawn.background = common_.one_in(2) && drawn.kind != Kind::all_to_all;
  bool const scales = drawn.background && drawn.kind <= Kind::reduce_scatter && is_floating(drawn.type);
  drawn.scale = scales ? std::array{1.0F, 0.5F, 2.0F}.at(drawn.root % 3) : 1.0F;
  return drawn;
}

std::shared_ptr<RandomWorld::Buffers> RandomWorld::make_buffers(Slot& slot, Drawn const& drawn) {
  auto const size = members(slot.mine);
  auto const whole = drawn.count * size;
  bool const parts = drawn.kind == Kind::reduce_scatter || drawn.kind == Kind::all_to_all;
  auto const inputs = parts ? whole : drawn.count;
  auto buffers = std::make_shared<Buffers>();
  buffers->results = drawn.kind == Kind::all_gather || drawn.kind == Kind::all_to_all ? whole : drawn.count;
  auto const in_bytes = (inputs + 1) * size_of(drawn.type);
  auto const out_bytes = (buffers->results + 1) * size_of(drawn.type);
  if (drawn.arena) {
    buffers->arena = slot.comm->arena(in_bytes + out_bytes + 2 * Arena::kAlignment);
  }
  auto const place = [&](std::vector<std::byte>& memory, std::size_t bytes) {
    if (drawn.arena && !own_.one_in(4)) {  // not every rank has to use an arena
      return buffers->arena.allocate_bytes(bytes).data();
    }
    memory.resize(bytes);
    return memory.data();
  };
  buffers->in = place(buffers->memory_in, in_bytes);
  bool const one = drawn.in_place || drawn.kind == Kind::broadcast;
  buffers->out = one ? buffers->in : place(buffers->memory_out, out_bytes);
  set_number(drawn.type, buffers->out, buffers->results, kUntouched);
  for (std::size_t at = 0; at < inputs; ++at) {
    set_number(drawn.type, buffers->in, at, small(drawn.salt, rank_, at));
  }
  return buffers;
}

/// The expected result at `at`.
double RandomWorld::right(Slot const& slot, Drawn const& drawn, std::size_t at) {
  auto const& group = slot.mine;
  auto const me = static_cast<std::size_t>(slot.comm->rank());
  switch (drawn.kind) {
    case Kind::broadcast: return small(drawn.salt, group[drawn.root % group.size()], at);
    case Kind::all_gather: return small(drawn.salt, group[at / drawn.count], at % drawn.count);
    case Kind::all_to_all: return small(drawn.salt, group[at / drawn.count], me * drawn.count + at % drawn.count);
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::kinds: break;
  }
  auto const from = drawn.kind == Kind::reduce_scatter ? me * drawn.count + at : at;
  double all = small(drawn.salt, group[0], from);
  for (std::size_t i = 1; i < group.size(); ++i) {
    auto const next = small(drawn.salt, group[i], from);
    all = drawn.op == ReduceOp::sum   ? all + next
          : drawn.op == ReduceOp::min ? std::min(all, next)
                                      : std::max(all, next);
  }
  return all * static_cast<double>(drawn.scale);
}

void RandomWorld::check(Slot const& slot, Drawn const& drawn, Buffers const& buffers) {
  auto const stride = 1 + buffers.results / 5000;  // checks a sample if there are many
  for (std::size_t at = 0; at < buffers.results; at += stride) {
    auto const there = number_at(drawn.type, buffers.out, at);
    if (there != right(slot, drawn, at)) {
      require(false, "call " + std::to_string(static_cast<int>(drawn.kind)) + " of " + std::to_string(drawn.count) +
                         " " + std::string(name_of(drawn.type)) + ": " + std::to_string(at) + " is " +
                         std::to_string(there) + ", not " + std::to_string(right(slot, drawn, at)));
    }
  }
  require(number_at(drawn.type, buffers.out, buffers.results) == kUntouched, "what lies behind a result");
  ++looked_;
}

void RandomWorld::collective() {
  Slot& slot = slots_[common_.below(slots_.size())];
  Drawn const drawn = draw_call();
  if (!slot.comm) {
    return;
  }
  auto& comm = *slot.comm;
  auto const buffers = make_buffers(slot, drawn);
  auto const [kind, type, op, wire, scale, count, root_drawn, salt, background, arena, in_place] = drawn;
  auto* const in = buffers->in;
  auto* const out = buffers->out;
  auto const root = static_cast<int>(root_drawn % members(slot.mine));
  Work work;
  switch (kind) {
    case Kind::all_reduce:
      background ? void(work = comm.start_all_reduce(in, out, count, type, op, wire, scale))
                 : comm.all_reduce(in, out, count, type, op);
      break;
    case Kind::reduce_scatter:
      background ? void(work = comm.start_reduce_scatter(in, out, count, type, op, wire, scale))
                 : comm.reduce_scatter(in, out, count, type, op);
      break;
    case Kind::all_gather:
      background ? void(work = comm.start_all_gather(in, out, count, type)) : comm.all_gather(in, out, count, type);
      break;
    case Kind::broadcast:
      background ? void(work = comm.start_broadcast(out, count, type, root)) : comm.broadcast(out, count, type, root);
      break;
    default: comm.all_to_all(in, out, count, type);
  }
  pending_.push_back({std::move(work), [this, &slot, drawn, buffers] { check(slot, drawn, *buffers); }});
}

/// Waits for the oldest calls and checks their results.
void RandomWorld::finish(std::size_t left) {
  for (; pending_.size() > left; pending_.pop_front()) {
    pending_.front().work.wait();
    pending_.front().check();
  }
}

}  // namespace cxxrun::test
