// Streak: how the last generations of a job failed, one after the other. Part of every decree, so that whoever is
// elected goes on counting. What follows from it: membership/retrying.hpp.
#pragma once

#include <cstdint>

namespace cxxrun::rendezvous {

struct Streak {
  std::uint32_t failures = 0;  ///< in a row: since the newest generation that lived, its own failure included
  std::uint32_t alike = 0;     ///< the last of these: of generations that died young, and of what looks the same
  std::uint64_t look = 0;      ///< of the last one: a digest
  bool operator==(Streak const&) const = default;
};

}  // namespace cxxrun::rendezvous
