// The order of samples in C.
#include <algorithm>

#include "cxxrun/elastic_sampler.hpp"
#include "src/runtime/capi/guard.hpp"

namespace cxxrun::capi {
namespace {

ElasticSampler sampler_at(cxxrun_sampler const& state, std::uint64_t size, ElasticSampler::Tail tail) {
  ElasticSampler sampler(size, state.seed, tail);
  sampler.restore({state.seed, state.epoch, state.consumed});
  return sampler;
}

}  // namespace
}  // namespace cxxrun::capi

using namespace cxxrun::capi;  // NOLINT(google-build-using-namespace)
using cxxrun::ElasticSampler;

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
