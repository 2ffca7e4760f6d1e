// BothEnds: a connection's two ends as one side sees them, and what it means where the other side sees others. Pure.
//
// A relay passes every proof, for it changes nothing; but each of its two connections has other ends than the other
// one. Both sides tell under seal which ends they see. Where all four agree, nobody but the kernels and the network of
// the two hosts stands between: a second connection cannot have the same ends as one that stands.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::rendezvous {

/// "address:port" each (src/base/core/tcp_ends.hpp); "" = not known.
struct BothEnds {
  std::string caller;
  std::string called;
  bool operator==(BothEnds const&) const = default;
};

enum class Way {
  direct,      ///< both sides see the same: it is the peer's own
  translated,  ///< as their users have said that they see each other. Its end proves nothing: it may be a relay's
  relayed,     ///< somebody between the two passes it on
};

/// `said`: by the caller; `seen`: by who was called, "" = nothing to compare with. `callers`: as which address others
/// see the caller, by what its user says ("" = its own); its port may be any then. `ours`: addresses as which others
/// see who was called.
[[nodiscard]] Way way_of(BothEnds const& said, BothEnds const& seen, std::string const& callers,
                         std::vector<std::string> const& ours);

/// Of one that is relayed: which end differs, and what to do where that is on purpose.
[[nodiscard]] std::string relayed_line(BothEnds const& said, BothEnds const& seen);

}  // namespace cxxrun::rendezvous
