#include "launcher/agent/agent_config.hpp"
#include "launcher/facts/deadlines.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using cxxrun::launcher::end_timeout;
using cxxrun::launcher::parse_slurm_conf;
using cxxrun::launcher::SlurmConf;

TEST_CASE("slurm_conf: KillWait and the kind of tracking are found among everything else", "[unit]") {
  CHECK(parse_slurm_conf("ClusterName=lab\nkillwait = 90 # seconds\nProctrackType=proctrack/LinuxProc\r\n") ==
        SlurmConf{90s, true});
  CHECK(parse_slurm_conf("ProctrackType=proctrack/linuxproc\nKillWait=5\nNodeName=a # last\n") == SlurmConf{5s, true});
  CHECK(parse_slurm_conf("SlurmdTimeout=300 KillWait=120 ProctrackType=\"proctrack/linuxproc\"") ==
        SlurmConf{120s, true});
  CHECK(parse_slurm_conf("KillWait=5\nKillWait=7") == SlurmConf{7s, false});
  CHECK(parse_slurm_conf("ProctrackType=proctrack/cgroup\nKillWait=0\n") == SlurmConf{0s, false});
}

TEST_CASE("slurm_conf: signals go to all processes by the kind of tracking, or because cgroup.conf says so", "[unit]") {
  CHECK(parse_slurm_conf("ProctrackType=proctrack/linuxproc").signals_all());
  CHECK(parse_slurm_conf("ProctrackType=proctrack/cgroup\n\nSignalChildrenProcesses = Yes\n").signals_all());
  CHECK_FALSE(parse_slurm_conf("ProctrackType=proctrack/cgroup\nSignalChildrenProcesses=no").signals_all());
}

TEST_CASE("slurm_conf: what is missing, malformed or a comment keeps Slurm's default", "[unit]") {
  for (char const* const text : {"", "#KillWait=5", "KillWait", "KillWait=", "KillWait=-1", "KillWait=1e3",
                                 "KillWait=65534", "MyKillWait=5", "=5\n\n==", "Include /etc/slurm/more.conf"}) {
    CHECK(parse_slurm_conf(text) == SlurmConf{30s, false});
  }
}

TEST_CASE("slurm_conf: workers get what Slurm leaves, less what we need ourselves", "[unit]") {
  CHECK(end_timeout(30s, 30s) == 27s);
  CHECK(end_timeout(10s, 30s) == 10s);
  CHECK(end_timeout(600s, 600s) == 540s);
  CHECK(end_timeout(30s, 5s) == 3s);
  CHECK(end_timeout(30s, 2s) == 1s);
  CHECK(end_timeout(30s, 0s) == 0s);
}
