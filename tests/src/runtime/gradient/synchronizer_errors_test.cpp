// GradientSynchronizer: every failure is named, on every rank, and no rank waits forever.
#include <cmath>
#include <csignal>
#include <regex>

#include "tests/support/catch.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<Parameter> const kThree{{"embed", 100}, {"w1", 1000}, {"w2", 10}};

/// The message that `body` throws.
std::string thrown(std::function<void()> const& body) {
  try {
    body();
  } catch (PeerFailure const& failure) {
    return (failure.why() == PeerFailure::Why::died   ? "died "
            : failure.why() == PeerFailure::Why::left ? "left "
                                                      : "? ") +
           std::to_string(failure.rank());
  } catch (Failure const& failure) {
    return failure.what();
  }
  return "nothing";
}

/// Removes the host's name, as in "rank 2 on node1": it does not matter here.
std::string without_hosts(std::string const& text) {
  return std::regex_replace(text, std::regex("(rank [0-9]+) on [^ :]+"), "$1");
}

std::string construct(SyncWorld const& world, int rank, std::vector<Parameter> parameters,
                      GradientSynchronizer::Options const& options = {}) {
  auto comm = world.join(rank);
  return without_hosts(thrown([&] { GradientSynchronizer(comm, std::move(parameters), options); }));
}

}  // namespace

TEST_CASE("synchronizer: a parameter that differs on another rank is named with both views", "[process]") {
  SyncWorld const world{3};
  std::string const advice = ": every rank must give the same parameters in the same order, and the same options";
  auto const with = [&](auto change) {
    return world.run([&](int rank) {
      auto parameters = kThree;
      if (rank == 2) {
        change(parameters);
      }
      return construct(world, rank, parameters);
    });
  };
  CHECK(with([](auto& all) { all[1].count = 999; }) ==
        "rank 0 has parameter 1 \"w1\" of 1000 f32, rank 2 has parameter 1 \"w1\" of 999 f32" + advice);
  CHECK(with([](auto& all) { all[2].type = DType::f64; }) ==
        "rank 0 has parameter 2 \"w2\" of 10 f32, rank 2 has parameter 2 \"w2\" of 10 f64" + advice);
  CHECK(with([](auto& all) { all.pop_back(); }) ==
        "rank 0 has parameter 2 \"w2\" of 10 f32, rank 2 has nothing any more" + advice);
  CHECK(with([](auto& all) {
          all.push_back({"w3", 1});
        }) == "rank 0 has nothing any more, rank 2 has parameter 3 \"w3\" of 1 f32" + advice);
  CHECK(world.run([&](int rank) {
    auto const text = construct(world, rank, kThree, {.bucket_bytes = rank == 1 ? 100U : 200U});
    return text.substr(0, text.find(','));
  }) == "rank 0 has the options first_bucket_bytes 1048576");
  CHECK(world.run([&](int rank) {
    return construct(world, rank, {{"ids", 10, DType::i32}});
  }) == "parameter \"ids\" is of type i32: gradients are f32, f64, f16 or bf16");
}

TEST_CASE("synchronizer: gradients that one rank never marks are named on every rank", "[process]") {
  for (auto const* const nodes : {"", "abb"}) {
    SyncWorld const world{3, nodes};
    CHECK(
        world.run([&](int rank) {
          auto comm = world.join(rank);
          GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
          auto const step = [&](std::size_t marks) {
            return without_hosts(thrown([&] {
              for (std::size_t i = 0; i < marks; ++i) {
                sync.mark_ready(i);
              }
              sync.wait();
            }));
          };
          auto const fine = step(sync.size());
          auto const text = step(rank == 1 ? 5 : sync.size());
          bool const again = step(sync.size()) == text &&
                             without_hosts(thrown([&] { static_cast<void>(sync.gradient_norm()); })) == text;
          return fine + "|" + text + (again ? "|again" : "");
        }) ==
        "nothing|rank 1: 5 of 10 gradients were never marked ready in step 2: \"p5\", \"p6\", \"p7\" and 2 more; mark "
        "each once per step, or set find_unused|again");
  }
}

TEST_CASE("synchronizer: a gradient that one rank marks twice is named on every rank", "[process]") {
  for (int const ranks : {1, 2}) {
    SyncWorld const world{ranks};
    CHECK(world.run([&](int rank) {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, kThree, {});
      return without_hosts(thrown([&] {
        sync.mark_ready(1);
        sync.mark_ready(2);
        if (rank == ranks - 1) {
          sync.mark_ready(1);
        }
        sync.mark_ready(0);
        sync.wait();
      }));
    }) == "rank " + std::to_string(ranks - 1) +
              ": gradient \"w1\" was marked ready twice in step 1; mark it once per step, when it is complete");
  }
}

TEST_CASE("synchronizer: a second mark that comes too late for the others ends this rank, and then theirs",
          "[process]") {
  SyncWorld const world{2};
  auto const said = world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, kThree, {.rebuild_order = false});
    return without_hosts(thrown([&] {
      for (int step = 0; step < 2; ++step) {
        for (std::size_t i = 0; i < sync.size(); ++i) {
          sync.mark_ready(i);
        }
        if (rank == 1) {
          sync.mark_ready(2);
        }
        sync.wait();
      }
    }));
  });
  CHECK(said ==
        "[left 1] [rank 1: gradient \"w2\" was marked ready twice in step 1; mark it once per step, when it is "
        "complete] ");
}

TEST_CASE("synchronizer: weights on one rank only are noticed by all", "[process]") {
  SyncWorld const world{3};
  for (int const odd : {0, 2}) {
    CHECK(world.run([&](int rank) {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, {{"w", 10}}, {});
      if (rank == odd) {
        sync.set_weight(3);
      }
      sync.mark_ready(0);
      return without_hosts(thrown([&] { sync.wait(); }));
    }) == (odd == 0 ? "rank 1 gave no weight in step 1 and rank 0 did"
                    : "rank 0 gave no weight in step 1 and rank 2 did") +
              std::string(": call set_weight() on all ranks or on none"));
  }
}

TEST_CASE("synchronizer: weights on one rank only, where they are asked for first, are named with its call",
          "[process]") {
  SyncWorld const world{2};
  auto const said = world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"w", 10, DType::f16}}, {});
    if (rank == 1) {
      sync.set_weight(3);
    }
    sync.mark_ready(0);
    return thrown([&] { sync.wait(); });
  });
  CHECK(said ==
        "ranks disagree about the type: rank 0 called all_reduce of 64 f16, sum, scale 0.5; rank 1 called all_reduce "
        "of 1 f64, sum");
}

TEST_CASE("synchronizer: no samples on any rank is an error", "[process]") {
  for (int const ranks : {1, 2}) {
    SyncWorld const world{ranks};
    CHECK(world.run([&](int rank) {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, {{"w", 10}}, {});
      sync.set_weight(0);
      sync.mark_ready(0);
      return thrown([&] { sync.wait(); });
    }) == "the weights of all ranks are 0 in step 1: some rank must have samples");
  }
}

TEST_CASE("synchronizer: what makes no sense is refused where it is said", "[process]") {
  auto comm = Communicator::init(WorkerEnv{}, {});
  GradientSynchronizer sync(comm, kThree, {});
  auto const refused = [](std::function<void()> const& body) { return without_hosts(thrown(body)); };

  CHECK(refused([&] { sync.set_weight(-1); }).find("rank 0: a weight of -1") == 0);
  CHECK(refused([&] { sync.set_weight(std::nan("")); }).find("rank 0: a weight of nan") == 0);
  CHECK(refused([&] { sync.mark_ready(3); }) == "rank 0: there is no parameter 3: there are 3, counted from 0");
  CHECK(refused([&] { static_cast<void>(sync.gradient<float>(3)); }).find("there is no parameter 3") !=
        std::string::npos);
  CHECK(refused([&] { static_cast<void>(sync.gradient<double>(0)); }) ==
        "rank 0: gradient \"embed\" is f32, not f64; take it as gradient() of its own type");
  CHECK(sync.gradient<float const>(0).size() == sync.count(0));
  CHECK(refused([&] { sync.broadcast({}, 1); }) == "rank 0: broadcast from rank 1: the ranks are 0 to 0");
  sync.mark_ready(0);
  for (auto const& text :
       {refused([&] { sync.set_weight(1); }), refused([&] { static_cast<void>(sync.no_sync()); }),
        refused([&] { static_cast<void>(sync.gradient_norm()); }), refused([&] { sync.broadcast({}); })}) {
    CHECK(text.find("between the first mark_ready() of a step and its wait()") != std::string::npos);
  }
}

TEST_CASE("synchronizer: tensors that differ are not broadcast", "[process]") {
  SyncWorld const world{2};
  CHECK(
      world.run([&](int rank) {
        auto comm = world.join(rank);
        GradientSynchronizer sync(comm, kThree, {});
        std::vector<float> data(10);
        std::vector<Tensor> const tensors{{data.data(), 5}, {data.data() + 5, rank == 0 ? 5U : 4U}};
        return without_hosts(thrown([&] { sync.broadcast(tensors); }));
      }) ==
      "rank 0 has tensor 1 of 5 f32, rank 1 has tensor 1 of 4 f32: every rank must broadcast the same tensors from the "
      "same root");
}

TEST_CASE("synchronizer: when a rank is killed amid a step the others hear of it in wait()", "[process]") {
  for (std::size_t const marks : {0, 1, 5, 10}) {
    SyncWorld const world{3};
    auto const said = world.run([&](int rank) {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
      std::string first;
      for (int step = 0; first.empty(); ++step) {
        for (std::size_t i = 0; i < sync.size(); ++i) {
          if (rank == 1 && step == 2 && i == marks) {
            kill(getpid(), SIGKILL);
          }
          sync.mark_ready(i);
        }
        if (rank == 1 && step == 2) {
          kill(getpid(), SIGKILL);
        }
        auto const text = thrown([&] { sync.wait(); });
        first = text == "nothing" ? "" : text;
      }
      for (std::size_t i = 0; i < sync.size(); ++i) {
        sync.mark_ready(i);  // harmless
      }
      return first + (thrown([&] { sync.wait(); }) == first ? ", again" : "");
    });
    CHECK(said == "[died 1, again] []: status 9 [died 1, again] ");
  }
}
