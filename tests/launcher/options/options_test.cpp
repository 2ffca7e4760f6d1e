#include <algorithm>
#include <sstream>

#include "launcher/options/parse_options.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using Words = std::vector<std::string>;

namespace {

Command command() {
  static Options options;
  return cxxrun_command(options);
}

std::string underscored(std::string_view name) {
  return "--" + cxxrun::replace_all(name.substr(2), "-", "_");
}

Options parsed(Words const& arguments, Environment const& environment = {}) {
  auto result = parse_options(arguments, environment);
  if (auto const* const early = std::get_if<EarlyExit>(&result)) {
    FAIL(early->text);
  }
  return std::get<Options>(result);
}

EarlyExit early(Words const& arguments, Environment const& environment = {}) {
  auto result = parse_options(arguments, environment);
  REQUIRE(std::holds_alternative<EarlyExit>(result));
  return std::get<EarlyExit>(result);
}

/// The line of a usage error, without "cxxrun: " and the end of line; everything else about it is checked here.
std::string mistake(Words const& arguments, Environment const& environment = {}) {
  EarlyExit const end = early(arguments, environment);
  CHECK(end.code == 100);
  CHECK(std::count(end.text.begin(), end.text.end(), '\n') == 1);
  REQUIRE(end.text.starts_with("cxxrun: "));
  return end.text.substr(8, end.text.size() - 9);
}

/// A value that each option accepts and that differs from the default.
std::string sample(std::string const& name) {
  std::map<std::string, std::string> const samples = {{"--nnodes", "2:4"},
                                                      {"--cpu-bind", "share"},
                                                      {"--numa-binding", "core-complex"},
                                                      {"--health-check", "true"},
                                                      {"--health-check-timeout", "9"},
                                                      {"--hang-timeout", "9"},
                                                      {"--nproc-per-node", "3"},
                                                      {"--rdzv-endpoint", "h:1"},
                                                      {"--rdzv-id", "job"},
                                                      {"--join", "12.0"},
                                                      {"--rdzv-backend", "c10d"},
                                                      {"--rdzv-conf", "rank=1"},
                                                      {"--node-rank", "1"},
                                                      {"--master-addr", "h"},
                                                      {"--master-port", "1"},
                                                      {"--local-addr", "h"},
                                                      {"--max-restarts", "9"},
                                                      {"--shutdown-timeout", "9"},
                                                      {"--restart-timeout", "9"},
                                                      {"--restart-delay", "9"},
                                                      {"--heartbeat-timeout", "2.5"},
                                                      {"--quorum", "none"},
                                                      {"--fence", "d"},
                                                      {"--scale-out", "at-restart"},
                                                      {"--join-window", "9"},
                                                      {"--restart-window", "9"},
                                                      {"--kill-timeout", "9"},
                                                      {"--checkpoint-signal", "USR1@9"},
                                                      {"--time-limit", "9"},
                                                      {"--max-requeues", "9"},
                                                      {"--progress-path", "p"},
                                                      {"--role", "r"},
                                                      {"--agent-store", "off"},
                                                      {"--store-access", "hosts"},
                                                      {"--auth", "file"},
                                                      {"--stdin", "rank0"},
                                                      {"--watch", "off"},
                                                      {"--log-dir", "d"},
                                                      {"--redirects", "1:2"},
                                                      {"--tee", "2"},
                                                      {"--local-ranks-filter", "1"},
                                                      {"--log-rotate", "1M:2"},
                                                      {"--ranks", "1,3-5"},
                                                      {"--fold-lines", "off"},
                                                      {"--slurm-env", "keep"},
                                                      {"--log-level", "debug"},
                                                      {"--monitor-interval", "1"},
                                                      {"--start-method", "fork"},
                                                      {"--event-log-handler", "console"},
                                                      {"--logs-specs", "default"},
                                                      {"--log-line-prefix-template", "x"},
                                                      {"--duplicate-stdout-filters", "x"},
                                                      {"--duplicate-stderr-filters", "x"},
                                                      {"--signals-to-handle", "SIGUSR1"},
                                                      {"--print-completion", "zsh"}};
  return samples.at(name);
}

}  // namespace

TEST_CASE("options: defaults", "[unit]") {
  Options const options = parsed({"./train"});

  Options expected;
  expected.program = "./train";
  CHECK(options == expected);
  CHECK(options.terms.max_restarts == 3);
  CHECK_FALSE(options.terms.max_restarts_given);
}

TEST_CASE("options: --max-restarts is known to be given, by the flag and by the variable, whatever it says", "[unit]") {
  CHECK(parsed({"--max-restarts", "3", "./train"}).terms.max_restarts_given);
  CHECK(parsed({"./train"}, {{"PET_MAX_RESTARTS", "0"}}).terms.max_restarts_given);
  CHECK_FALSE(parsed({"./train"}, {{"PET_MAX_RESTARTS", ""}}).terms.max_restarts_given);
}

TEST_CASE("options: everything after the program belongs to the program", "[unit]") {
  Options const options = parsed({"--nnodes", "2", "./train", "--nnodes=", "--", "-m", "--help", "x"});

  CHECK(options.nnodes == NodeRange{2, 2});
  CHECK(options.program == "./train");
  CHECK(options.args == Words{"--nnodes=", "--", "-m", "--help", "x"});
  CHECK_FALSE(options.module);
}

TEST_CASE("options: -- ends the options", "[unit]") {
  Options const options = parsed({"--standalone", "--", "--weird", "--", "x"});

  CHECK(options.program == "--weird");
  CHECK(options.args == Words{"--", "x"});
}

TEST_CASE("options: a value may be attached, may be a negative word, and the last one wins", "[unit]") {
  CHECK(parsed({"--nnodes=1:2", "--nnodes", "3", "p"}).nnodes == NodeRange{3, 3});
  CHECK(parsed({"-r3", "-t", "1", "p"}).redirects.all == 3);
  CHECK(parsed({"-r=0:1", "-t=", "p"}).redirects.of(0) == 1);
  CHECK(parsed({"-mr3", "p"}).module);
  CHECK(parsed({"--rdzv-endpoint=", "--log-dir=", "p"}).program == "p");
  CHECK(parsed({"--rdzv-id", "a=b", "p"}).rdzv_id == "a=b");
}

TEST_CASE("options: both spellings, and PET_ variables, mean the same for every option", "[unit]") {
  for (auto const& row : command().rows()) {
    if (!row.apply) {
      continue;
    }
    CAPTURE(row.name);
    bool const flag = *row.value_name == '\0' || *row.value_name == '[';
    std::string const value = flag ? "1" : sample(row.name);
    auto const words = [&](std::string const& name) { return flag ? Words{name, "p"} : Words{name, value, "p"}; };
    Options const dashed = parsed(words(row.name));

    CHECK_FALSE(dashed == parsed({"p"}));
    CHECK(parsed(words(underscored(row.name))) == dashed);
    CHECK(parsed({"p"}, {{pet_variable(row.name), value}}) == dashed);
    if (*row.short_name != '\0') {
      CHECK(parsed(words(row.short_name)) == dashed);
    }
  }
}

TEST_CASE("options: --warm takes modules behind = alone", "[unit]") {
  CHECK(parsed({"--warm", "p.py"}).warm == "torch");
  CHECK(parsed({"--warm", "torch", "p.py"}).program == "torch");
  CHECK(parsed({"--warm=torch,my.models", "p.py"}).warm == "torch,my.models");
  CHECK(parsed({"--warm", "p.py"}, {{"PET_WARM", "numpy"}}).warm == "torch");
  CHECK(parsed({"p.py"}, {{"PET_WARM", "numpy"}}).warm == "numpy");
  CHECK(parsed({"--warm=0", "p.py"}, {{"PET_WARM", "1"}}).warm.empty());
  CHECK(mistake({"--warm=", "p"}) == "--warm : names of Python modules are expected, for example torch,torchvision");
  CHECK(mistake({"--warm=a b", "p"}) ==
        "--warm a b: names of Python modules are expected, for example torch,torchvision");
}

TEST_CASE("options: the command line wins over PET_ variables, and empty variables are not there", "[unit]") {
  CHECK(parsed({"--nnodes", "3", "p"}, {{"PET_NNODES", "x"}}).nnodes == NodeRange{3, 3});
  CHECK_FALSE(parsed({"p"}, {{"PET_NNODES", ""}}).nnodes.has_value());
  CHECK_FALSE(parsed({"p"}, {{"PET_STANDALONE", "0"}}).standalone);
  CHECK(parsed({"p"}, {{"PET_NPROC_PER_NODE", "2"}}).nproc == NprocPerNode{2U});
}

TEST_CASE("options: variables of torchrun without a flag", "[unit]") {
  using std::chrono::seconds;
  Environment const environment = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600"},
                                   {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"},
                                   {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "theirs"}};

  CHECK(parsed({"p"}, environment).shutdown_timeout == seconds(600));
  CHECK(parsed({"--shutdown-timeout", "1", "p"}, environment).shutdown_timeout == seconds(1));
  CHECK_FALSE(parsed({"p"}, environment).terms.agent_store);
  CHECK(parsed({"p"}, environment).line_prefix == "theirs");
  CHECK(parsed({"--log-line-prefix-template", "mine", "p"}, environment).line_prefix == "mine");
  CHECK(parsed({"--agent-store", "on", "p"}, environment).terms.agent_store);
}

TEST_CASE("options: an unknown option names the nearest one", "[unit]") {
  CHECK(mistake({"--nnoodes", "2", "p"}) == "unknown option --nnoodes; did you mean --nnodes?");
  CHECK(mistake({"--nproc_pre_node=2", "p"}) == "unknown option --nproc_pre_node; did you mean --nproc-per-node?");
  CHECK(mistake({"-nnodes", "2", "p"}) == "unknown option -nnodes; did you mean --nnodes?");
  CHECK(mistake({"--xyzzy", "p"}) == "unknown option --xyzzy; cxxrun --help lists all");
  CHECK(mistake({"-1", "p"}) == "unknown option -1; cxxrun --help lists all");
}

TEST_CASE("options: the start of a name stands for the only option of torchrun's that begins so", "[unit]") {
  CHECK(parsed({"--nnode", "2", "p"}).nnodes == NodeRange{2, 2});
  CHECK(parsed({"--redirect=3", "p"}).redirects.all == 3);
  CHECK(parsed({"--nproc_per=2", "p"}).nproc == NprocPerNode{2U});
  CHECK(parsed({"--max", "5", "p"}).terms.max_restarts == 5);
  CHECK(early({"--he"}).text == early({"--help"}).text);
  CHECK(parsed({"p", "--redirect=3"}).args == Words{"--redirect=3"});
  CHECK(mistake({"--rdzv-e", "--stand", "p"}) ==
        "--rdzv-endpoint needs a value: --rdzv-endpoint HOST[:PORT] ('--standalone' follows)");
  CHECK(mistake({"--rdzv_=x", "p"}) ==
        "unknown option --rdzv_; it may be --rdzv-endpoint, --rdzv-id, --rdzv-backend or --rdzv-conf");
  CHECK(mistake({"--join-win", "2", "p"}) == "unknown option --join-win; did you mean --join-window?");
}

TEST_CASE("options: a missing value is noticed at the end and before another option", "[unit]") {
  CHECK(mistake({"--nnodes"}) == "--nnodes needs a value: --nnodes N|MIN:MAX");
  CHECK(mistake({"p", "-t"}, {{"PET_NNODES", "0"}}).starts_with("PET_NNODES=0: "));
  CHECK(mistake({"-t"}) == "--tee needs a value: --tee SPEC");
  CHECK(mistake({"--log_dir", "--standalone", "p"}) ==
        "--log-dir needs a value: --log-dir DIR ('--standalone' follows)");
  CHECK(mistake({"--tee", "-r", "3", "p"}) == "--tee needs a value: --tee SPEC ('-r' follows)");
  CHECK(mistake({"--standalone=1", "p"}) == "--standalone takes no value");
}

TEST_CASE("options: a bad value names the option, the value and what is expected", "[unit]") {
  CHECK(mistake({"--nnodes", "3:2", "p"}) == "--nnodes 3:2: MIN is larger than MAX; did you mean 2:3?");
  CHECK(mistake({"--nproc-per-node", "-1", "p"}) ==
        "--nproc-per-node -1: auto, gpu, xpu, cpu or a number from 1 to 4096 is expected");
  CHECK(mistake({"--master-port", "70000", "p"}) == "--master-port 70000: a number from 0 to 65535 is expected");
  CHECK(mistake({"--rdzv-endpoint", ":1", "p"}) == "--rdzv-endpoint :1: ':1': the host is missing; write HOST:PORT");
  CHECK(mistake({"--rdzv-conf", "secret=hunter2", "p"}).ends_with("name a file of mode 0600 in CXXRUN_SECRET_FILE"));
  CHECK(mistake({"--rdzv-conf", "secret=hunter2", "p"}).find("hunter2") == std::string::npos);
  CHECK(mistake({"--rdzv-conf", "is_host", "p"}) == "--rdzv-conf is_host: 'is_host': KEY=VALUE,KEY=VALUE is expected");
  CHECK(mistake({"--rdzv-backend", "etcd-v2", "p"}) ==
        "--rdzv-backend etcd-v2: etcd is not supported and not needed; drop the option");
  CHECK(mistake({"p"}, {{"PET_STANDALONE", "true"}}) == "PET_STANDALONE=true: 0 or 1 is expected");
  CHECK(mistake({"--nnodes", "", "p"}).starts_with("--nnodes : N or MIN:MAX is expected"));
  CHECK(mistake({"--duplicate-stderr-filters", "a,", "p"}) ==
        "--duplicate-stderr-filters a,: an empty word is in every line; WORD,WORD is expected, with a comma in a word "
        "doubled");
  CHECK(mistake({"--log-dir=/dev/null", "--duplicate-stdout-filters", "a", "p"}) ==
        "--duplicate-stdout-filters and --duplicate-stderr-filters write files: drop --log-dir /dev/null");
  CHECK(
      mistake({"--signals-to-handle", "SIGTERM,SIGKILL", "p"}) ==
      "--signals-to-handle SIGTERM,SIGKILL: 'SIGKILL': SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU or "
      "SIGPWR is expected, separated by commas");
  CHECK(mistake({"--print-completion", "tcsh"}) == "--print-completion tcsh: bash, zsh or fish is expected");
  CHECK(mistake({"--logs-specs", "mine", "p"}) == "--logs-specs mine: default is expected");
  CHECK(mistake({"--event-log-handler", "mine", "p"}) == "--event-log-handler mine: null or console is expected");
}

TEST_CASE("options: an option of another launcher is refused with what to type here", "[unit]") {
  for (auto const& [names, launcher, instead] : command().foreign) {
    for (auto const& name : cxxrun::split(names, ' ')) {
      CAPTURE(name);
      std::string const rest = std::string(" is an option of ") + launcher + "; here: " + instead;
      CHECK(mistake({name, "4", "p"}) == name + rest);
      if (name.starts_with("--")) {
        CHECK(mistake({underscored(name) + "=4", "p"}) == underscored(name) + rest);
      } else {
        CHECK(mistake({name + "4", "p"}) == name + "4" + rest);
      }
    }
  }
  CHECK(mistake({"-hostfile", "h", "p"}).starts_with("-hostfile is an option of mpirun; here: start cxxrun on every"));
  CHECK(parsed({"p", "-np", "4"}).args == Words{"-np", "4"});
  CHECK(mistake({"-np", "4", "p"}) == "-np is an option of mpirun; here: --nproc-per-node N, the workers of one node");
}

TEST_CASE("options: a completion is printed without a program", "[unit]") {
  CHECK(parsed({"--print-completion", "fish"}).print_completion == "fish");
}

TEST_CASE("options: no program is one line and the usage", "[unit]") {
  for (Words const& words : {Words{}, Words{"--nnodes", "2"}, Words{"--"}, Words{""}}) {
    EarlyExit const end = early(words);
    CHECK(end.code == 100);
    CHECK(end.text.starts_with("cxxrun: no program given\nusage: cxxrun [options] program [arguments]"));
  }
}

TEST_CASE("options: each word of a choice means what it says", "[unit]") {
  auto const numa = [](char const* word) { return parsed({"--numa-binding", word, "p"}).numa_binding; };
  auto const slurm = [](char const* word) { return parsed({"--slurm-env", word, "p"}).slurm_env; };
  CHECK(parsed({"--cpu-bind", "share", "p"}).cpu_bind == CpuMode::share);
  CHECK(parsed({"--cpu-bind", "none", "p"}).cpu_bind == CpuMode::none);
  CHECK(numa("node") == CpuMode::node);
  CHECK(numa("socket") == CpuMode::socket);
  CHECK(numa("exclusive") == CpuMode::exclusive);
  CHECK(numa("core-complex") == CpuMode::core_complex);
  CHECK(slurm("per-worker") == SlurmEnv::per_worker);
  CHECK(slurm("all") == SlurmEnv::all);
  CHECK(slurm("keep") == SlurmEnv::keep);
  CHECK(slurm("clear") == SlurmEnv::clear);
  CHECK(mistake({"--numa-binding", "nodes", "p"}) ==
        "--numa-binding nodes: node, socket, exclusive or core-complex is expected");
}

TEST_CASE("options: -m and --no-python exclude each other", "[unit]") {
  CHECK(mistake({"-m", "--no-python", "p"}) ==
        "-m and --no-python exclude each other: a module needs Python; drop one of them");
}

TEST_CASE("options: what prints something instead of a job is asked for alone", "[unit]") {
  CHECK(mistake({"--doctor", "--dry-run", "p"}) == "--doctor and --dry-run exclude each other: drop one of them");
  CHECK(mistake({"--doctor", "--init"}) == "--doctor and --init exclude each other: drop one of them");
  CHECK(mistake({"--init", "--dry-run", "p"}) == "--init and --dry-run exclude each other: drop one of them");
  CHECK(mistake({"--init", "--standalone", "p"}) == "--init and --standalone exclude each other: drop one of them");
}

TEST_CASE("options: --standalone says what has no effect beside it", "[unit]") {
  using Notes = std::vector<std::string>;
  CHECK(parsed({"--standalone", "--nnodes", "1", "p"}).notes.empty());
  CHECK(parsed({"--standalone", "--nnodes", "1:4", "--master-addr", "a", "p"}).notes ==
        Notes{"--standalone: --master-addr has no effect", "--standalone: --nnodes has no effect"});
  CHECK(parsed({"--standalone", "--rdzv-endpoint", "a:1", "--node-rank", "1", "p"}).notes ==
        Notes{"--standalone: --rdzv-endpoint has no effect", "--standalone: --node-rank has no effect"});
}

TEST_CASE("options: the job that is joined says where this node stands", "[unit]") {
  for (auto const& words : std::vector<std::vector<std::string>>{{"--nnodes", "2"},
                                                                 {"--node-rank", "1"},
                                                                 {"--rdzv-id", "x"},
                                                                 {"--rdzv-endpoint", "h:1"},
                                                                 {"--standalone"},
                                                                 {"--rdzv-conf", "is_host=1"}}) {
    auto all = words;
    all.insert(all.end(), {"--join", "3", "p"});
    CHECK(mistake(all).starts_with(words.front()));
    CHECK(mistake(all).ends_with("with --join: the job that is joined says that; drop it"));
  }
}

TEST_CASE("options: a fence breaks ties in a vote, so it needs one", "[unit]") {
  CHECK(mistake({"--fence", "d", "--quorum", "none", "p"}).starts_with("--fence and --quorum none exclude each other"));
  CHECK(mistake({"--fence", "d", "--heartbeat-timeout", "0", "p"}).starts_with("--fence needs --heartbeat-timeout"));
  CHECK(mistake({"--fence=", "p"}) == "--fence : a value is expected");
}

TEST_CASE("options: --quorum none says at the start what it voids", "[unit]") {
  CHECK(parsed({"--quorum", "majority", "p"}).notes.empty());
  auto const notes = parsed({"--quorum", "none", "p"}).notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("--quorum none: after a cut of the network every side goes on by itself"));
  CHECK(mistake({"--quorum", "half", "p"}) == "--quorum half: majority or none is expected");
}

TEST_CASE("options: --store-access is for the job's user unless it is said otherwise", "[unit]") {
  using cxxrun::store::StoreAccess;
  CHECK(parsed({"p"}).terms.store_access == StoreAccess::user);
  CHECK(parsed({"--store-access", "hosts", "p"}).terms.store_access == StoreAccess::hosts);
  CHECK(parsed({"--store-access=any", "p"}).terms.store_access == StoreAccess::any);
  CHECK(mistake({"--store-access", "all", "p"}) == "--store-access all: user, hosts or any is expected");
}

TEST_CASE("options: --hang-timeout is 0, or at least a second", "[unit]") {
  CHECK(parsed({"p"}).terms.hang_timeout == std::chrono::seconds(0));
  CHECK(parsed({"--hang-timeout", "0", "p"}).terms.hang_timeout == std::chrono::seconds(0));
  CHECK(parsed({"--hang-timeout", "1", "p"}).terms.hang_timeout == std::chrono::seconds(1));
  CHECK(mistake({"--hang-timeout", "0.9", "p"}) == "--hang-timeout 0.9: at least 1 second is expected, or 0 for never");
}

TEST_CASE("options: --heartbeat-timeout is 0, or at least a second", "[unit]") {
  CHECK(parsed({"--heartbeat-timeout", "1", "p"}).terms.heartbeat_timeout == std::chrono::seconds(1));
  CHECK(parsed({"--heartbeat-timeout", "0", "p"}).terms.heartbeat_timeout == std::chrono::seconds(0));
  CHECK(mistake({"--heartbeat-timeout", "0.9", "p"}) ==
        "--heartbeat-timeout 0.9: at least 1 second is expected, or 0 for never");
}

TEST_CASE("options: a node that is added looks for the job for half a minute, or as long as it is told", "[unit]") {
  CHECK(parsed({"--join", "12", "p"}).terms.join_timeout == std::chrono::seconds(30));
  CHECK(parsed({"--join", "12", "--rdzv-conf", "join_timeout=600", "p"}).terms.join_timeout ==
        std::chrono::minutes(10));
  CHECK(parsed({"p"}).terms.join_timeout == std::chrono::minutes(10));
}

TEST_CASE("options: a node that is added asks for no requeue", "[unit]") {
  auto const added = parsed({"--join", "12", "--requeue", "p"});
  CHECK_FALSE(added.requeue);
  CHECK(added.notes ==
        std::vector<std::string>{
            "--requeue has no effect with --join: the job that is joined decides about its own requeue"});
}

TEST_CASE("options: --join-window wins over last_call_timeout, and may be nothing", "[unit]") {
  CHECK(parsed({"--join-window", "0", "--rdzv-conf", "last_call_timeout=7", "p"}).join_window ==
        std::chrono::seconds(0));
  CHECK(parsed({"--rdzv-conf", "last_call_timeout=7", "p"}).join_window == std::chrono::seconds(7));
  CHECK(mistake({"--scale-out", "never", "p"}) == "--scale-out never: now or at-restart is expected");
}

TEST_CASE("options: options without effect say why", "[unit]") {
  CHECK(parsed({"--monitor-interval", "5", "--start-method", "spawn", "p"}).notes ==
        Words{"--monitor-interval has no effect: the end of a worker is an event, nothing is polled",
              "--start-method has no effect: every worker is a new process"});
}

TEST_CASE("options: help stays short and names every option once", "[unit]") {
  EarlyExit const help = early({"--nnodes", "2", "--help"});
  auto const lines = cxxrun::split(help.text, '\n');

  CHECK(help.code == 0);
  CHECK(early({"-h", "p"}) == help);
  CHECK(lines.size() - 1 <= 84);
  for (auto const& line : lines) {
    CHECK(line.size() <= 100);
  }
  for (auto const& row : command().rows()) {
    CAPTURE(row.name);
    CHECK(std::count_if(lines.begin(), lines.end(), [&](std::string const& line) {
            return line.find(std::string("  ") + row.name + (*row.value_name == '[' ? "[" : " ")) == 0 ||
                   line.find(std::string(", ") + row.name + " ") == 4;
          }) == 1);
  }
}

TEST_CASE("options: the version", "[unit]") {
  CHECK(early({"--version"}).code == 0);
  CHECK(early({"--version"}).text.starts_with("cxxrun 0."));
}

TEST_CASE("options: no argument list escapes as an exception", "[unit]") {
  Words const pieces = {"",   "-",   "--",  "---", "--=",      "-=",   "--nnodes=", "=",
                        "-r", "-rr", "-h3", "++",  "--nnodes", "\x01", "-\n"};
  for (auto const& a : pieces) {
    for (auto const& b : pieces) {
      auto const result = parse_options({a, b}, {});
      auto const* const end = std::get_if<EarlyExit>(&result);
      REQUIRE((end == nullptr || end->code == 100 || end->code == 0));
    }
  }
}
