// Agreement: checks that all ranks were given the same list, or makes all throw a Failure that names the difference.
//
// Lists are compared as texts, one per item ("w1", 4096 f32): first one hash of the whole list, and only if that
// differs one hash per item, which gives the first item that differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::gradient {

[[nodiscard]] std::vector<std::uint64_t> hashes_of(std::span<std::string const> items);
/// Hash of the whole list, including its length.
[[nodiscard]] std::uint64_t hash_of(std::span<std::uint64_t const> hashes);

/// The index of the first difference of two lists; a longer list differs too.
[[nodiscard]] std::optional<std::size_t> first_difference(std::span<std::uint64_t const> a,
                                                          std::span<std::uint64_t const> b);

/// A name for a message: quoted, printable, limited in length.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// What has to be the same on every rank of a synchronizer: its options, then each parameter.
[[nodiscard]] std::vector<std::string> items_of(std::span<Parameter const> parameters,
                                                GradientSynchronizer::Options const& options);
/// The same for tensors that are broadcast from `root`.
[[nodiscard]] std::vector<std::string> items_of(std::span<Tensor const> tensors, int root);

/// The reason why no rank can make a synchronizer for these parameters, or nothing.
[[nodiscard]] std::optional<std::string> refusal(std::span<Parameter const> parameters);

/// Collective. Throws Failure (usage) if the items differ between ranks: names the first different item, as rank 0 and
/// the first rank that differs have it, and `advice`. Costs 8 bytes per rank if they are equal.
void require_same(Communicator& comm, std::span<std::string const> items, std::string_view advice);

/// "rank 2 on node1".
[[nodiscard]] inline std::string name_of_rank(Communicator const& comm, int rank) {
  return rank_name(comm.world_rank(rank), comm.host(rank));
}

}  // namespace cxxrun::gradient
