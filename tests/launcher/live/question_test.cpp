#include "launcher/live/question.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::live;  // NOLINT(google-build-using-namespace)
using What = Question::What;

TEST_CASE("question: each reads back as it was written") {
  for (Question const& question :
       {Question{What::who, 0, {}}, Question{What::status, 0, {}}, Question{What::events, 812, {}},
        Question{What::follow, 812, {}}, Question{What::follow, 812, {}, std::nullopt, "", "n1"},
        Question{What::stacks, 0, {}}, Question{What::stacks, 0, {3, 5}}, Question{What::native, 0, {}},
        Question{What::native, 0, {3}}, Question{What::logs, 4096, {12}}, Question{What::checkpoint, 2, {}},
        Question{What::restart, 2, {}}, Question{What::stop, 0, {}},
        Question{What::drain, 2, {}, std::nullopt, "node2.a-b"}}) {
    CHECK(parse_question(question_text(question)) == question);
  }
  CHECK(question_text({What::stacks, 0, {3, 5}}) == "stacks 3,5");
  CHECK(question_text({What::native, 0, {}}) == "native all");
  CHECK(question_text({What::logs, 4096, {12}}) == "logs 12 4096");
  CHECK(question_text({What::drain, 2, {}, std::nullopt, "node2"}) == "drain node2 2");
  CHECK(question_text({What::follow, 812, {}, std::nullopt, "", "n1"}) == "follow 812 n1");
}

TEST_CASE("question: logs may name the place from which to go on") {
  Question const question{What::logs, 4096, {12}, LogPlace{2, {{{111, 500}, {112, 0}}}}};
  CHECK(question_text(question) == "logs 12 4096 2:111:500:112:0");
  CHECK(parse_question(question_text(question)) == question);
  for (std::string const place : {"", "5", "1:2:3:4", "1:2:3:4:5:6", "1:2:3:4:x", "1:2:3:4:5 6"}) {
    CHECK_FALSE(parse_question("logs 12 4096 " + place));
  }
  CHECK_FALSE(parse_question("status 1:2:3:4:5"));
}

TEST_CASE("question: anything else is none") {
  for (auto const* const text : {"",           " ",           "status ",
                                 "status 1",   "Status",      "events",
                                 "events x",   "events -1",   "events 99999999999999999999",
                                 "stacks",     "stacks ",     "stacks 1,",
                                 "stacks -1",  "stacks 1 2",  "stacks 4294967296",
                                 "logs 1",     "logs all 1",  "logs 1 2 3",
                                 "kill",       "who\n",       "follow",
                                 "restart",    "stop x",      "checkpoint all",
                                 "drain 2",    "drain  2",    "drain node2",
                                 "drain a b",  "drain a b 2", "native",
                                 "logs 1 all", "follow 1 ",   "follow 1 n1 n2",
                                 "follow n1",  "events 1 n1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_question(text));
  }
  std::string ranks = "stacks 0";
  for (std::size_t i = 1; i < kMostRanks; ++i) {
    ranks += ",1";
  }
  CHECK(parse_question(ranks));
  CHECK_FALSE(parse_question(ranks + ",1"));
}

TEST_CASE("question: the text of an answer is cut into parts between characters") {
  CHECK(parts_of("", 4) == std::vector<std::string>{""});
  CHECK(parts_of("abcdef", 4) == std::vector<std::string>{"abcd", "ef"});
  CHECK(parts_of("abc\xc3\xa4"
                 "d",
                 4) == std::vector<std::string>{"abc",
                                                "\xc3\xa4"
                                                "d"});
  CHECK(parts_of("\x80\x80\x80\x80\x80", 4) == std::vector<std::string>{"\x80\x80\x80\x80", "\x80"});
}
