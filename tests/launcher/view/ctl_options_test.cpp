#include "launcher/view/ctl_options.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)

namespace {

std::string refusal(std::vector<std::string> const& arguments, CtlOptions& options) {
  options = {};
  auto const command = ctl_command(options);
  auto const early = parse(command, options_first(command, arguments));
  CHECK((!early || early->code == 100));
  return early ? early->text : "";
}

CtlOptions parsed(std::vector<std::string> const& arguments) {
  CtlOptions options;
  CHECK(refusal(arguments, options).empty());
  return options;
}

std::string refused(std::vector<std::string> const& arguments) {
  CtlOptions options;
  return refusal(arguments, options);
}

}  // namespace

TEST_CASE("cxxrunctl: without a word it shows the status, and a number is a job") {
  CHECK(parsed({}).verb == Verb::status);
  CHECK(parsed({}).job.empty());
  CHECK(parsed({"4711"}).job == "4711");
  CHECK(parsed({"4711.0", "--json"}).job == "4711.0");
  CHECK(parsed({"status", "run"}).job == "run");
  CHECK(parsed({"events", "-f", "4711"}).follow);
  CHECK(parsed({"logs", "3", "-f"}).follow);
  CHECK(parsed({"top", "4711"}).verb == Verb::top);
}

TEST_CASE("cxxrunctl: options may stand behind the words") {
  auto const options = parsed({"logs", "12", "4711", "-n", "5"});
  CHECK(options.verb == Verb::logs);
  CHECK(options.ranks == std::vector<std::uint32_t>{12});
  CHECK(options.job == "4711");
  CHECK(options.lines == 5);
  CHECK(parsed({"--lines=7", "logs", "12"}).lines == 7);
  CHECK(parsed({"status", "--", "-strange-run"}).job == "-strange-run");
}

TEST_CASE("cxxrunctl: a page has a port and a token file, and both may be left out") {
  auto const options = parsed({"page", "4711", "--port", "41873", "--token-file=secret"});
  CHECK(options.verb == Verb::page);
  CHECK(options.job == "4711");
  CHECK(options.port == 41'873);
  CHECK(options.token_file == "secret");
  CHECK(parsed({"page"}).port == 0);
  CHECK(parsed({"metrics", "4711", "-v"}).all);
}

TEST_CASE("cxxrunctl: ranks come before the job") {
  CHECK(parsed({"stacks"}).ranks.empty());
  CHECK(parsed({"stacks", "all", "4711"}).job == "4711");
  CHECK(parsed({"stacks", "all", "4711"}).ranks.empty());
  CHECK(parsed({"stacks", "slow", "4711"}).slow);
  CHECK(parsed({"stacks", "slow", "4711"}).job == "4711");
  CHECK_FALSE(parsed({"stacks", "all"}).slow);
  CHECK(parsed({"stacks", "3,5"}).ranks == std::vector<std::uint32_t>{3, 5});
  CHECK_FALSE(parsed({"stacks", "3,5"}).native);
  CHECK(parsed({"stacks", "3,5", "4711", "--native"}).native);
  CHECK(parsed({"stacks", "--native", "all"}).ranks.empty());
}

TEST_CASE("cxxrunctl: what is no command line is refused in a line that says what to type") {
  CHECK(refused({"stauts"}) == "cxxrunctl: stauts is not a command of this program; did you mean status?\n");
  CHECK(refused({"zzz"}) ==
        "cxxrunctl: zzz is not a command of this program; the commands are status, top, stacks, logs, events, page, "
        "metrics, "
        "trace, checkpoint, restart, drain, stop; for a run of that id: cxxrunctl status zzz\n");
  CHECK(refused({"logs"}) == "cxxrunctl: whose log? cxxrunctl logs RANK [JOB]\n");
  CHECK(refused({"logs", "1,2"}) == "cxxrunctl: whose log? cxxrunctl logs RANK [JOB]\n");
  CHECK(refused({"stacks", "run"}) ==
        "cxxrunctl: ranks are expected, 3 or 3,5, not run; the job comes last: cxxrunctl stacks all run\n");
  CHECK(refused({"stacks", "4294967296"}).starts_with("cxxrunctl: ranks are expected"));
  CHECK(refused({"status", "1", "2"}) == "cxxrunctl: unexpected argument 2\n");
  CHECK(refused({"top", "--json"}) == "cxxrunctl: top is for people; for programs: cxxrunctl status --json\n");
  CHECK(refused({"events", "--check"}) == "cxxrunctl: --check is for status alone\n");
  CHECK(refused({"status", "-f"}) == "cxxrunctl: --follow is for events and logs alone\n");
  CHECK(refused({"metrics", "--port", "1"}) == "cxxrunctl: --port and --token-file are for page alone\n");
  CHECK(refused({"page", "--port", "65536"}).starts_with("cxxrunctl: --port"));
  CHECK(refused({"logs", "1", "--native"}) == "cxxrunctl: --native is for stacks alone\n");
  CHECK(refused({"stacks", "--native"}).starts_with("cxxrunctl: whose stacks? each of these workers stands still"));
  CHECK(refused({"status", "--yes"}) == "cxxrunctl: --yes is for checkpoint, restart, drain and stop alone\n");
  CHECK(refused({"--bogus"}).starts_with("cxxrunctl: unknown option --bogus"));
  CHECK(refused({"logs", "1", "-n"}).starts_with("cxxrunctl: --lines needs a value"));
  CHECK(refused({"\x1b[31m"}).find('\x1b') == std::string::npos);
}

TEST_CASE("cxxrunctl: what changes a job has to name it") {
  for (std::string const verb : {"checkpoint", "restart", "stop"}) {
    CHECK(refused({verb}) == "cxxrunctl: which job? cxxrunctl " + verb + " JOB\n");
    CHECK(refused({verb, "--yes"}) == "cxxrunctl: which job? cxxrunctl " + verb + " JOB\n");
    CHECK(parsed({verb, "4711", "-y"}).yes);
    CHECK(parsed({verb, "4711"}).job == "4711");
    CHECK(name_of(parsed({verb, "4711"}).verb) == verb);
    CHECK(refused({verb, "4711", "node2"}) == "cxxrunctl: unexpected argument node2\n");
  }
}

TEST_CASE("cxxrunctl: what drains a node has to name the job and the node") {
  auto const options = parsed({"drain", "4711.0", "node2.cluster", "-y"});
  CHECK(options.verb == Verb::drain);
  CHECK(options.job == "4711.0");
  CHECK(options.node == "node2.cluster");
  CHECK(options.yes);
  CHECK(refused({"drain"}) == "cxxrunctl: which job? cxxrunctl drain JOB NODE\n");
  CHECK(refused({"drain", "4711"}) == "cxxrunctl: which node? cxxrunctl drain JOB NODE\n");
  CHECK(refused({"drain", "4711", "node2", "node3"}) == "cxxrunctl: unexpected argument node3\n");
  for (std::string const& name : {std::string("a b"), std::string("a\nb"), std::string(256, 'a')}) {
    CHECK(refused({"drain", "4711", name}).ends_with(" is no name of a node\n"));
  }
  CHECK(parsed({"drain", "4711", std::string(255, 'a')}).node.size() == 255);
}

TEST_CASE("cxxrunctl: what another program does is passed on to it") {
  using Words = std::vector<std::string>;
  CHECK(other_program({"doctor"}) == Words{"cxxrun", "--doctor"});
  CHECK(other_program({"doctor", "--json", "--nnodes", "2"}) == Words{"cxxrun", "--doctor", "--json", "--nnodes", "2"});
  CHECK(other_program({"init", "train.py"}) == Words{"cxxrun", "--init", "train.py"});
  CHECK(other_program({"trace", "./events"}) == Words{"python3", "-m", "cxxrun.trace", "./events"});
  CHECK(other_program({"trace", "events.jsonl", "-o", "t"}) ==
        Words{"python3", "-m", "cxxrun.trace", "events.jsonl", "-o", "t"});
  CHECK(other_program({"trace", "-h"}));
  for (Words const& ours :
       {Words{}, {"trace"}, {"trace", "4711"}, {"trace", "my run"}, {"status", "doctor"}, {"4711"}}) {
    CHECK_FALSE(other_program(ours));
  }
  CHECK(parsed({"trace", "4711"}).verb == Verb::trace);
  CHECK(parsed({"trace", "4711"}).job == "4711");
}

TEST_CASE("cxxrunctl: a job is meant by its id, its step, or the number of its Slurm job") {
  CHECK(is_meant("4711.0", "4711.0", "4711.0"));
  CHECK(is_meant("4711", "4711.0", "4711.0"));
  CHECK(is_meant("4711", "my run", "4711.0"));
  CHECK(is_meant("my run", "my run", ""));
  CHECK_FALSE(is_meant("471", "4711.0", "4711.0"));
  CHECK_FALSE(is_meant("", "4711.0", ""));
  CHECK_FALSE(is_meant("4711.1", "4711.0", "4711.0"));
}
