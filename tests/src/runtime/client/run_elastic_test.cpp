// run_elastic: training continues in the same processes, and ends with the bits of an undisturbed run.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <unistd.h>
#include <utility>

#include "cxxrun/elastic.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kSteps = 30;

/// Multiplies and adds floats, so that a step done twice or from another state shows.
class Task : public ElasticTask {
 public:
  std::function<void(char const* where, Task& task, Communicator& comm)> act = [](auto&&...) {};
  int loads = 0;
  int shares = 0;

  [[nodiscard]] std::uint64_t completed() const override { return step_; }
  void attach(Communicator& comm) override {
    auto arena = comm.arena(1 << 16);
    auto const values = arena.allocate<float>(5000);
    auto const sums = arena.allocate<float>(5000);
    if (arena_) {
      std::copy(values_.begin(), values_.end(), values.begin());
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i) / 5000.F;
      }
    }
    arena_ = arena;
    values_ = values;
    sums_ = sums;
  }
  void load() override { ++loads; }
  void share(Communicator& comm, int donor) override {
    ++shares;
    comm.broadcast(values_, donor);
    act("share", *this, comm);
    comm.broadcast(&step_, sizeof step_, DType::u8, donor);
  }
  [[nodiscard]] bool step(Communicator& comm) override {
    act("step", *this, comm);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      sums_[i] = values_[i] * static_cast<float>(comm.rank() + 1) * std::sin(static_cast<float>(step_));
    }
    comm.all_reduce(sums_);
    double norm = 1;
    comm.all_reduce(std::span(&norm, 1));
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] += 0.01F * sums_[i] / static_cast<float>(norm);
    }
    ++step_;
    act("done", *this, comm);
    return step_ < kSteps;
  }

  [[nodiscard]] std::string result() const {
    double sum = 0;
    for (float const value : values_) {
      sum += value;
    }
    char text[64];
    std::snprintf(text, sizeof text, "%llu %.17g", static_cast<unsigned long long>(step_), sum);
    return text;
  }

 private:
  std::optional<Arena> arena_;
  std::span<float> values_;
  std::span<float> sums_;
  std::uint64_t step_ = 0;
};

/// By generation: which process has which rank, counted from 1.
using Cast = std::vector<std::vector<int>>;

/// Plays the agent: resumes parked processes that are in the next generation, and starts those that were not there
/// before.
void direct(Cast const& cast, TestAgent& agent, ForkedStore const& store) {
  std::vector<TestAgent::Worker> by_process(16);
  for (std::size_t g = 0; g < cast.size(); ++g) {
    std::string const nodes(cast[g].size(), 'a');
    auto const was = [&](int process) {
      return g > 0 && std::find(cast[g - 1].begin(), cast[g - 1].end(), process) != cast[g - 1].end();
    };
    for (int const process : cast[g]) {
      if (was(process)) {
        CHECK(by_process[static_cast<std::size_t>(process)].parked().generation == g);
      }
    }
    for (std::size_t rank = 0; rank < cast[g].size(); ++rank) {
      auto& worker = by_process[static_cast<std::size_t>(cast[g][rank])];
      if (was(cast[g][rank])) {
        worker.say(resume(store, g + 1, static_cast<int>(rank), nodes));
      } else {
        or_throw(store.client().set("start" + std::to_string(cast[g][rank]), ""));
        worker = agent.accept();
        TestAgent::welcome(worker);
      }
    }
  }
  by_process[static_cast<std::size_t>(cast.back().front())].hear();
}

/// The rank with which this process begins.
void enter(worker::Resume const& as) {
  for (std::string const& entry : as.environment) {
    auto const equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
}

/// Runs a task in `processes` processes; each begins in its first generation of the cast.
std::vector<RankEnd> play(Cast const& cast, int processes, std::function<std::string(int, Task&)> const& body) {
  ForkedStore const store;
  TestAgent agent;
  return run_with_agent(
      processes,
      [&](int process) {
        std::size_t g = 0;
        while (std::find(cast[g].begin(), cast[g].end(), process) == cast[g].end()) {
          ++g;
        }
        auto const rank = static_cast<int>(std::find(cast[g].begin(), cast[g].end(), process) - cast[g].begin());
        setenv("CXXRUN_AGENT", agent.name().c_str(), 1);
        enter(resume(store, g + 1, rank, std::string(cast[g].size(), 'a')));
        or_throw(store.client().wait({"start" + std::to_string(process)}, Millis(kGuard)));
        Task task;
        return body(process, task);
      },
      [&](auto const&) { direct(cast, agent, store); });
}

std::string train(Task& task) {
  Communicator::Options options;
  options.init_timeout = options.op_timeout = kGuard;
  run_elastic(task, options);
  return task.result();
}

/// Unless the state is kept, it would be computed again from nothing, with the same bits.
std::string train_with_loads(Task& task, int loads) {
  std::string result = train(task);
  expect(task.loads == loads, "loads");
  return result;
}

std::string undisturbed() {
  static std::string const result = play({{0, 1, 2}}, 3, [](int, Task& task) { return train(task); })[0].said;
  return result;
}

}  // namespace

TEST_CASE("elastic: a rank that is killed in any part of a step changes nothing, and nobody loads") {
  std::string const whole = undisturbed();
  CHECK(whole.substr(0, 3) == std::to_string(kSteps) + " ");
  for (char const* const where : {"step", "done"}) {
    for (int const victim : {0, 2}) {
      Cast cast{{0, 1, 2}, {0, 1, 2}};
      cast[1][static_cast<std::size_t>(victim)] = 3;
      auto const ends = play(cast, 4, [&](int process, Task& task) {
        task.act = [&](std::string const& at, Task& now, Communicator&) {
          if (process == victim && at == where && now.completed() == 7) {
            raise(SIGKILL);
          }
        };
        std::string const result = train(task);
        int const loads = cast[0][0] == process ? 1 : 0;
        expect(task.loads == loads, "only the first rank 0 loads");
        expect(task.shares == (process == 3 ? 1 : 2), "shares");
        return result;
      });
      for (int process = 0; process < 4; ++process) {
        INFO(where << victim << process << ends[static_cast<std::size_t>(process)].said);
        CHECK((process == victim || ends[static_cast<std::size_t>(process)].said == whole));
      }
    }
  }
}

TEST_CASE("elastic: a donor that dies while it gives its state away leaves the others theirs") {
  auto const ends = play({{0, 1, 2}, {0, 3, 2}, {4, 3, 2}}, 5, [](int process, Task& task) {
    task.act = [&](std::string const& at, Task& now, Communicator& comm) {
      if ((process == 1 && at == "step" && now.completed() == 5) ||
          (process == 0 && at == "share" && comm.generation() == 2)) {
        raise(SIGKILL);
      }
    };
    return train_with_loads(task, process == 0 ? 1 : 0);
  });
  for (int const process : {2, 3, 4}) {
    CHECK(ends[static_cast<std::size_t>(process)].said == undisturbed());
  }
}

TEST_CASE("elastic: two deaths at once, and one of who has just been started") {
  auto const ends = play({{0, 1, 2}, {3, 1, 4}, {5, 1, 4}}, 6, [](int process, Task& task) {
    task.act = [&](std::string const& at, Task& now, Communicator&) {
      if ((process == 0 || process == 2) && at == "step" && now.completed() == 5) {
        raise(SIGKILL);
      }
      if (process == 3 && at == "step" && now.completed() == 5) {
        raise(SIGKILL);
      }
    };
    return train_with_loads(task, process == 0 ? 1 : 0);
  });
  for (int const process : {1, 4, 5}) {
    CHECK(ends[static_cast<std::size_t>(process)].said == undisturbed());
  }
}

TEST_CASE("elastic: the agent hears of steps that were done, not of those that were loaded") {
  class Resumed : public Task {
    [[nodiscard]] std::uint64_t completed() const override { return 20 + Task::completed(); }
  };
  ForkedStore const store;
  TestAgent agent;
  std::uint64_t before = 1;
  std::uint64_t after = 1;
  auto const ends = run_with_agent(
      1,
      [&](int) {
        setenv("CXXRUN_AGENT", agent.name().c_str(), 1);
        enter(resume(store, 1, 0, "a"));
        Resumed task;
        bool first = true;
        task.act = [&](std::string const& at, Task&, Communicator&) {
          if (at == "step" && std::exchange(first, false)) {
            or_throw(store.client().set("loaded", ""));
            or_throw(store.client().wait({"looked"}, Millis(kGuard)));
          }
        };
        return train(task);
      },
      [&](auto const&) {
        auto worker = agent.accept();
        TestAgent::welcome(worker);
        or_throw(store.client().wait({"loaded"}, Millis(kGuard)));
        before = worker.page->step;
        or_throw(store.client().set("looked", ""));
        worker.hear();
        after = worker.page->step;
      });
  CHECK(before == 0);
  CHECK(after == 20 + kSteps);
}

TEST_CASE("elastic: what rank 0 cannot load is thrown on all ranks") {
  class Broken : public Task {
    void load() override { throw Failure({Errc::io, "the disk is gone"}); }
  };
  auto const ends = play({{0, 1, 2}}, 3, [](int, Task&) {
    Broken task;
    return train(task);
  });
  for (auto const& end : ends) {
    CHECK(end.said == "exception: the disk is gone");
  }
}

TEST_CASE("elastic: without a launcher that keeps survivors the PeerFailure leaves run_elastic") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    unsetenv("CXXRUN_AGENT");
    enter(resume(store, 1, rank, "aa"));
    Task task;
    task.act = [&](std::string const& at, Task& now, Communicator&) {
      if (rank == 1 && at == "step" && now.completed() == 3) {
        raise(SIGKILL);
      }
    };
    try {
      return train(task);
    } catch (PeerFailure const& failure) {
      return std::to_string(failure.rank()) + " after " + std::to_string(task.completed());
    }
  });
  CHECK(ends[0].said == "1 after 3");
}
