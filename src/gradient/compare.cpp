#include "src/gradient/compare.hpp"

#include <algorithm>
#include <array>

#include "src/core/rank_name.hpp"
#include "src/gradient/agreement.hpp"

namespace cxxrun::gradient {
namespace {

using Text = std::array<char, 256>;

Text text_of(std::span<std::string const> items, std::size_t index) {
  Text text{};
  std::string_view const item = index < items.size() ? std::string_view(items[index]) : "nothing any more";
  item.copy(text.data(), text.size() - 1);
  return text;
}

}  // namespace

std::string name_of_rank(Communicator const& comm, int rank) {
  return rank_name(rank, comm.host(rank));
}

void require_same(Communicator& comm, std::span<std::string const> items, std::string_view advice) {
  auto const mine = hashes_of(items);
  auto const all = comm.all_gather_value(hash_of(mine));
  if (std::all_of(all.begin(), all.end(), [&](auto hash) { return hash == all.front(); })) {
    return;
  }
  std::uint64_t length = mine.size();
  comm.broadcast(std::span<std::uint8_t>(reinterpret_cast<std::uint8_t*>(&length), sizeof length));
  std::vector<std::uint64_t> roots(length);
  std::copy_n(mine.begin(), std::min(mine.size(), roots.size()), roots.begin());
  comm.broadcast(roots.data(), length * sizeof(std::uint64_t), DType::u8);
  auto const differences = comm.all_gather_value<std::uint64_t>(first_difference(mine, roots).value_or(UINT64_MAX));
  auto const first = std::min_element(differences.begin(), differences.end());
  auto const texts = comm.all_gather_value(text_of(items, *first));
  auto const other = static_cast<int>(first - differences.begin());
  throw Failure(fail(Errc::usage, name_of_rank(comm, 0) + " has " + texts.front().data() + ", " +
                                      name_of_rank(comm, other) + " has " +
                                      texts[static_cast<std::size_t>(other)].data() + ": " + std::string(advice)));
}

}  // namespace cxxrun::gradient
