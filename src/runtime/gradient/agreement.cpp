#include "src/runtime/gradient/agreement.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "src/base/core/call.hpp"
#include "src/base/core/hash.hpp"

namespace cxxrun::gradient {
namespace {

constexpr std::size_t kLongestName = 80;

using Text = std::array<char, 256>;

Text text_of(std::span<std::string const> items, std::size_t index) {
  Text text{};
  std::string_view const item = index < items.size() ? std::string_view(items[index]) : "nothing any more";
  item.copy(text.data(), text.size() - 1);
  return text;
}

std::string yes(bool value) {
  return value ? "yes" : "no";
}

}  // namespace

std::vector<std::uint64_t> hashes_of(std::span<std::string const> items) {
  std::vector<std::uint64_t> hashes(items.size());
  std::transform(items.begin(), items.end(), hashes.begin(), [](std::string const& item) { return fnv1a(item); });
  return hashes;
}

std::uint64_t hash_of(std::span<std::uint64_t const> hashes) {
  std::uint64_t hash = (kFnvBasis ^ hashes.size()) * kFnvPrime;
  for (auto const one : hashes) {
    // Multiplication carries upwards only; without the shift the upper bits of `one` would hardly count.
    hash = (hash ^ one) * kFnvPrime;
    hash ^= hash >> 32U;
  }
  return hash;
}

std::optional<std::size_t> first_difference(std::span<std::uint64_t const> a, std::span<std::uint64_t const> b) {
  auto const at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at.first == a.end() && at.second == b.end()) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(at.first - a.begin());
}

std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (char const c : name.substr(0, kLongestName)) {
    text += static_cast<unsigned char>(c) >= ' ' && c != '\x7f' ? c : '?';
  }
  return text + (name.size() > kLongestName ? "…\"" : "\"");
}

std::vector<std::string> items_of(std::span<Parameter const> parameters, GradientSynchronizer::Options const& options) {
  std::vector<std::string> items{"the options first_bucket_bytes " + std::to_string(options.first_bucket_bytes) +
                                 ", bucket_bytes " + std::to_string(options.bucket_bytes) + ", wire " +
                                 comm::name_of(options.wire) + ", average " + yes(options.average) + ", find_unused " +
                                 yes(options.find_unused) + ", rebuild_order " + yes(options.rebuild_order)};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto const& [name, count, type] = parameters[i];
    auto const shown = quoted_name(name);
    // Different names that look alike in a message must still compare as different.
    auto const rest = shown == "\"" + name + "\"" ? "" : " (name " + std::to_string(fnv1a(name)) + ")";
    items.push_back("parameter " + std::to_string(i));
    items.back().append(" ").append(shown).append(rest).append(" of ").append(std::to_string(count));
    items.back().append(" ").append(cxxrun::name_of(type));
  }
  return items;
}

std::vector<std::string> items_of(std::span<Tensor const> tensors, int root) {
  std::vector<std::string> items{"a broadcast from rank " + std::to_string(root)};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    items.push_back("tensor " + std::to_string(i) + " of " + std::to_string(tensors[i].count) + " " +
                    std::string(cxxrun::name_of(tensors[i].type)));
  }
  return items;
}

std::optional<std::string> refusal(std::span<Parameter const> parameters) {
  std::set<std::string_view> names;
  std::size_t total = 0;
  for (auto const& [name, count, type] : parameters) {
    if (!comm::is_floating(type)) {
      return "parameter " + quoted_name(name) + " is of type " + std::string(cxxrun::name_of(type)) +
             ": gradients are f32, f64, f16 or bf16";
    }
    if (!names.insert(name).second) {
      return "two parameters are named " + quoted_name(name) + ": messages need unique names";
    }
    std::size_t const most = static_cast<std::size_t>(PTRDIFF_MAX) - total;
    if (most < 2 * Arena::kAlignment || count > (most - 2 * Arena::kAlignment) / size_of(type)) {
      return "parameter " + quoted_name(name) + " of " + std::to_string(count) + " " +
             std::string(cxxrun::name_of(type)) + " exceeds the address space";
    }
    total += count * size_of(type) + Arena::kAlignment;
  }
  return std::nullopt;
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
