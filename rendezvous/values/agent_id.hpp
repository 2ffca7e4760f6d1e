// AgentId: one connection of one agent to a coordinator; given out in the order of arrival, never reused.
#pragma once

#include <cstdint>

namespace cxxrun::rendezvous {

using AgentId = std::uint64_t;

}  // namespace cxxrun::rendezvous
