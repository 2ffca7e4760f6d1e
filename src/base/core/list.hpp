// list_of: a list made of another one. Pure.
#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

namespace cxxrun {

/// What `of` gives for each element, in their order. `of` may be a member: list_of(nodes, &Node::host).
template <class From, class Of>
[[nodiscard]] auto list_of(From const& from, Of of) {
  std::vector<std::decay_t<std::invoke_result_t<Of&, decltype(*std::begin(from))>>> list;
  list.reserve(std::size(from));
  for (auto const& each : from) {
    list.push_back(std::invoke(of, each));
  }
  return list;
}

}  // namespace cxxrun
