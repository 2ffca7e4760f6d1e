// AgentLink: what a worker does with the messages of its agent, and without them.
#include "src/base/worker/agent_link.hpp"

#include <atomic>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/eventually.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;          // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;    // NOLINT(google-build-using-namespace)
using namespace cxxrun::worker;  // NOLINT(google-build-using-namespace)

namespace {

Register const kMe{.generation = 1, .local_rank = 0, .survives = true};

struct Linked {
  TestAgent agent;
  TestAgent::Worker worker;
  std::unique_ptr<AgentLink> link;

  Linked() {
    std::thread other([this] {
      worker = agent.accept();
      TestAgent::welcome(worker);
    });
    link = AgentLink::connect(agent.name(), kMe).value();
    other.join();
  }
};

std::string failure_of(std::function<void()> const& body) {
  try {
    body();
  } catch (Failure const& failure) {
    return failure.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("agent link: it registers, and both see one page") {
  Linked it;
  CHECK(it.worker.me == kMe);
  it.link->page().step.store(12);
  CHECK(it.worker.page->step == 12);
  it.worker.page->checkpoints.store(3);
  CHECK(it.link->page().checkpoints == 3);
  CHECK(it.link->survives());
  CHECK_FALSE(it.link->is_over(1));
  CHECK(it.link->claim(1));
  CHECK_FALSE(it.link->claim(1));
  CHECK(it.link->claim(2));
  CHECK_FALSE(it.link->claim(1));  // of a Communicator that has not been rebuilt
  CHECK_FALSE(it.link->claim(2));
}

TEST_CASE("agent link: no agent, one that says no, one that talks nonsense and one that closes are no link") {
  CHECK(AgentLink::connect("cxxrun-test-nobody", kMe).error().code == Errc::closed);
  struct Answer {
    std::string bytes;
    Errc code;
  };
  for (Answer const& answer : {Answer{encode(FromAgent(No{"not today"})), Errc::refused},
                               Answer{encode(FromAgent(Welcome{})), Errc::protocol},  // without a descriptor
                               Answer{"GET / HTTP/1.1", Errc::protocol}, Answer{"", Errc::closed}}) {
    TestAgent agent;
    std::thread other([&] {
      auto worker = agent.accept();
      if (!answer.bytes.empty()) {
        static_cast<void>(send(worker.connection.get(), answer.bytes.data(), answer.bytes.size(), MSG_NOSIGNAL));
      }
    });
    auto const link = AgentLink::connect(agent.name(), kMe);
    other.join();
    REQUIRE_FALSE(link);
    CHECK(link.error().code == answer.code);
  }
}

TEST_CASE("agent link: who watches a generation is told once that it is over, and nobody else is") {
  Linked it;
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  auto const watch = it.link->watch(1, [&] {
    ++first;
    first.notify_all();
  });
  auto gone = it.link->watch(1, [&] { first = 100; });
  auto const later = it.link->watch(2, [&] {
    ++second;
    second.notify_all();
  });
  gone.reset();
  it.worker.over(1);
  first.wait(0);
  CHECK(first == 1);
  CHECK(second == 0);
  CHECK(it.link->is_over(1));
  CHECK_FALSE(it.link->is_over(2));
  it.worker.over(2);
  second.wait(0);
  CHECK(first == 1);
  std::atomic<int> late{0};
  auto const at_once = it.link->watch(2, [&] { ++late; });
  CHECK(late == 1);
}

TEST_CASE("agent link: waits are given up where the agent asks for it, in that generation and once") {
  Linked it;
  std::atomic<int> asked{0};
  std::function<void()> answer;
  auto const watch = it.link->watch(
      1, [] {},
      [&](std::function<void()> const& given) {
        answer = given;
        ++asked;
      });
  auto const other = it.link->watch(
      2, [] {}, [&](auto const&) { asked = 100; });
  auto const await_heard = [&](std::uint64_t generation) {
    it.worker.page->asked.store(generation);
    it.worker.ring();
    CHECK(eventually([&] { return it.worker.page->heard == generation; }));
  };
  await_heard(1);
  CHECK(asked == 1);
  CHECK(it.worker.page->answered == 0);
  answer();
  CHECK(it.worker.page->answered == 1);
  it.worker.page->heard = 0;
  await_heard(1);
  CHECK(asked == 1);
  await_heard(3);  // no Watch is on it
  CHECK(asked == 1);
}

TEST_CASE("agent link: a parked worker goes on with the generation that the agent names, and with no older one") {
  Linked it;
  std::atomic<int> told{0};
  auto const watch = it.link->watch(1, [&] { ++told; });
  std::thread other([&] {
    auto const parked = it.worker.parked();
    CHECK(parked == Parked{1, "rank 2 died"});
    it.worker.say(Resume{1, {"RANK=9"}});
    it.worker.say(Resume{3, {"RANK=5", "RANK=6", "CXXRUN_X=a=b"}});
  });
  auto const resume = it.link->next_generation({1, "rank 2 died"});
  other.join();
  CHECK(told == 1);  // a parked worker holds nothing of that generation
  CHECK(resume.generation == 3);
  auto const lookup = variables_of(resume.environment);
  CHECK(std::string(lookup("RANK")) == "5");
  CHECK(std::string(lookup("CXXRUN_X")) == "a=b");
  CHECK(std::string(lookup("PATH")) == std::getenv("PATH"));
  CHECK(lookup("CXXRUN_NO_SUCH") == nullptr);
  CHECK(it.link->next_generation({2, "another Communicator"}).generation == 3);  // without asking the agent again
}

TEST_CASE("agent link: a parked worker waits for a while where the agent knows of nothing wrong, else for ever") {
  Linked it;
  auto const why = failure_of([&] { static_cast<void>(it.link->next_generation({1, "late"}, Millis(30))); });
  CHECK(has(why, "no other generation came within 30 ms"));
  CHECK(has(why, "(late)"));
  it.worker.parked();
  it.worker.over(1);
  std::thread other([&] {
    it.worker.parked();
    it.worker.say(Resume{2, {}});
  });
  CHECK(it.link->next_generation({1, "late"}, Millis(0)).generation == 2);
  other.join();
}

TEST_CASE("agent link: the end of the job and that of the agent end the wait") {
  for (bool const agent_dies : {false, true}) {
    Linked it;
    std::thread other([&] {
      it.worker.parked();
      if (agent_dies) {
        it.worker.connection.reset();
      } else {
        it.worker.ends();
      }
    });
    auto const why = failure_of([&] { static_cast<void>(it.link->next_generation({1, "rank 2 died"})); });
    other.join();
    INFO(why);
    CHECK(
        has(why, agent_dies ? "the agent is gone" : "the job ends: no generation follows generation 1 (rank 2 died)"));
    CHECK(has(failure_of([&] { static_cast<void>(it.link->next_generation({1, "again"})); }), "generation 1"));
  }
}

TEST_CASE("agent link: a forked child has no link, and the end of its copy of a watch does not wait for anybody") {
  auto const ends = run_ranks(1, [](int) {
    TestAgent agent;
    TestAgent::Worker worker;
    std::thread other([&] {
      worker = agent.accept();
      TestAgent::welcome(worker);
    });
    Lookup const lookup = [&](char const*) { return agent.name().c_str(); };
    expect(process_page() == nullptr, "no page before there is a link");
    AgentLink* const link = process_link(lookup, kMe);
    other.join();
    expect(link != nullptr && process_link(lookup, kMe) == link, "one link for the process");
    expect(process_page() == &link->page(), "and its page");
    auto watch = std::make_unique<AgentLink::Watch>(link->watch(1, [] {}));
    pid_t const child = fork();
    if (child == 0) {
      watch.reset();
      _exit(process_link(lookup, kMe) == nullptr && process_page() == nullptr ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(status == 0, "none for the child");
    return std::string();
  });
  check_all_returned(ends);
}
