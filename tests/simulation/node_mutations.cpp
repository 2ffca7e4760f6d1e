// Rules of the agent broken on purpose, between its core and the world.
#include "tests/simulation/job.hpp"
#include "tests/simulation/node.hpp"

namespace cxxrun::simulation {

agent::LinkId Node::main_link() const {
  return agent::kFirstLink;
}

void Node::mutate(rendezvous::ToCoordinator& message) {
  (void)message;
}

}  // namespace cxxrun::simulation
