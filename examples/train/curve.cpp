#include "train/curve.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <utility>

#include "cxxrun/failure.hpp"

namespace train {
namespace {

[[noreturn]] void cannot_write(std::string const& path) {
  throw cxxrun::Failure({cxxrun::Errc::io, "cannot write the curve " + path + "; give --curve another place", errno});
}

}  // namespace

std::string curve_until(std::string const& csv, std::uint64_t step) {
  std::string kept = "step,loss,world,restart\n";
  std::istringstream lines(csv.substr(0, csv.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    unsigned long long number = 0;
    double loss = 0;
    int world = 0;
    int restart = 0;
    if (std::sscanf(line.c_str(), "%llu,%lf,%d,%d", &number, &loss, &world, &restart) == 4 && number <= step) {
      kept += line + "\n";
    }
  }
  return kept;
}

Curve::Curve(std::string path, std::uint64_t step) : path_(std::move(path)) {
  if (path_.empty()) {
    return;
  }
  std::ifstream before(path_, std::ios::binary);
  std::string const kept = curve_until({std::istreambuf_iterator<char>(before), {}}, step);
  auto const line = kept.rfind('\n', kept.size() - 2) + 1;
  last_ = std::strtoull(kept.c_str() + line, nullptr, 10);  // of the header: 0
  // Written beside and renamed: killed in between, the old lines are still there.
  std::string const beside = path_ + ".new";
  file_.open(beside, std::ios::binary | std::ios::trunc);
  file_ << kept << std::flush;
  if (!file_ || std::rename(beside.c_str(), path_.c_str()) != 0) {
    cannot_write(path_);
  }
}

void Curve::add(std::uint64_t step, double loss, int world, int restart) {
  if (path_.empty()) {
    return;
  }
  char line[96];
  int const length = std::snprintf(line, sizeof line, "%llu,%.17g,%d,%d\n", static_cast<unsigned long long>(step), loss,
                                   world, restart);
  if (!file_.write(line, length).flush()) {
    cannot_write(path_);
  }
  last_ = step;
}

}  // namespace train
