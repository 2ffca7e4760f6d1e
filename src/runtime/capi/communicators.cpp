// Communicators in C: creation, rebuild, split and release, and what a training loop needs besides collectives, also
// the order of its samples.
#include <algorithm>
#include <chrono>

#include "cxxrun/elastic.hpp"
#include "cxxrun/elastic_sampler.hpp"
#include "cxxrun/failure.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/capi/guard.hpp"
#include "src/runtime/client/access.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/gpu/nccl_leftover.hpp"

namespace cxxrun::capi {
namespace {

/// 0 means the default.
void take_time(std::int64_t given, char const* name, std::chrono::milliseconds& time) {
  if (given < 0) {
    refuse("cxxrun_init", std::string(name) + " is " + std::to_string(given) + ", not 0 (the default) or more");
  }
  if (given > 0) {
    time = std::chrono::milliseconds(given);
  }
}

Communicator::Options options_of(cxxrun_options const* given) {
  Communicator::Options options;
  if (given == nullptr) {
    return options;
  }
  if (given->size != sizeof *given) {
    refuse("cxxrun_init", "options->size is " + std::to_string(given->size) + ", not sizeof(cxxrun_options), " +
                              std::to_string(sizeof *given));
  }
  take_time(given->op_timeout_ms, "op_timeout_ms", options.op_timeout);
  take_time(given->init_timeout_ms, "init_timeout_ms", options.init_timeout);
  take_time(given->abort_deadline_ms, "abort_deadline_ms", options.abort_deadline);
  require_in(given->backend, CXXRUN_HOST, "cxxrun_init", "backend");
  require_in(given->survive, 1, "cxxrun_init", "survive");
  options.backend = static_cast<Backend>(given->backend);
  require_in(given->shrink, 1, "cxxrun_init", "shrink");
  options.survive = given->survive != 0;
  options.shrink = given->shrink != 0;
  return options;
}

cxxrun_facts facts_of(Communicator& comm) {
  WorkerEnv const& env = comm.env();
  cxxrun_facts facts{};
  facts.rank = comm.rank();
  facts.world_size = comm.world_size();
  facts.world_rank = comm.world_rank(comm.rank());
  facts.local_rank = env.local_rank;
  facts.local_world_size = env.local_world_size;
  facts.group_rank = env.group_rank;
  facts.group_world_size = env.group_world_size;
  facts.restart_count = env.restart_count;
  facts.generation = env.generation;
  facts.can_rebuild = comm.can_rebuild() ? 1 : 0;
  facts.on_device = client::Access::device(comm) != nullptr ? 1 : 0;
  if (env.store && env.store->host.size() < sizeof facts.store_host) {
    env.store->host.copy(facts.store_host, sizeof facts.store_host - 1);
    facts.store_port = env.store->port;
  }
  return facts;
}

ElasticSampler sampler_at(cxxrun_sampler const& state, std::uint64_t size, ElasticSampler::Tail tail) {
  ElasticSampler sampler(size, state.seed, tail);
  sampler.restore({state.seed, state.epoch, state.consumed});
  return sampler;
}

}  // namespace
}  // namespace cxxrun::capi

using namespace cxxrun::capi;  // NOLINT(google-build-using-namespace)
using cxxrun::Communicator;
using cxxrun::ElasticSampler;

char const* cxxrun_version() {
  return CXXRUN_VERSION;
}

std::int32_t cxxrun_init(cxxrun_options const* options, cxxrun_comm** comm) {
  return guarded([&] {
    require(comm, "cxxrun_init", "comm");
    *comm = Tables::own().add(Communicator::init(options_of(options)));
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_free(cxxrun_comm* comm) {
  return guarded([&] {
    auto const entry = comm == nullptr ? nullptr : Tables::own().take(comm);
    if (comm != nullptr && entry == nullptr) {
      refuse_handle("cxxrun_free", "comm");
    }
    if (entry != nullptr) {
      std::lock_guard const lock(entry->turn);
      entry->comm.reset();
    }
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_rebuild(cxxrun_comm* comm) {
  return in_turn("cxxrun_rebuild", comm, [](Communicator& its) {
    its.rebuild();
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_split(cxxrun_comm* comm, std::int32_t color, std::int32_t key, cxxrun_comm** group) {
  return in_turn("cxxrun_split", comm, [&](Communicator& its) {
    require(group, "cxxrun_split", "group");
    auto made = its.split(color, key);
    *group = made ? Tables::own().add(*std::move(made)) : nullptr;
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_arena(cxxrun_comm* comm, std::size_t bytes, void** memory) {
  return in_turn("cxxrun_arena", comm, [&](Communicator& its) {
    require(memory, "cxxrun_arena", "memory");
    *memory = its.arena(bytes).allocate_bytes(bytes).data();  // the communicator keeps the memory alive
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_get_facts(cxxrun_comm* comm, cxxrun_facts* facts, std::size_t size) {
  return in_turn("cxxrun_get_facts", comm, [&](Communicator& its) {
    require(facts, "cxxrun_get_facts", "facts");
    auto const all = facts_of(its);
    give(facts, size, &all, sizeof all);
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_get_host(cxxrun_comm* comm, std::int32_t rank, char* text, std::size_t size) {
  return in_turn("cxxrun_get_host", comm, [&](Communicator& its) {
    require(text, "cxxrun_get_host", "text");
    if (rank < -1 || rank >= its.world_size() || size == 0) {
      refuse("cxxrun_get_host",
             size == 0 ? "size is 0"
                       : "there is no rank " + std::to_string(rank) + " of " + std::to_string(its.world_size()));
    }
    std::string const all = rank == -1 ? its.describe() : its.host(rank);
    text[all.copy(text, size - 1)] = '\0';  // NOLINT(cppcoreguidelines-pro-bounds-pointer-arithmetic)
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_watch(cxxrun_comm* comm, std::int64_t timeout_ms) {
  return guarded([&] {
    std::unique_ptr<cxxrun::client::Ending> ending;
    std::int32_t const status = in_turn("cxxrun_watch", comm, [&](Communicator& its) {
      ending = cxxrun::client::Access::ending(its);
      return CXXRUN_OK;
    });
    if (status != CXXRUN_OK) {
      return status;
    }
    ending->wait(timeout_ms < 0 ? cxxrun::kForever : std::min(cxxrun::Millis(timeout_ms), cxxrun::kForever));
    return std::int32_t{CXXRUN_NOT_DONE};
  });
}

std::int32_t cxxrun_gate(float* flag) {
  cxxrun::gpu::set_gate(flag);
  return CXXRUN_OK;
}

std::int32_t cxxrun_report_step(cxxrun_comm* comm, std::uint64_t completed) {
  return in_turn("cxxrun_report_step", comm, [&](Communicator& its) {
    its.report_step(completed);
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_report_checkpoint(cxxrun_comm* comm, std::int64_t held_ms) {
  return in_turn("cxxrun_report_checkpoint", comm, [&](Communicator& /*its*/) {
    if (held_ms < 0) {
      refuse("cxxrun_report_checkpoint", "held_ms is " + std::to_string(held_ms) + ", not 0 or more");
    }
    auto const held = std::min(cxxrun::Millis(held_ms), cxxrun::kForever);
    if (auto* const page = cxxrun::worker::process_page()) {
      cxxrun::worker::note_checkpoint(*page, held);
      cxxrun::worker::note_saved(*page, cxxrun::Clock::now() - held);
    }
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_checkpoint_wanted(cxxrun_comm* comm, std::int32_t* wanted) {
  return in_turn("cxxrun_checkpoint_wanted", comm, [&](Communicator& its) {
    require(wanted, "cxxrun_checkpoint_wanted", "wanted");
    bool const any = its.checkpoint_wanted();
    *wanted = its.job_ends() ? CXXRUN_CHECKPOINT_END : any ? CXXRUN_CHECKPOINT : CXXRUN_NO_CHECKPOINT;
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_meet(cxxrun_comm* comm, std::uint64_t completed, std::int32_t fresh, cxxrun_recovery* recovery) {
  return in_turn("cxxrun_meet", comm, [&](Communicator& its) {
    require(recovery, "cxxrun_meet", "recovery");
    require_in(fresh, 1, "cxxrun_meet", "fresh");
    cxxrun::Standing const mine{completed, fresh != 0, cxxrun::client::Access::met_before(its)};
    auto const ranks = its.all_gather_value(mine);
    auto const plan = cxxrun::plan_recovery(ranks);
    bool const behind =
        plan.share && !plan.load && mine.generation < ranks[static_cast<std::size_t>(plan.donor)].generation;
    *recovery = {plan.load ? 1 : 0, plan.share ? behind ? 2 : 1 : 0, plan.donor};
    return CXXRUN_OK;
  });
}

// ---- the order of samples

static_assert(static_cast<int>(ElasticSampler::Tail::drop) == CXXRUN_TAIL_DROP);
static_assert(static_cast<int>(ElasticSampler::Tail::pad) == CXXRUN_TAIL_PAD);

// NOLINTNEXTLINE(readability-function-size): a step needs all these parameters
std::int32_t cxxrun_sampler_next(cxxrun_sampler* sampler, std::uint64_t size, std::int32_t tail, std::int32_t rank,
                                 std::int32_t world, std::size_t per_rank, std::uint64_t* samples, std::size_t* taken) {
  constexpr char const* kMe = "cxxrun_sampler_next";
  return guarded([&] {
    require(sampler, kMe, "sampler");
    require(samples, kMe, "samples");
    require(taken, kMe, "taken");
    require_in(tail, CXXRUN_TAIL_PAD, kMe, "tail");
    auto its = sampler_at(*sampler, size, static_cast<ElasticSampler::Tail>(tail));
    auto const mine = its.next(rank, world, per_rank);
    std::copy(mine.begin(), mine.end(), samples);
    *taken = mine.size();
    sampler->consumed = its.state().consumed;
    return CXXRUN_OK;
  });
}

std::int32_t cxxrun_sampler_at(cxxrun_sampler const* sampler, std::uint64_t size, std::uint64_t position,
                               std::uint64_t* sample) {
  return guarded([&] {
    require(sampler, "cxxrun_sampler_at", "sampler");
    require(sample, "cxxrun_sampler_at", "sample");
    *sample = sampler_at(*sampler, size, ElasticSampler::Tail::uneven).at(position);
    return CXXRUN_OK;
  });
}
