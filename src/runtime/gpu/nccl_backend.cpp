#include "src/runtime/comm/join_record.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/gpu/nccl_queue.hpp"

namespace cxxrun::gpu {
namespace {

using comm::Call;
using comm::Kind;

class NcclBackend final : public host::Backend {
 public:
  NcclBackend(NcclConfig config, std::unique_ptr<host::Backend> host, TimePoint deadline)
      : config_(std::move(config)), peers_(std::move(host), config_), queue_(config_, peers_) {
    queue_.connect(share_id(), deadline);
    run_on_host({.kind = Kind::barrier});  // a rank that could not connect has raised the alarm
  }

  void run(Call const& call) override {
    if (!queue_.takes(call)) {
      return run_on_host(call);
    }
    queue_.wait(queue_.submit(call));
    host::fault_point(host::FaultPoint::leave);
  }

  void run_within(Call const& call, std::chrono::milliseconds patience) override {
    on_host([&](host::Backend& host) { host.run_within(call, patience); });
  }

  std::byte* allocate(std::size_t bytes) override {
    agree_on_size(bytes);
    std::byte* const memory = bytes == 0 ? nullptr : queue_.allocate(bytes);
    run_on_host({.kind = Kind::barrier});
    return memory;
  }

  [[nodiscard]] std::string describe() const override {
    return "NCCL " + comm::nccl_version(config_.nccl) + " on " + config_.device + "; for host memory: " + host_text_;
  }

  void leave() noexcept override {
    queue_.close();
    peers_.leave();
  }

  [[nodiscard]] host::Trouble trouble() noexcept override {
    return queue_.alive() ? peers_.look() : host::Trouble::failed;
  }
  // Threads that wait for the device see it within a millisecond, and so does the watching thread.
  void abort(host::FailureFacts const& facts) noexcept override { peers_.host().abort(facts); }
  void give_up_early(std::function<void()> answer) noexcept override {
    peers_.host().give_up_early(answer);
    queue_.early_give_up().request(std::move(answer));
  }
  [[nodiscard]] host::DeviceQueue* device() noexcept override { return &queue_; }

 private:
  void run_on_host(Call const& call) {
    on_host([&call](host::Backend& host) { host.run(call); });
  }
  /// A failure of the host backend ends NCCL too.
  void on_host(std::function<void(host::Backend&)> const& call) {
    bool alive = true;
    try {
      alive = peers_.run(call, [this] { return queue_.alive(); });
    } catch (...) {
      queue_.fail({Reason::Why::told, {}, host::facts_of(std::current_exception(), peers_.here())});
    }
    if (!alive) {
      queue_.fail({});
    }
  }

  std::array<std::uint8_t, CXXRUN_CUDA_ID_BYTES> share_id() {
    std::array<std::uint8_t, CXXRUN_CUDA_ID_BYTES> id{};
    cxxrun_cuda_status status{};
    if (config_.rank == 0) {
      if (auto const code = config_.api->unique_id(id.data(), &status); code != CXXRUN_CUDA_OK) {
        status.code = code;
        queue_.fail(reason_of(status, "NCCL gives no identifier"));
      }
    }
    run_on_host({.kind = Kind::broadcast, .type = DType::u8, .count = id.size(), .in = id.data(), .out = id.data()});
    agree_on_settings();
    return id;
  }

  /// NCCL does not compare these settings between ranks, and may hang if they differ.
  void agree_on_settings() {
    std::array<char, 256> first{};
    auto const mine = gpu::describe(config_.settings);
    mine.copy(first.data(), first.size() - 1);
    run_on_host({.kind = Kind::broadcast, .type = DType::u8, .count = first.size(), .in = &first, .out = &first});
    if (mine != first.data()) {
      fail_all(cxxrun::fail(Errc::usage, peers_.here() + ": Options::nccl says " + mine + ", and that of rank " +
                                             std::to_string(peers_.number(0)) + " " + first.data() +
                                             "; every rank gives the same"));
    }
  }

  /// Fails on all ranks, as if a call of the host backend had failed with `error`.
  void fail_all(Error error) {
    peers_.host().abort(host::facts_of(std::move(error)));
    run_on_host({.kind = Kind::barrier});  // throws the error
  }

  void agree_on_size(std::size_t bytes) {
    std::uint64_t const mine = bytes;
    std::vector<std::uint64_t> all(static_cast<std::size_t>(peers_.world()));
    run_on_host({.kind = Kind::all_gather, .type = DType::u8, .count = sizeof mine, .in = &mine, .out = all.data()});
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (auto const differs = comm::disagreement(peers_.number(0), {.kind = Kind::allocate, .count = all[0]},
                                                  peers_.number(i), {.kind = Kind::allocate, .count = all[i]})) {
        fail_all(cxxrun::fail(Errc::usage, *differs));
      }
    }
  }

  NcclConfig config_;
  Peers peers_;
  std::string host_text_ = peers_.host().describe();
  NcclQueue queue_;
};

}  // namespace

std::unique_ptr<host::Backend> make_nccl_backend(NcclConfig config, std::unique_ptr<host::Backend> host,
                                                 TimePoint deadline) {
  return std::make_unique<NcclBackend>(std::move(config), std::move(host), deadline);
}

}  // namespace cxxrun::gpu
