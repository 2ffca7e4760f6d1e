// A forked child cannot use the Communicator and the Store of its parent, and is told so.
#include "tests/support/forked_child.hpp"

#include <functional>
#include <string>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("a forked child's calls are refused by name, and its parent goes on") {
  for (char const* const nodes : {"aa", "ab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(2, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto meeting = store.client();
      std::vector<float> values(1000, 1.0F);
      std::vector<float> gradient(10, 1.0F);
      auto group = comm.split(0);
      GradientSynchronizer synchronizer(comm, {{"weight", 10, DType::f32}});
      auto work = comm.start_all_reduce(values.data(), values.data(), values.size(), DType::f32);
      work.wait();
      std::vector<std::function<void()>> const calls{
          [&] { comm.all_reduce(std::span(values)); },
          [&] { comm.reduce_scatter(values.data(), values.data(), 1, DType::f32); },
          [&] { comm.all_gather(gradient.data(), values.data(), 1, DType::f32); },
          [&] { comm.broadcast(values.data(), 1, DType::f32, 0); },
          [&] { comm.all_to_all(values.data(), values.data(), 1, DType::f32); },
          [&] { comm.barrier(); },
          [&] { static_cast<void>(comm.start_all_reduce(values.data(), values.data(), 1, DType::f32)); },
          [&] { static_cast<void>(comm.start_reduce_scatter(values.data(), values.data(), 1, DType::f32)); },
          [&] { static_cast<void>(comm.start_all_gather(gradient.data(), values.data(), 1, DType::f32)); },
          [&] { static_cast<void>(comm.start_broadcast(values.data(), 1, DType::f32)); },
          [&] { comm.broadcast(values.data(), 1, DType::f32, 99); },
          [&] { static_cast<void>(comm.split(0)); },
          [&] { static_cast<void>(comm.split(std::nullopt)); },
          [&] { static_cast<void>(comm.checkpoint_wanted()); },
          [&] { group->all_reduce(std::span(values)); },
          [&] { group->barrier(); },
          [&] { static_cast<void>(group->start_broadcast(values.data(), 1, DType::f32)); },
          [&] { static_cast<void>(group->split(0)); },
          [&] { static_cast<void>(group->arena(64)); },
          [&] { group->broadcast(values.data(), 1, DType::f32, 99); },
          [&] { static_cast<void>(comm.arena(64)); },
          [&] { expect(work.done(), "nobody polls for ever"), work.wait(); },
          [&] { work.wait_on({}); },
          [&] { comm.rebuild(); },
          [&] { comm.report_step(7); },
          [&] { synchronizer.mark_ready(0), synchronizer.wait(); },
          [&] { throw Failure(meeting.set("child", "1").error()); },
          [&] { throw Failure(meeting.add("child", 1).error()); },
          [&] { throw Failure(meeting.get("child").error()); },
          [&] { throw Failure(meeting.check({"child"}).error()); },
      };
      expect(refused_in_child(calls) == static_cast<int>(calls.size()), "every call is refused");
      comm.all_reduce(std::span(values));
      expect(values[999] == 4, "the parent's sum");
      group->all_reduce(std::span(values));
      expect(values[999] == 8, "the sum in the parent's group");
      expect(meeting.add("parent", 1).has_value() && !*meeting.check({"child"}), "the parent's store");
      comm.barrier();
      return std::string();
    }));
  }
}
