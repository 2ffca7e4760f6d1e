// Ended: how a connection between two agents has ended. Value.
#pragma once

namespace cxxrun::rendezvous {

enum class Ended {
  goodbye,   ///< the other end has said so, under seal where there is a key: its process lives, and wanted this
  in_order,  ///< FIN without a goodbye: a kernel closes what a dead process had; or it was cut by somebody on the way
  broken,    ///< a reset or the like. It proves nothing: firewalls make them too
  silent,    ///< it has not ended, and nothing was heard for too long
};

}  // namespace cxxrun::rendezvous
