// What `cxxrun --doctor` says of a node: facts as they were read, and what they mean for a job. Values.
#pragma once

#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher::doctor {

/// "shm.free" → "67108864": numbers in base units, lists with blanks between, "" and missing alike unknown. They travel
/// from children and other nodes as text, so no value is trusted to be well formed.
using Facts = Environment;

enum class Grade { fine, note, warning, failure };

struct Finding {
  Grade grade = Grade::fine;
  std::string about;   ///< "names", "/dev/shm": the first column
  std::string found;   ///< one line
  std::string remedy;  ///< one line; "" when there is nothing to do
  bool operator==(Finding const&) const = default;
};
using Findings = std::vector<Finding>;

struct NodeFindings {
  std::string host;
  Findings findings;
};

/// On one node `step` is empty.
struct Report {
  std::vector<NodeFindings> nodes;
  Findings step;  ///< about the nodes of a step together
};

}  // namespace cxxrun::launcher::doctor
