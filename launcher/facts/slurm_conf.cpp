#include "launcher/facts/slurm_conf.hpp"

#include "src/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::uint64_t kMostSeconds = 65'533;  // Slurm's own limit for KillWait

void apply(std::string const& key, std::string_view value, SlurmConf& conf) {
  if (key == "killwait") {
    if (auto const seconds = parse_unsigned(value, 0, kMostSeconds); seconds) {
      conf.kill_wait = Millis(*seconds * 1000);
    }
  } else if (key == "proctracktype") {
    conf.signals_all = lower(value) == "proctrack/linuxproc";
  }
}

}  // namespace

SlurmConf parse_slurm_conf(std::string_view text) {
  SlurmConf conf;
  while (!text.empty()) {
    auto const end = text.find('\n');
    auto line = text.substr(0, end);
    line = trim(line.substr(0, line.find('#')));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    auto const equals = line.find('=');
    if (equals != std::string_view::npos) {
      apply(lower(trim(line.substr(0, equals))), trim(line.substr(equals + 1)), conf);
    }
  }
  return conf;
}

}  // namespace cxxrun::launcher
