#include "rendezvous/voting/quorum.hpp"

#include <cstddef>
#include <iterator>

namespace cxxrun::rendezvous {

Majority majority(Decree const& decree, std::set<std::uint32_t> const& members) {
  if (decree.tie == Tie::none || decree.number == 0) {
    return Majority::yes;
  }
  bool const all_known = members.empty() || *members.rbegin() < decree.size;  // as a rule: counting takes no walk
  std::size_t const count =
      all_known ? members.size()
                : static_cast<std::size_t>(std::distance(members.begin(), members.lower_bound(decree.size)));
  if (count * 2 > decree.size) {
    return Majority::yes;
  }
  if (count * 2 < decree.size || count == 0) {
    return Majority::no;
  }
  if (decree.tie == Tie::fence) {
    return Majority::half;
  }
  return members.contains(0) ? Majority::yes : Majority::no;
}

bool keeps(Decree const& decree, std::set<std::uint32_t> const& members) {
  return majority(decree, members) == Majority::yes;
}

}  // namespace cxxrun::rendezvous
