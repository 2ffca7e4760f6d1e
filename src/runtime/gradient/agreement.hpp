// Agreement: whether all ranks were given the same list, and the Failure of all that says where they differ.
//
// Lists are compared as texts, one per item ("w1", 4096 f32): first one hash of everything, and only when that differs
// one hash per item, which leads to the first item that differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "src/base/core/rank_name.hpp"

namespace cxxrun::gradient {

[[nodiscard]] std::vector<std::uint64_t> hashes_of(std::span<std::string const> items);
/// Of the whole list, its length included.
[[nodiscard]] std::uint64_t hash_of(std::span<std::uint64_t const> hashes);

/// Where two lists differ first; one being longer counts.
[[nodiscard]] std::optional<std::size_t> first_difference(std::span<std::uint64_t const> a,
                                                          std::span<std::uint64_t const> b);

/// A name as it may stand in a message: quoted, printable, not too long.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// What has to be the same on every rank of a synchronizer: its options, then each parameter.
[[nodiscard]] std::vector<std::string> items_of(std::span<Parameter const> parameters,
                                                GradientSynchronizer::Options const& options);
/// The same of tensors to be broadcast from `root`.
[[nodiscard]] std::vector<std::string> items_of(std::span<Tensor const> tensors, int root);

/// Why no synchronizer can be made of these parameters on any rank, or nothing.
[[nodiscard]] std::optional<std::string> refusal(std::span<Parameter const> parameters);

/// "never marked ready in step 3: "w1", "w2", "w3" and 4 more": at most three names.
[[nodiscard]] std::string names_of(std::span<Parameter const> parameters, std::span<std::uint32_t const> which,
                                   std::size_t total);

/// Collective. Failure (usage) naming the first item that is not the same on every rank, as rank 0 and as the first
/// rank that differs have it, and `advice`. 8 bytes per rank when all is well.
void require_same(Communicator& comm, std::span<std::string const> items, std::string_view advice);

/// "rank 2 on node1".
[[nodiscard]] inline std::string name_of_rank(Communicator const& comm, int rank) {
  return rank_name(comm.world_rank(rank), comm.host(rank));
}

}  // namespace cxxrun::gradient
