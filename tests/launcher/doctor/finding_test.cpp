#include "launcher/doctor/finding.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

Finding const kNames{Grade::fine, "names", "node1 is 10.0.0.1", ""};
Finding const kShm{Grade::warning, "/dev/shm", "64 MiB", "more of it"};
Finding const kGpus{Grade::failure, "GPUs", "no answer", "leave it out"};

}  // namespace

TEST_CASE("findings: one node, a line for each, its remedy below, and what they come to", "[unit]") {
  CHECK(findings_text({{{"node1", {kNames, kShm, kGpus}}}, {}}) ==
        "ok    names          node1 is 10.0.0.1\n"
        "WARN  /dev/shm       64 MiB\n"
        "        -> more of it\n"
        "FAIL  GPUs           no answer\n"
        "        -> leave it out\n"
        "cxxrun --doctor on node1: 1 failure, 1 warning\n");
}

TEST_CASE("findings: what nodes have in common but for numbers is one line", "[unit]") {
  Finding const second{Grade::fine, "names", "node2 is 10.0.0.2", ""};
  Finding const third{Grade::fine, "names", "node3 is 10.0.0.3", ""};
  CHECK(findings_text({{{"node1", {kNames, kShm}}, {"node2", {second, kShm}}, {"node3", {third, kGpus}}}, {}}) ==
        "ok    names          node1 is 10.0.0.1  [all 3, the first is shown]\n"
        "WARN  /dev/shm       64 MiB  [node[1-2]]\n"
        "        -> more of it\n"
        "FAIL  GPUs           no answer  [node3]\n"
        "        -> leave it out\n"
        "cxxrun --doctor on node[1-3]: 1 failure, 1 warning\n");
}

TEST_CASE("findings: lines about one thing stand together, whichever node has them", "[unit]") {
  Finding const unknown{Grade::failure, "names", "unknown", "add it"};
  auto const text = findings_text({{{"a", {kNames, kShm}}, {"b", {unknown, kShm}}}, {}});
  CHECK(text.find("FAIL  names") < text.find("WARN  /dev/shm"));
}

TEST_CASE("findings: what a program said cannot write to the terminal", "[unit]") {
  auto const text = findings_text({{{"a", {{Grade::note, "x\x1b[2J", "y\x1b[2J\n", "z\a"}}}}, {}});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\a') == std::string::npos);
}

TEST_CASE("findings: what 16 nodes have alike counts once, for people and for machines", "[unit]") {
  Report report;
  for (int i = 0; i < 16; ++i) {
    report.nodes.push_back({"node" + std::to_string(i), {kShm, kGpus}});
  }
  CHECK(findings_text(report).ends_with(": 1 failure, 1 warning\n"));
  CHECK(findings_json(report).find("\"warnings\": 1") != std::string::npos);
  CHECK(findings_json(report).find("\"failures\": 1") != std::string::npos);
}

TEST_CASE("findings: as JSON", "[unit]") {
  CHECK(findings_json({{{"node1", {kShm}}}, {}}) ==
        "{\n  \"failures\": 0,\n  \"nodes\": [\n    {\n      \"findings\": [\n        {\n          \"about\": "
        "\"/dev/shm\",\n"
        "          \"found\": \"64 MiB\",\n          \"grade\": \"warning\",\n          \"remedy\": \"more of it\"\n"
        "        }\n      ],\n      \"host\": \"node1\"\n    }\n  ],\n  \"step\": [],\n  \"version\": 1,\n  "
        "\"warnings\": 1\n}\n");
}

TEST_CASE("findings: facts come back as they were written, and garbage is an error", "[unit]") {
  Facts const facts = {{"a", "1"}, {"b", "x \"y\"\n"}};
  CHECK(read_facts(write_facts(facts)).value() == facts);
  for (char const* const bad : {"", "{", "[]", "7", "{\"a\": 1}", "{\"a\": {}}"}) {
    CHECK_FALSE(read_facts(bad));
  }
}
