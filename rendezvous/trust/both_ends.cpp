#include "rendezvous/trust/both_ends.hpp"

#include <algorithm>

#include "src/base/core/tcp_ends.hpp"

namespace cxxrun::rendezvous {
namespace {

bool is_at(std::string const& end, std::string const& address) {
  auto const parsed = parse_end(end);
  return !address.empty() && parsed && address_text(*parsed) == address;
}

bool have_one_port(std::string const& a, std::string const& b) {
  auto const one = parse_end(a);
  auto const other = parse_end(b);
  return one && other && one->port == other->port;
}

}  // namespace

Way way_of(BothEnds const& said, BothEnds const& seen, std::string const& callers,
           std::vector<std::string> const& ours) {
  if (seen.caller.empty() || said == seen) {
    return Way::direct;
  }
  bool const caller_fits = said.caller == seen.caller || is_at(seen.caller, callers);
  bool const called_fits =
      said.called == seen.called ||
      (have_one_port(said.called, seen.called) &&
       std::any_of(ours.begin(), ours.end(), [&](auto const& address) { return is_at(said.called, address); }));
  return caller_fits && called_fits ? Way::translated : Way::relayed;
}

std::string relayed_line(BothEnds const& said, BothEnds const& seen) {
  bool const caller = said.caller != seen.caller;
  bool const called = said.called != seen.called;
  return "the connection is relayed: " +
         (caller ? "begun at " + said.caller + ", seen to come from " + seen.caller : "") +
         (caller && called ? "; " : "") +
         (called ? "begun to " + said.called + ", seen to arrive at " + seen.called : "") +
         "; where addresses are translated give the outer one with --local-addr";
}

}  // namespace cxxrun::rendezvous
