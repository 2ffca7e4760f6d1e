// Chronicles: a Chronicle for each run of cxxrun-rendezvous, in a directory of its own under --log-dir. Shell.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/agent/chronicle.hpp"

namespace cxxrun::launcher {

class Chronicles {
 public:
  /// Makes the directory; "" or "/dev/null": nothing is kept. `host`: for people. Errors: as of make_log_dir().
  [[nodiscard]] static Result<Chronicles> in(std::string const& log_dir, std::string host);

  /// As Chronicle::add.
  std::string add(std::string const& run_id, rendezvous::story::Event const& event);
  void conclude(std::string const& run_id, rendezvous::Verdict const& verdict);

 private:
  Chronicles(std::string log_dir, std::string host);

  std::string log_dir_;
  std::string host_;
  std::map<std::string, std::unique_ptr<Chronicle>> of_runs_;  ///< those under way
};

}  // namespace cxxrun::launcher
