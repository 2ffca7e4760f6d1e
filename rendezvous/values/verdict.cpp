#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

char const* name_of(End end) {
  switch (end) {
    case End::success: return "success";
    case End::worker_failed: return "worker failed";
    case End::could_not_start: return "worker could not be started";
    case End::too_few_nodes: return "too few nodes";
    case End::stopped: return "stopped";
    case End::unkillable: return "unkillable worker";
    case End::partitioned: return "partitioned";
    case End::system_failure: return "system failure";
  }
  return "unknown";
}

}  // namespace cxxrun::rendezvous
