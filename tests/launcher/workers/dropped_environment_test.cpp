#include "launcher/workers/dropped_environment.hpp"

#include <map>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::string_literals;

namespace {

struct Process {
  std::string comm;
  Arrived arrived;
  std::vector<pid_t> children{};
};

/// The result for worker 1.
std::optional<Dropped> found(std::map<pid_t, Process> const& processes) {
  return find_dropped(1, {[&](pid_t pid) -> std::optional<ObservedProcess> {
                            auto const it = processes.find(pid);
                            return it == processes.end()
                                       ? std::nullopt
                                       : std::optional(ObservedProcess{it->second.comm, it->second.arrived});
                          },
                          [&](pid_t pid) { return processes.at(pid).children; }});
}

std::string named(std::string const& behind, std::vector<std::string> const& argv) {
  auto const line = dropped_line({7, "python3", behind}, argv);
  auto const from = line.find("alone: ") + 7;
  return line.substr(from, line.find(" has dropped") - from);
}

}  // namespace

TEST_CASE("dropped_environment: one of cxxrun's variables is enough, and none is none", "[unit]") {
  CHECK(arrived("PATH=/bin\0RANK=3\0"s) == Arrived::yes);
  CHECK(arrived("HOME=/root\0CXXRUN_RUN_ID=7.0\0"s) == Arrived::yes);
  CHECK(arrived("PATH=/bin\0HOME=/root\0"s) == Arrived::no);
  CHECK(arrived("SLURM_PROCID=0\0OMPI_COMM_WORLD_RANK=1\0"s) == Arrived::no);
  CHECK(arrived("BASH_FUNC_ml%%=() { :\n}\0"s) == Arrived::no);
  CHECK(arrived(""s) == Arrived::no);  // env -i
}

TEST_CASE("dropped_environment: what may not be read, or is a title, says nothing", "[unit]") {
  CHECK(arrived(std::nullopt) == Arrived::unknown);
  CHECK(arrived("ray::Train.step=3\0\0\0\0"s) == Arrived::unknown);
  CHECK(arrived("train [step 3]"s) == Arrived::unknown);
  CHECK(arrived("\0\0\0\0"s) == Arrived::unknown);
  CHECK(arrived("train: epoch=3\0"s) == Arrived::unknown);
}

TEST_CASE("dropped_environment: a program in the wrapper's place, or behind one, is found", "[unit]") {
  auto const in_place = found({{1, {"python3", Arrived::no}}});
  REQUIRE(in_place);
  CHECK((in_place->pid == 1 && in_place->behind.empty()));
  auto const behind = found({{1, {"sh", Arrived::yes, {2}}},
                             {2, {"starter", Arrived::yes, {3}}},
                             {3, {"appinit", Arrived::no, {4}}},
                             {4, {"bash", Arrived::no, {5}}},
                             {5, {"python3", Arrived::no, {6}}},
                             {6, {"gcc", Arrived::yes}}});
  REQUIRE(behind);
  CHECK((behind->pid == 5 && behind->comm == "python3" && behind->behind == "starter"));
  auto const podman =
      found({{1, {"podman", Arrived::yes, {2}}}, {2, {"conmon", Arrived::no, {3}}}, {3, {"train", Arrived::no}}});
  REQUIRE(podman);
  CHECK((podman->pid == 3 && podman->behind == "conmon"));
  CHECK(found({{1, {"bash", Arrived::no}}}));  // the shell itself is the program
  auto const later =
      found({{1, {"sudo", Arrived::unknown, {2}}}, {2, {"sh", Arrived::yes, {3}}}, {3, {"train", Arrived::no}}});
  REQUIRE(later);
  CHECK(later->behind.empty());  // sudo has passed them on
}

TEST_CASE("dropped_environment: helpers, wrappers that only begin and what cannot be read are no reason", "[unit]") {
  CHECK_FALSE(found({{1, {"python3", Arrived::yes, {2}}}, {2, {"nvidia-smi", Arrived::no}}}));
  CHECK_FALSE(found({{1, {"bash", Arrived::yes, {2, 3}}}, {2, {"dcgm", Arrived::no}}, {3, {"train", Arrived::yes}}}));
  CHECK_FALSE(
      found({{1, {"bash", Arrived::yes, {2, 3}}}, {2, {"dcgm", Arrived::no}}, {3, {"train", Arrived::unknown}}}));
  CHECK_FALSE(found({{1, {"starter", Arrived::yes}}}));
  CHECK_FALSE(found({{1, {"conmon", Arrived::no}}}));
  CHECK_FALSE(found({{1, {"sudo", Arrived::unknown, {2}}}, {2, {"train", Arrived::unknown}}}));
  CHECK_FALSE(
      found({{1, {"starter", Arrived::yes, {2}}}, {2, {"bash", Arrived::no, {3}}}, {3, {"train", Arrived::yes}}}));
  CHECK_FALSE(found({}));
}

TEST_CASE("dropped_environment: the line names the wrapper, by its process or by the command, and its option",
          "[unit]") {
  CHECK(dropped_line({7, "python3", "starter"}, {"apptainer", "exec", "-e", "i.sif", "python3"}) ==
        "python3 (pid 7) was started without the variables that cxxrun has set for it, RANK and WORLD_SIZE among them, "
        "so each worker trains alone: apptainer has dropped them; leave out --cleanenv and --containall (-e, -C, "
        "APPTAINER_CLEANENV)");
  CHECK(named("conmon", {"./run.sh"}) == "podman");
  CHECK(named("", {"/usr/bin/enroot", "start", "image", "python3"}) == "enroot");
  CHECK(named("", {"sh", "-c", "cd x && exec enroot start image"}) == "enroot");
  CHECK(named("", {"env", "-i", "./train"}) == "env");
  CHECK(named("", {"./run.sh", "env", "PATH=/bin"}) == "./run.sh");
  CHECK(named("", {"bash", "run.sh"}) == "bash");
  CHECK(named("starter", {"sudo", "apptainer", "exec"}) == "apptainer");
  CHECK(named("", {}) == "its wrapper");
}
