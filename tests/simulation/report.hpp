// Report: what many executions have covered.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

namespace cxxrun::simulation {

struct Coverage {
  std::array<std::array<std::uint64_t, 32>, 16> phases{};  ///< (phase, event) of membership
  std::array<std::array<std::uint64_t, 32>, 32> lives{};   ///< (life, event) of the agent
  std::map<std::string, std::uint64_t> ends;               ///< how agents left, and jobs
  std::map<std::uint32_t, std::uint64_t> rounds;           ///< executions by the highest round of election
  std::uint64_t schedules = 0;
  std::uint64_t steps = 0;
  std::uint64_t generations = 0;
  std::uint64_t decrees = 0;
  std::uint64_t elections = 0;

  void add(Coverage const& other);
  [[nodiscard]] std::size_t phase_pairs() const;
  [[nodiscard]] std::size_t life_pairs() const;
};
std::ostream& operator<<(std::ostream& out, Coverage const& coverage);

}  // namespace cxxrun::simulation
