#include "launcher/doctor/judge.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

Facts with(Facts facts, Facts const& more) {
  for (auto const& [key, value] : more) {
    facts[key] = value;
  }
  return facts;
}

/// A node on which nothing is wrong.
Facts const kSound = {{"host", "node1"},
                      {"nodes", "2"},
                      {"name.own", "node1"},
                      {"name.addresses", "10.0.0.1"},
                      {"name.usable", "10.0.0.1"},
                      {"name.getent", "10.0.0.1"},
                      {"name.back", "node1.cluster"},
                      {"port.range", "32768-60999"},
                      {"clock.synced", "1"},
                      {"kernel.release", "6.1"},
                      {"kernel.libc", "2.36"},
                      {"cpus.usable", "64"},
                      {"cpus.online", "64"},
                      {"memory.available", "500000000000"},
                      {"shm.size", "250000000000"},
                      {"shm.free", "250000000000"},
                      {"nofile.soft", "1024"},
                      {"nofile.hard", "524288"},
                      {"nproc.soft", "unlimited"},
                      {"memlock.soft", "unlimited"},
                      {"rdma.devices", "mlx5_0"},
                      {"gpu.devices", "8"},
                      {"gpu.workers", "8"},
                      {"gpu.count", "8"},
                      {"gpu.names", "8 x H100"},
                      {"gpu.driver", "550.54"},
                      {"gpu.sick", ""},
                      {"nccl.version", "2.28.9"},
                      {"net.interfaces", "ib0=10.1.0.1"},
                      {"python.path", "/usr/bin/python3"},
                      {"python.version", "3.11.2"},
                      {"torch.version", "2.4.0"},
                      {"torch.cuda", "12.1"},
                      {"fs.dir", "/home/u"},
                      {"fs.type", "nfs"},
                      {"fs.opened", "500"},
                      {"fs.open_ms", "150"},
                      {"log.dir", "/tmp"},
                      {"log.free", "9000000000"},
                      {"home.dir", "/home/u"},
                      {"slurm.job", "7"},
                      {"slurm.step", "0"},
                      {"slurm.ProctrackType", "proctrack/cgroup"},
                      {"slurm.TaskPlugin", "task/affinity,task/cgroup"},
                      {"slurm.KillWait", "30 sec"},
                      {"slurm.UnkillableStepTimeout", "180 sec"},
                      {"slurm.SlurmdTimeout", "300 sec"}};

/// The worst finding about one thing, on a node that is sound but for this.
Finding about(std::string const& what, Facts const& more) {
  Finding worst;
  for (auto const& each : judge(with(kSound, more))) {
    if (each.about == what && each.grade >= worst.grade) {
      worst = each;
    }
  }
  return worst;
}

Grade grade(std::string const& what, Facts const& more) {
  return about(what, more).grade;
}

}  // namespace

TEST_CASE("doctor: on a sound node each line is fine, and none has a remedy", "[unit]") {
  auto const findings = judge(kSound);
  CHECK(findings.size() == 18);
  for (auto const& each : findings) {
    INFO(each.about << ": " << each.found);
    CHECK(each.grade == Grade::fine);
    CHECK(each.remedy.empty());
  }
}

TEST_CASE("doctor: whatever is wrong or unknown, there is a remedy for each warning and failure", "[unit]") {
  std::vector<Facts> const worlds = {{}, {{"gpu.hung", "10 s"}, {"fs.hung", "10 s"}, {"name.hung", "5 s"}}};
  for (auto const& facts : worlds) {
    for (auto const& each : judge(facts)) {
      INFO(each.about << ": " << each.found);
      CHECK((each.grade < Grade::warning || !each.remedy.empty()));
      CHECK_FALSE(each.found.empty());
    }
  }
  for (auto const& [key, value] : kSound) {  // no value is trusted to be well formed
    for (char const* const other : {"", "0", "-1", "1e999", "nan", "garbage"}) {
      CHECK(judge(with(kSound, {{key, other}})).size() >= 18);
    }
  }
}

TEST_CASE("doctor: names", "[unit]") {
  CHECK(grade("names", {{"name.addresses", ""}, {"name.error", "unknown"}}) == Grade::failure);
  CHECK(grade("names", {{"name.hung", "5 s"}}) == Grade::failure);
  CHECK(about("names", {{"name.hung", "5 s"}, {"name.asked", "node7"}}).found == "no answer for node7 within 5 s");
  CHECK(grade("names", {{"name.hung", "5 s"}, {"name.unknown", ""}}) == Grade::warning);  // of the way back alone
  CHECK(about("names", {{"name.hung", "5 s"}, {"name.unknown", "node2"}}).found == "unknown here: node2");
  CHECK(about("names", {{"name.unknown", "node2 node3"}}).found == "unknown here: node2 node3");
  CHECK(grade("names", {{"name.getent", "10.0.0.9"}}) == Grade::warning);
  CHECK(grade("names", {{"name.getent", ""}}) == Grade::fine);                     // no getent here
  CHECK(grade("names", {{"name.addresses", "10.0.0.1 fd00::1"}}) == Grade::fine);  // no IPv6 on this machine
  Facts const loopback = {{"name.addresses", "127.0.1.1"}, {"name.usable", "127.0.1.1"}, {"name.getent", "127.0.1.1"}};
  CHECK(grade("names", loopback) == Grade::warning);
  CHECK(grade("names", with(loopback, {{"nodes", "1"}})) == Grade::note);
  Facts const both = {{"name.usable", ""}, {"name.getent", ""}};
  CHECK(grade("names", with(both, {{"name.addresses", "127.0.1.1 ::1"}})) == Grade::warning);
  CHECK(grade("names", with(both, {{"name.addresses", "127.0.1.1 10.0.0.1"}})) == Grade::fine);
  CHECK(grade("names", {{"name.back", "other"}}) == Grade::note);
}

TEST_CASE("doctor: what getent finds elsewhere is a line of its own, also of a name that cxxrun does not know",
          "[unit]") {
  CHECK(judge_lookups(kSound).empty());
  Facts const unknown = {{"name.addresses", ""}, {"name.usable", "nothing"}};
  CHECK(judge_lookups(with(kSound, with(unknown, {{"name.getent", "nothing"}}))).empty());
  CHECK(grade("names", unknown) == Grade::failure);
  auto const own = judge_lookups(with(kSound, unknown));
  REQUIRE(own.size() == 1);
  CHECK((own[0].grade == Grade::warning && own[0].about == "names"));
  CHECK(own[0].found == "node1 resolves to nothing in cxxrun, but to 10.0.0.1 in getent");
  Facts const first = {{"first.name", "node0"}, {"first.usable", "10.0.0.2"}, {"first.getent", "10.0.0.3"}};
  CHECK(judge_lookups(with(kSound, first)).at(0).found ==
        "node0 resolves to 10.0.0.2 in cxxrun, but to 10.0.0.3 in getent");
  CHECK(judge(with(kSound, with(first, unknown))).size() == 20);
}

TEST_CASE("doctor: a name that came late, for a name server is dead, is a warning and no failure", "[unit]") {
  Facts const late = {{"name.slowest", "node0"}, {"name.slowest_ms", "5010"}};
  CHECK(judge_lookups(with(kSound, late)).at(0).found == "node0 took 5 s to resolve");
  CHECK(grade("names", late) == Grade::warning);
  CHECK(grade("names", {{"name.slowest", "node0"}, {"name.slowest_ms", "12"}}) == Grade::fine);
}

TEST_CASE("doctor: a job that is given addresses runs without names, though gloo asks for the own one", "[unit]") {
  Facts const given = {{"name.needless", "1"}, {"name.addresses", ""}, {"name.error", "unknown"}};
  CHECK(grade("names", given) == Grade::warning);
  CHECK(grade("names", {{"name.needless", "1"}, {"name.hung", "5 s"}}) == Grade::warning);
  CHECK(grade("names", {{"name.needless", "1"}}) == Grade::fine);
}

TEST_CASE("doctor: a node alone needs no name", "[unit]") {
  CHECK(grade("names", {{"name.addresses", ""}, {"name.error", "unknown"}, {"nodes", "1"}}) == Grade::note);
  CHECK(grade("names", {{"name.unknown", "node1"}, {"nodes", "1"}}) == Grade::note);
  CHECK(grade("names", {{"name.hung", "5 s"}, {"nodes", "1"}}) == Grade::warning);
}

TEST_CASE("doctor: the system", "[unit]") {
  CHECK(grade("ports", {{"port.error", "Operation not permitted"}}) == Grade::failure);
  CHECK(about("ports", {{"port.taken", "29500"}}).found == "any free port of 32768-60999; taken: 29500");
  CHECK(grade("clock", {{"clock.synced", "0"}}) == Grade::warning);
  CHECK(grade("clock", {{"clock.synced", ""}}) == Grade::fine);
  CHECK(grade("kernel", {{"kernel.proc", "not mounted"}}) == Grade::warning);  // a job runs
  CHECK(grade("kernel", {{"kernel.pidfd", "Function not implemented"}}) == Grade::note);
  CHECK(grade("kernel", {{"kernel.release", "4.17.0-1"}}) == Grade::warning);
  CHECK(grade("kernel", {{"kernel.release", "3.10.0-1160.el7"}}) == Grade::warning);
  CHECK(grade("kernel", {{"kernel.release", "4.18.0-553.el8_10"}}) == Grade::fine);
  CHECK(grade("CPUs", {{"cpus.usable", "1"}}) == Grade::warning);  // for 8 GPUs
  CHECK(grade("CPUs", {{"cpus.quota", "2.5"}}) == Grade::warning);
  CHECK(about("CPUs", {{"cpus.usable", "1"}, {"gpu.workers", "0"}}).found.ends_with(", by task/affinity"));
  CHECK(grade("CPUs", {{"cpus.usable", "1"}, {"gpu.workers", "0"}, {"slurm.TaskPlugin", "task/cgroup"}}) ==
        Grade::fine);
  CHECK(grade("CPUs", {{"cpus.usable", "64"}, {"cpus.warning", "8 workers on 1 CPU"}}) == Grade::warning);
  CHECK(grade("CPUs", {{"cpus.usable", "4"}, {"gpu.workers", "1"}}) == Grade::fine);  // one of this node's 8
}

TEST_CASE("doctor: memory is what the machine and the limit leave", "[unit]") {
  CHECK(grade("memory", {{"memory.limit", "2000000000"}, {"memory.usage", "1500000000"}}) == Grade::warning);
  CHECK(grade("memory", {{"memory.limit", "2000000000"}, {"memory.usage", "1990000000"}}) == Grade::failure);
  CHECK(grade("memory", {{"memory.limit", "9000000000"}, {"memory.usage", "0"}}) == Grade::fine);
  CHECK(grade("memory", {{"memory.available", "1000"}}) == Grade::failure);
  CHECK(grade("/dev/shm", {{"shm.size", "67108864"}, {"shm.free", "67108864"}}) == Grade::warning);
  CHECK(grade("/dev/shm", {{"shm.error", "No such file or directory"}}) == Grade::warning);
}

TEST_CASE("doctor: limits", "[unit]") {
  CHECK(grade("descriptors", {{"nofile.hard", "1024"}}) == Grade::warning);
  CHECK(grade("descriptors", {{"nofile.hard", "100"}}) == Grade::failure);
  CHECK(grade("processes", {{"nproc.soft", "100"}}) == Grade::warning);
  CHECK(grade("processes", {{"pids.left", "100"}}) == Grade::warning);
  CHECK(grade("locked memory", {{"memlock.soft", "8388608"}}) == Grade::warning);
  CHECK(grade("locked memory", {{"memlock.soft", "8388608"}, {"rdma.devices", ""}}) == Grade::fine);
}

TEST_CASE("doctor: where no process can be started, that is the failure, and nothing is said to hang", "[unit]") {
  Facts facts = {{"host", "node1"}, {"fork.error", "Resource temporarily unavailable"}};
  for (char const* const child : {"name", "gpu", "nccl", "fs", "log", "home", "python", "slurm"}) {
    facts[child + std::string(".unasked")] = "Resource temporarily unavailable";
  }
  CHECK(judge_processes(facts).found == "no process could be started: Resource temporarily unavailable");
  for (auto const& each : judge(facts)) {
    INFO(each.about << ": " << each.found);
    CHECK((each.grade < Grade::failure || each.about == "processes"));
    CHECK(each.found.find("answer") == std::string::npos);
  }
}

TEST_CASE("doctor: GPUs, their driver and NCCL", "[unit]") {
  CHECK(grade("GPUs", {{"gpu.hung", "10 s"}}) == Grade::failure);
  CHECK(grade("GPUs", {{"gpu.error", "Driver/library version mismatch"}}) == Grade::failure);
  CHECK(about("GPUs", {{"gpu.missing", "libnvidia-ml.so.1"}, {"gpu.devices", "0"}}).found == "none");
  CHECK(grade("GPUs", {{"gpu.missing", "libnvidia-ml.so.1"}}) == Grade::warning);  // a job without GPUs runs
  CHECK(judge_gpus({{"gpu.devices", "8"}}).grade == Grade::failure);               // the child that asked has died
  CHECK(judge_gpus({{"gpu.devices", "8"}, {"gpu.count", "8"}}).grade == Grade::failure);  // later
  CHECK(judge_gpus({{"gpu.devices", "0"}, {"gpu.count", "8"}}).grade == Grade::failure);
  CHECK(grade("GPUs", {{"gpu.sick", "GPU 3: GPU is lost"}}) == Grade::failure);
  CHECK(judge_gpus({{"gpu.devices", "8"}, {"gpu.count", "0"}, {"gpu.sick", ""}}).grade == Grade::warning);
  CHECK(about("GPUs", {{"gpu.devices", "9"}}).found == "8 x H100 (device files: 9), driver 550.54");
  Facts const shared = {{"gpu.count", "2"}, {"gpu.names", "2 x H100"}, {"gpu.forbidden", "6"}};  // by Slurm's groups
  CHECK(grade("GPUs", shared) == Grade::fine);
  CHECK(about("GPUs", shared).found == "2 x H100, driver 550.54, 6 forbidden to this job");
  CHECK(about("GPUs", with(shared, {{"gpu.forbidden", "5"}})).found ==
        "2 x H100 (device files: 8), driver 550.54, 5 forbidden to this job");
  CHECK(judge_gpus(with(kSound, {{"gpu.count", "0"}, {"gpu.forbidden", "8"}})).grade == Grade::warning);
  for (char const* const none : {"", "-1", "NoDevFiles"}) {
    CHECK(grade("GPUs", {{"gpu.visible", none}, {"gpu.workers", "0"}}) == Grade::warning);
  }
  CHECK(about("GPUs", {{"gpu.visible", "0,1"}, {"gpu.workers", "2"}}).found ==
        "8 x H100, driver 550.54, CUDA_VISIBLE_DEVICES=0,1");
  CHECK(grade("NCCL", {{"nccl.version", ""}}) == Grade::note);
  CHECK(about("NCCL", {{"nccl.hung", "10 s"}}).found == "libnccl.so.2 was not loaded within 10 s");
  CHECK(grade("NCCL", {{"nccl.version", ""}, {"gpu.count", "0"}}) == Grade::fine);
}

TEST_CASE("doctor: the interfaces that NCCL_SOCKET_IFNAME leaves", "[unit]") {
  Facts const two = {{"net.interfaces", "eth0=10.0.0.1 ib0=10.1.0.1"}};
  auto const left = [&](char const* wanted) { return about("interfaces", with(two, {{"net.wanted", wanted}})); };
  CHECK(left("ib").found == "ib0=10.1.0.1 by NCCL_SOCKET_IFNAME=ib");
  CHECK(left("=ib0").grade == Grade::fine);
  CHECK(left("=ib").grade == Grade::failure);
  CHECK(left("^ib").found == "eth0=10.0.0.1 by NCCL_SOCKET_IFNAME=^ib");
  CHECK(left("^eth,ib").grade == Grade::failure);
  CHECK(left("eno1,ib").grade == Grade::fine);
  CHECK(left("eno1").remedy.find("NCCL_SOCKET_IFNAME=eth0") != std::string::npos);
  CHECK(grade("interfaces", {{"net.wanted", "eno1"}, {"gpu.count", "0"}}) == Grade::warning);  // NCCL is for GPUs
  CHECK(grade("interfaces", two) == Grade::note);  // which one NCCL takes is a guess
}

TEST_CASE("doctor: NCCL takes loopback when it is chosen, which reaches no other node", "[unit]") {
  Facts const here = {{"net.loopback", "lo=127.0.0.1"}, {"net.wanted", "lo"}};
  CHECK(about("interfaces", here).found == "NCCL_SOCKET_IFNAME=lo leaves only loopback, which reaches no other node");
  CHECK(grade("interfaces", here) == Grade::warning);
  CHECK(grade("interfaces", with(here, {{"net.wanted", "^ib"}})) == Grade::warning);
  CHECK(about("interfaces", with(here, {{"net.wanted", "lo,ib"}})).found == "ib0=10.1.0.1 by NCCL_SOCKET_IFNAME=lo,ib");
  Facts const alone = with(here, {{"nodes", "1"}});
  CHECK(about("interfaces", alone).found == "lo=127.0.0.1 by NCCL_SOCKET_IFNAME=lo");
  CHECK(grade("interfaces", alone) == Grade::fine);
}

TEST_CASE("doctor: Python and torch", "[unit]") {
  CHECK(grade("Python", {{"python.path", ""}}) == Grade::note);
  CHECK(grade("Python", {{"python.path", ""}, {"python.missing", "python3"}}) == Grade::note);
  CHECK(grade("Python", {{"python.path", ""}, {"python.missing", "python3"}, {"python.needed", "yes"}}) ==
        Grade::failure);
  CHECK(grade("Python", {{"python.path", ""}, {"python.missing", "/opt/python3"}}) == Grade::failure);
  CHECK(grade("Python", {{"python.hung", "20 s"}}) == Grade::warning);
  CHECK(grade("Python", {{"python.hung", "20 s"}, {"python.path", ""}}) == Grade::warning);
  CHECK(grade("Python", {{"python.error", "ModuleNotFoundError: No module named 'encodings'"}}) == Grade::failure);
  CHECK(about("Python", {}).found == "3.11.2 at /usr/bin/python3, torch 2.4.0 for CUDA 12.1");
  CHECK(about("Python", {{"torch.version", ""}}).found == "3.11.2 at /usr/bin/python3, without torch");
  CHECK(grade("Python", {{"torch.cuda", ""}}) == Grade::warning);
  CHECK(grade("Python", {{"python.version", ""}}) == Grade::warning);  // "python" may be any program
  CHECK(grade("Python", {{"torch.cuda", ""}, {"gpu.count", "0"}}) == Grade::fine);
}

TEST_CASE("doctor: directories", "[unit]") {
  Facts unasked = kSound;
  unasked.erase("fs.open_ms");
  CHECK(judge_directory(with(unasked, {{"fs.hung", "10 s"}})).grade == Grade::failure);
  CHECK(judge_directory(unasked).grade == Grade::warning);
  CHECK(grade("directory", {{"fs.hung", "10 s"}}) == Grade::fine);  // it was slow to remove what had been made
  CHECK(about("directory", {{"fs.opened", "0"}}).found ==
        "/home/u (nfs): none of the files that were made there could be opened");
  CHECK(grade("directory", {{"fs.error", "cannot write there: Read-only file system"}}) == Grade::warning);
  CHECK(about("directory", {{"fs.lock", "No locks available"}}).found ==
        "/home/u (nfs): file locks: No locks available");
  CHECK(grade("directory", {{"fs.rename", "Input/output error"}}) == Grade::warning);
  CHECK(about("directory", {}).found == "/home/u (nfs), locks, atomic rename, 1,000 files opened in 300 ms");
  CHECK(grade("directory", {{"fs.opened", "100"}, {"fs.open_ms", "2000"}}) == Grade::warning);
  CHECK(grade("logs", {{"log.error", "cannot create"}}) == Grade::failure);
  CHECK(grade("logs", {{"log.free", "1000"}}) == Grade::warning);
  CHECK(grade("logs", {{"log.unused", "cannot create /no"}}) == Grade::warning);
  CHECK(about("logs", {{"log.unused", "cannot create /no"}}).found == "cannot create /no; jobs use /tmp");
  CHECK(grade("home", {{"home.error", "/home/u: Read-only file system"}}) == Grade::note);
  CHECK(about("logs", {{"log.hung", "10 s"}}).found == "/tmp did not answer within 10 s");
  CHECK(about("home", {{"home.hung", "10 s"}}).found == "/home/u did not answer within 10 s");
}

TEST_CASE("doctor: Slurm's settings that bite", "[unit]") {
  CHECK(about("Slurm", {}).found == "job 7, step 0");
  CHECK(grade("Slurm", {{"slurm.job", ""}}) == Grade::note);
  CHECK(grade("Slurm", {{"slurm.trouble", "SLURM_NODEID is not set"}}) == Grade::failure);
  CHECK(grade("Slurm", {{"slurm.step", ""}}) == Grade::warning);
  CHECK(about("Slurm", {{"slurm.ProctrackType", "proctrack/linuxproc"}}).found == "ProctrackType=proctrack/linuxproc");
  CHECK(about("Slurm", {{"slurm.SignalChildrenProcesses", "yes"}}).found == "SignalChildrenProcesses=yes");
  CHECK(about("Slurm", {{"slurm.SignalChildrenProcesses", "no"}}).grade == Grade::fine);
  CHECK(about("Slurm", {{"slurm.TaskPluginParam", "SlurmdOffSpec,OOMKillStep"}}).found ==
        "TaskPluginParam=OOMKillStep");
  CHECK(grade("Slurm", {{"slurm.TaskPlugin", "task/none"}}) == Grade::note);
  CHECK(about("Slurm", {{"slurm.ConstrainDevices", "no"}, {"gpu.devices", "8"}}).found == "ConstrainDevices=no");
  CHECK(grade("Slurm", {{"slurm.ConstrainDevices", "no"}, {"gpu.devices", "0"}}) == Grade::fine);
  CHECK(grade("Slurm", {{"slurm.ConstrainDevices", "yes"}, {"gpu.devices", "8"}}) == Grade::fine);
  CHECK(about("Slurm", {{"slurm.KillWait", "5 sec"}}).grade == Grade::warning);
  CHECK(grade("Slurm", {{"slurm.UnkillableStepTimeout", "60 sec"}}) == Grade::note);
  CHECK(grade("Slurm", {{"slurm.SlurmdTimeout", "0 sec"}}) == Grade::note);
  CHECK(grade("Slurm", {{"slurm.nodes", "2"}}) == Grade::note);
  CHECK(about("Slurm", {{"slurm.nodes", "2"}}).remedy.find("export SLURM_NO_KILL=set") != std::string::npos);
  CHECK(grade("Slurm", {{"slurm.nodes", "2"}, {"slurm.no_kill", "set"}}) == Grade::fine);
  Facts const managed = {{"slurm.step_manager", "node1"}, {"slurm.nodes", "2"}, {"slurm.no_kill", "set"}};
  CHECK(about("Slurm", managed).found == "the steps of this job are managed by node1 (stepmgr)");
  CHECK(grade("Slurm", managed) == Grade::warning);
  CHECK(grade("Slurm", {{"slurm.step_manager", "node1"}, {"slurm.nodes", "1"}}) == Grade::fine);
  CHECK(about("Slurm", {{"slurm.hung", "5 s"}}).found == "settings not read: scontrol did not answer within 5 s");
  CHECK(grade("Slurm", {{"slurm.error", "there is no scontrol in PATH here"}}) == Grade::note);
}

TEST_CASE("kernel_release: older than 4.18 by its number", "[unit]") {
  for (auto const* const old : {"2.6.32", "3.10.0-1160.el7", "4.4.0", "4.17.0-1", "4.9"}) {
    CHECK(kernel_too_old(old));
  }
  for (auto const* const fine : {"4.18.0-553.el8_10", "4.18-rc1", "4.19.0", "5.4.0", "6.1.0-18-amd64", "10.0"}) {
    CHECK(!kernel_too_old(fine));
  }
}

TEST_CASE("kernel_release: what is no version is not called old", "[unit]") {
  for (auto const* const none : {"", "5", "4.", "4.x", "linux", ".1"}) {
    CHECK(!kernel_too_old(none));
  }
}
