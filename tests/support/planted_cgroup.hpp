// A directory that looks like /proc and a hierarchy of control groups, for tests: what a kernel would count is written.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/process_bench.hpp"

namespace cxxrun::test {

class PlantedCgroup {
 public:
  /// A step of Slurm's with a limit of 100 MiB, and one task in it. Version 1, or 2.
  explicit PlantedCgroup(bool unified) : unified_(unified) {
    write("/proc/vmstat", "nr_free_pages 5\noom_kill 40\n");
    write("/proc/self/cgroup", unified ? "0::" + task() + "\n" : "4:memory:" + task() + "\n0::/\n");
    write("/proc/self/mountinfo", unified ? "30 24 0:26 / /cg rw shared:9 - cgroup2 cgroup2 rw\n"
                                          : "30 24 0:33 / /cg rw - cgroup cgroup rw,memory\n");
    for (std::string const& group : {std::string(), std::string("/job_3"), step(), task()}) {
      bool const limited = group == step();
      set(group, unified ? "memory.max" : "memory.limit_in_bytes",
          limited   ? "104857600"
          : unified ? "max"
                    : "9223372036854771712");
      set(group, unified ? "memory.current" : "memory.usage_in_bytes", "20971520");
      set(group, "memory.stat",
          unified ? "anon 12582912\nfile 8388608\ninactive_file 6291456\nactive_file 2097152\n"
                  : "inactive_file 0\nactive_file 0\ntotal_inactive_file 6291456\ntotal_active_file 2097152\n");
    }
    count(0, 0);
  }
  /// The task's kills, and how often the step's limit was hit.
  void count(int kills, int hits) {
    if (unified_) {
      set(task(), "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill " + std::to_string(kills) + "\n");
      set(step(), "memory.events.local", "max 9\noom " + std::to_string(hits) + "\noom_kill 0\n");
    } else {
      set(task(), "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
      set(step(), "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");  // it counts its own only
      set(step(), "memory.failcnt", std::to_string(hits));
    }
  }
  void count_machine(int kills) { write("/proc/vmstat", "oom_kill " + std::to_string(kills) + "\n"); }
  [[nodiscard]] std::string root() const { return directory_.path(); }
  static std::string step() { return "/job_3/step_0"; }
  static std::string task() { return "/job_3/step_0/task_0"; }

 private:
  void set(std::string const& group, std::string const& file, std::string const& text) {
    write("/cg" + group + "/" + file, text + "\n");
  }
  // Over what is there: a kernel's file keeps its number, and so the descriptors that are open.
  void write(std::string const& path, std::string const& text) const {
    std::filesystem::path const file = directory_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  bool unified_;
  TempDir directory_;
};

}  // namespace cxxrun::test
