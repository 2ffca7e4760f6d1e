#include "src/runtime/cpu/host_backend.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/sysinfo.h>
#include <utility>

#include "src/base/os/system.hpp"
#include "src/runtime/cpu/cluster_collectives.hpp"
#include "src/runtime/cpu/node/shared_collectives.hpp"

namespace cxxrun::host {
namespace {

using comm::Call;
using comm::Kind;

Patience patience_of(std::chrono::milliseconds time) {
  auto const now = Clock::now();
  return {now, now + std::min(time, kForever)};
}

/// Memory and swap of the machine. A file in memory can be made larger than that; later its user would be killed.
std::size_t machine_memory() {
  struct sysinfo machine {};
  sysinfo(&machine);
  return (std::size_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
}

/// The ranks that this rank's rail leads to, by node.
RailConfig rail_config(HostConfig const& config) {
  RailConfig rail;
  rail.node = config.map.node;
  rail.generation = config.generation;
  rail.nonce = config.nonce;
  rail.are_coming = config.are_coming;
  for (int node = 0; node < config.map.node_count(); ++node) {
    int const rank = config.map.partner(node, config.map.index);
    auto const i = static_cast<std::size_t>(rank);
    bool const alone = config.map.nodes[static_cast<std::size_t>(node)].size() == 1;
    rail.peers.push_back({config.name_of(rank), config.hosts[i], config.addresses[i], alone});
  }
  return rail;
}

class HostBackend final : public Backend {
 public:
  HostBackend(HostConfig config, os::UniqueFd segment, RailListener listener, Patience const& patience)
      : config_(std::move(config)),
        group_(config_, std::move(segment), patience),
        exchange_(group_),
        shared_(exchange_) {
    if (config_.map.node_count() > 1) {
      connect(std::move(listener), patience);
    }
    config_.look = {};
  }

  void run(Call const& call) override {
    guarded(config_.op_timeout, [&](Patience const& patience) { carry_out(call, patience); });
  }

  void run_within(Call const& call, std::chrono::milliseconds time) override {
    guarded(time, [&](Patience patience) {
      patience.may_give_up_early = false;  // this call is to find out who is late
      group_.check(patience);              // a rank that died may have arrived before, in another call
      if (rails_ != nullptr) {
        rails_->throw_trouble(patience);
      }
      carry_out(call, patience);
    });
  }

  [[nodiscard]] Trouble trouble() noexcept override {
    if (failed_) {
      return Trouble::failed;
    }
    auto const near = group_.trouble();
    return near == Trouble::none && rails_ != nullptr ? rails_->trouble() : near;
  }

  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = nullptr;
    guarded(config_.op_timeout, [&](Patience const& patience) { memory = share(bytes, patience); });
    return memory;
  }

  [[nodiscard]] std::string describe() const override {
    int const nodes = config_.map.node_count();
    return "host backend, " + std::to_string(nodes) + (nodes == 1 ? " node, " : " nodes, ") +
           std::to_string(group_.size()) + (group_.size() == 1 ? " rank" : " ranks share memory") + " here";
  }

  void leave() noexcept override {
    cluster_.reset();
    group_.set_farewell_check({});
    rails_.reset();
    group_.leave();
  }

  // Waits see the node's alarm: within the node at once, on a rail within a millisecond.
  void abort(FailureFacts const& facts) noexcept override { group_.raise(facts); }
  void give_up_early(std::function<void()> answer) noexcept override {
    group_.early_give_up().request(std::move(answer));
  }

 private:
  /// Runs one call.
  template <class Body>
  void guarded(std::chrono::milliseconds time, Body const& body) {
    if (failed_) {
      std::rethrow_exception(failed_);
    }
    auto const patience = patience_of(time);
    count_call();
    fail_together(patience, [&] {
      if (group_.failed()) {
        group_.throw_alarm(patience);
      }
      body(patience);
      fault_point(FaultPoint::leave);
    });
  }

  /// Makes a failure of `body` the node's failure, unless there is one already, and keeps the node's failure in
  /// failed_.
  template <class Body>
  void fail_together(Patience const& patience, Body const& body) {
    try {
      try {
        body();
      } catch (...) {
        group_.raise(std::current_exception());
        group_.throw_alarm(patience);
      }
    } catch (...) {
      failed_ = std::current_exception();
      if (rails_ != nullptr) {
        rails_->fail(failed_);
      }
      throw;
    }
  }

  void carry_out(Call const& call, Patience const& patience) {
    if (cluster_ != nullptr) {
      cluster_->run(call, patience);
    } else {
      shared_.run(call, patience);
    }
  }

  /// Returns when all rails of the node are connected; if one cannot connect, all ranks throw the reason.
  void connect(RailListener listener, Patience const& patience) {
    fail_together(patience, [&] {
      if (config_.map.on_rail()) {
        rails_ = std::make_unique<Rails>(rail_config(config_), std::move(listener), group_, patience);
        group_.set_farewell_check([this](Patience const& late) { rails_->throw_farewells(late); });
      }
      group_.meet(patience);
    });
    cluster_ = std::make_unique<ClusterCollectives>(exchange_, config_.map, rails_.get(), config_.grace());
  }

  /// Grows the segment by `bytes` for each rank. All ranks report their result before any of them uses the memory.
  std::byte* share(std::size_t bytes, Patience const& patience) {
    exchange_.enter({.kind = Kind::allocate, .count = bytes}, {}, patience);
    auto const ranks = static_cast<std::size_t>(group_.size());
    std::uint64_t const offset = group_.segment().end();
    std::size_t const each = bytes < machine_memory() ? bytes + (kPage - bytes % kPage) % kPage : machine_memory();
    int error = each >= machine_memory() / ranks ? ENOMEM : 0;
    if (error == 0 && each > 0) {
      error = group_.segment().grow(offset + each * ranks);
      error = error == 0 ? group_.segment().map(each * ranks) : error;
    }
    group_.publish({.call = {.count = bytes, .kind = Kind::allocate}, .error = static_cast<std::uint32_t>(error)},
                   patience);
    for (int j = 0; j < group_.size(); ++j) {
      if (auto const theirs = group_.published(j).error; theirs != 0) {
        throw Failure(fail(Errc::io,
                           group_.name_of(j) + " cannot share an arena of " + std::to_string(bytes) +
                               " bytes; ask for less" +
                               (theirs == EFBIG ? ", or raise the limit of file sizes (ulimit -f)" : ""),
                           static_cast<int>(theirs)));
      }
    }
    if (cluster_ != nullptr) {
      cluster_->agree({.kind = Kind::allocate, .count = bytes}, patience);
    }
    return group_.segment().at(offset + each * static_cast<std::size_t>(group_.index()), bytes);
  }

  HostConfig config_;
  NodeGroup group_;
  NodeExchange exchange_;
  SharedCollectives shared_;
  std::unique_ptr<Rails> rails_;
  std::unique_ptr<ClusterCollectives> cluster_;
  std::exception_ptr failed_;
};

/// A world of one, where every result equals this rank's own buffer.
class SoloBackend final : public Backend {
 public:
  SoloBackend(std::string holder, std::uint64_t generation) : holder_(std::move(holder)), generation_(generation) {}

  void run(comm::Call const& call) override {
    if (stopped_.load(std::memory_order_acquire)) {
      throw_failure(why_, generation_, Clock::now());
    }
    count_call();
    fault_point(FaultPoint::enter);
    if (call.scale != 1.0F) {
      std::array<void const*, 1> const in{call.in};
      std::array<void*, 1> const out{call.out};
      comm::reduce(call.type, call.op, in, out, call.count, call.scale);
    } else if (std::size_t const bytes = comm::out_bytes(call, 1); bytes > 0 && call.in != call.out) {
      std::memcpy(call.out, call.in, bytes);
    }
    fault_point(FaultPoint::leave);
  }

  std::byte* allocate(std::size_t bytes) override {
    if (bytes == 0) {
      return nullptr;
    }
    auto memory = os::map_memory(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
    if (!memory) {
      throw Failure(fail(
          Errc::io, holder_ + ": no memory for an arena of " + std::to_string(bytes) + " bytes; ask for less", errno));
    }
    maps_.push_back(std::move(memory));
    return static_cast<std::byte*>(maps_.back().get());
  }

  [[nodiscard]] std::string describe() const override { return "alone"; }
  /// A world of one has no peer that could fail, but the world may be about to get more ranks, or this is a group.
  void abort(FailureFacts const& facts) noexcept override {
    if (!told_.exchange(true)) {
      why_ = facts;
      stopped_.store(true, std::memory_order_release);
    }
  }

 private:
  std::string holder_;
  std::uint64_t generation_;
  std::atomic<bool> told_{false};
  std::atomic<bool> stopped_{false};  // why_ is set before it
  FailureFacts why_{};
  std::vector<os::Mapping> maps_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(HostConfig config, os::UniqueFd segment, RailListener listener,
                                           std::chrono::milliseconds init_timeout) {
  return std::make_unique<HostBackend>(std::move(config), std::move(segment), std::move(listener),
                                       patience_of(init_timeout));
}

std::unique_ptr<Backend> make_solo_backend(std::string holder, std::uint64_t generation) {
  return std::make_unique<SoloBackend>(std::move(holder), generation);
}

}  // namespace cxxrun::host
