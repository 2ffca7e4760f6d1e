// BothEnds: the two ends of a connection as one side sees them, compared with the other side's to detect a relay. Pure.
//
// A relay that changes nothing passes every proof, but its two connections have different ends. So both sides tell each
// other, under seal, which ends they see. If all four agree there is no relay, since no second connection can have the
// same ends as an open one.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::rendezvous {

/// Each "address:port" (src/base/core/tcp_ends.hpp); "" = not known.
struct BothEnds {
  std::string caller;
  std::string called;
  bool operator==(BothEnds const&) const = default;
};

enum class Way {
  direct,      ///< both sides see the same ends: the peer's own connection
  translated,  ///< the differences are the translations that the users declared; it may still be a relay's
  relayed,     ///< a relay, or an address translation that nobody declared
};

/// `said`: the ends as the caller sees them; `seen`: as the called side sees them, "" = nothing to compare with.
/// `callers`: the address at which others see the caller, as its user declared it ("" = its own); with it any port will
/// do. `ours`: the addresses at which others see the called side.
[[nodiscard]] Way way_of(BothEnds const& said, BothEnds const& seen, std::string const& callers,
                         std::vector<std::string> const& ours);

/// Which end of a relayed connection differs, and what to do if it is translated on purpose.
[[nodiscard]] std::string relayed_line(BothEnds const& said, BothEnds const& seen);

}  // namespace cxxrun::rendezvous
