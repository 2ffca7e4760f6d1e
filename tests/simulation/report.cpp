#include "tests/simulation/report.hpp"

#include <ostream>

namespace cxxrun::simulation {
namespace {

template <class Table>
std::size_t seen(Table const& table) {
  std::size_t count = 0;
  for (auto const& row : table) {
    for (auto const cell : row) {
      count += cell > 0 ? 1 : 0;
    }
  }
  return count;
}

template <class Table>
void add_table(Table& sum, Table const& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (std::size_t j = 0; j < sum[i].size(); ++j) {
      sum[i][j] += more[i][j];
    }
  }
}

}  // namespace

void Coverage::add(Coverage const& other) {
  add_table(phases, other.phases);
  add_table(lives, other.lives);
  for (auto const& [end, count] : other.ends) {
    ends[end] += count;
  }
  for (auto const& [round, count] : other.rounds) {
    rounds[round] += count;
  }
  schedules += other.schedules;
  steps += other.steps;
  generations += other.generations;
  decrees += other.decrees;
  elections += other.elections;
}

std::size_t Coverage::phase_pairs() const {
  return seen(phases);
}
std::size_t Coverage::life_pairs() const {
  return seen(lives);
}

std::ostream& operator<<(std::ostream& out, Coverage const& coverage) {
  out << coverage.schedules << " schedules, " << coverage.steps << " steps, " << coverage.generations
      << " generations, " << coverage.decrees << " decrees, " << coverage.elections << " campaigns\n"
      << "states: " << coverage.phase_pairs() << " pairs of (phase, event), " << coverage.life_pairs()
      << " pairs of (life, event)\n"
      << "highest round of election:";
  for (auto const& [round, count] : coverage.rounds) {
    out << "  " << round << ": " << count;
  }
  out << "\nends:\n";
  for (auto const& [end, count] : coverage.ends) {
    out << "  " << end << ": " << count << "\n";
  }
  return out;
}

}  // namespace cxxrun::simulation
