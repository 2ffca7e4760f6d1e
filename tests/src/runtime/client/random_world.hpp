// RandomWorld: one rank of a world that makes random calls, the same on every rank, and knows their results.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"

namespace cxxrun::test {

/// Random numbers that are the same on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    return z ^ (z >> 31U);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t number) { return below(number) == 0; }

 private:
  std::uint64_t state_;
};

class RandomWorld {
 public:
  RandomWorld(Communicator world, std::uint64_t seed);
  /// Makes calls until all ranks together have made that many. Returns how many results this rank has checked; throws
  /// at a wrong one.
  std::size_t play(int calls);

 private:
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, kinds };
  /// A collective, the same for all ranks of the slot.
  struct Drawn {
    Kind kind;
    DType type;
    ReduceOp op;
    Wire wire;
    float scale;
    std::size_t count;
    std::uint64_t root;
    std::uint64_t salt;
    bool background;
    bool arena;
    bool in_place;
  };
  /// The result of a split: this rank's group, and all groups by the world's ranks.
  struct Slot {
    std::optional<Communicator> comm;
    std::vector<std::vector<int>> groups;
    std::vector<int> mine;
  };
  struct Buffers;
  struct Pending {
    Work work;
    std::function<void()> check;
  };
  struct Training;

  void split();
  void collective();
  [[nodiscard]] Drawn draw_call();
  std::shared_ptr<Buffers> make_buffers(Slot& slot, Drawn const& drawn);
  [[nodiscard]] static double right(Slot const& slot, Drawn const& drawn, std::size_t at);
  void check(Slot const& slot, Drawn const& drawn, Buffers const& buffers);
  void train();
  void step(GradientSynchronizer& sync, Training const& training, std::uint64_t number);
  void check_step(GradientSynchronizer& sync, Training const& training, std::uint64_t number);
  void finish(std::size_t left);

  Draws common_;
  Draws own_;
  int rank_;
  std::deque<Slot> slots_;
  std::deque<Pending> pending_;
  std::size_t looked_ = 0;
};

}  // namespace cxxrun::test
