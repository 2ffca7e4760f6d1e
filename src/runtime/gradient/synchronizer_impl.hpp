// The implementation of GradientSynchronizer: synchronizer.cpp has what happens between steps, step.cpp a step. Shell.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/runtime/gradient/agreement.hpp"
#include "src/runtime/gradient/buckets.hpp"
#include "src/runtime/gradient/memory.hpp"
#include "src/runtime/gradient/ready.hpp"

namespace cxxrun {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): one per model, its fields grouped by what they say
struct GradientSynchronizer::Impl {
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  /// Timing of one bucket.
  struct Times {
    TimePoint ready;
    TimePoint launched;
    TimePoint done;
  };

  Impl(Communicator& communicator, std::vector<Parameter> given, Options const& chosen);
  Impl(Impl const&) = delete;
  Impl& operator=(Impl const&) = delete;
  ~Impl();

  void mark_ready(std::size_t index, Stream stream);
  /// `stream`: made to wait for the step's end; the host need not wait. Nothing: the host waits.
  void wait(std::optional<Stream> stream);
  void require_between_steps(char const* what) const;
  void require_same_generation() const;
  [[nodiscard]] std::vector<gradient::Piece> own_part() const;
  [[nodiscard]] Parameter const& parameter(std::size_t index) const;

  // The parts of a step.
  void start_clock();
  void finish_gradient(std::size_t index, Stream stream) noexcept;
  void keep_stream(std::size_t index, Stream stream);
  void launch(std::size_t bucket) noexcept;
  void agree_on_unit();
  void write_control();
  void note_done(std::size_t bucket, TimePoint now) { times[bucket].done = now; }
  void note_missing(Stream stream);
  [[nodiscard]] std::string twice_text() const {
    return here() + ": gradient " + gradient::quoted_name(parameters[twice.load(std::memory_order_relaxed)].name) +
           " was marked ready twice" + step_text() + "; mark it once per step, when it is complete";
  }
  void launch_rest(Stream stream);
  void fetch_totals();
  void wait_for_buckets();
  [[nodiscard]] bool may_go_on() const;
  void judge_step_before();
  /// `step`: its number. `weighted`, `told`: whether this rank gave a weight and reported an error in it.
  void require_success(gradient::Control const& total, std::uint64_t step, bool weighted, bool told);
  void apply_weights(gradient::Control const& total);
  void refine_means() const;
  void rebuild();
  void use_layout(gradient::Layout next);
  void begin_step();
  void keep_stats();

  [[nodiscard]] std::string step_text() const { return " in step " + std::to_string(stats.steps + 1); }
  [[nodiscard]] gradient::Piece piece(std::size_t index) const {
    return {parameters[index].type, layout.places[index].offset, parameters[index].count};
  }
  [[nodiscard]] std::string here() const { return gradient::name_of_rank(comm, comm.rank()); }
  /// Where this rank's values are written: in the arena, or in host memory that is copied there.
  [[nodiscard]] gradient::ControlSlots control() {
    return {layout.buckets.back().type,
            memory.on_device() ? control_out.data() : memory.at(gradient::control_offset(layout))};
  }
  /// Where the totals are read.
  [[nodiscard]] gradient::ControlSlots totals() {
    return memory.on_device() && !alone ? gradient::ControlSlots{layout.buckets.back().type, control_in.data()}
                                        : control();
  }
  [[nodiscard]] std::size_t control_bytes() const { return control_needs.slots * size_of(layout.buckets.back().type); }

  Communicator& comm;
  Options options;
  std::vector<Parameter> parameters;
  std::uint64_t generation;
  bool alone;
  float call_scale;  // scale of every all-reduce, with or without weights, so that all ranks make the same calls
  gradient::ControlNeeds control_needs;
  Arena arena{};
  gradient::Memory memory{};
  // On a device: buffers for copies to and from its memory, and when those are done.
  std::vector<std::byte> control_out{};
  std::vector<std::byte> control_in{};
  std::uint64_t results = 0;  // the point at which the totals and all gradients are there
  bool results_late = false;  // in a world of one: something was queued anyway
  /// The end of the step that wait(stream) left unchecked, and whether this rank reported an error in it.
  std::optional<std::pair<std::uint64_t, bool>> before{};
  /// By bucket: the first stream that completed one of its gradients, or no_stream().
  std::unique_ptr<std::atomic<void*>[]> streams {};
  Stream last_stream{};  // the stream of wait(), for buckets without marks
  std::vector<std::uint32_t> order;
  gradient::Layout layout{};
  bool rebuild_due;

  gradient::ReadyTracker tracker;
  std::vector<Work> works{};
  std::size_t known_done = 0;  // works before this one are done and their times recorded
  std::vector<Times> times{};
  std::exception_ptr launch_error{};          // set by launch(); wait() throws it
  std::exception_ptr failed{};                // what wait() threw; every later wait() throws it again
  std::atomic<std::int64_t> started{0};       // when the first gradient of the step was marked; 0: none yet
  std::atomic<std::uint32_t> twice{kNobody};  // a parameter that was marked twice
  bool error_told = false;                    // the control values reported an error of this rank
  std::string error{};                        // its text
  std::atomic<int> no_sync{0};
  std::vector<std::uint8_t> touched{};  // with find_unused: marked inside no_sync()

  std::optional<double> weight{};
  // With f16 gradients weights are divided by this power of two, about their mean, before the multiplication: products
  // with numbers of samples would soon overflow.
  bool has_f16;
  double unit = 1;
  bool unit_due;  // not known yet: the first weighted step starts by asking for it
  double scale;
  std::vector<std::uint8_t> used{};
  SyncStats stats{};
};

}  // namespace cxxrun
