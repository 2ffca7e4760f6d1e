#include <algorithm>
#include <array>
#include <utility>

#include "src/gradient/agreement.hpp"
#include "src/gradient/elements.hpp"
#include "src/gradient/synchronizer_impl.hpp"

namespace cxxrun {

using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

constexpr std::size_t kMostNames = 3;

std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// What one rank tells the others after a step that went wrong somewhere.
struct Report {
  bool weighted = false;
  std::array<char, 503> error{};  // empty: nothing wrong here
};

}  // namespace

void GradientSynchronizer::Impl::begin_step() {
  tracker.begin_step();
  known_done = 0;
  started.store(0, std::memory_order_relaxed);
  twice.store(kNobody, std::memory_order_relaxed);
  error_told = false;
  weight.reset();
  std::fill(touched.begin(), touched.end(), std::uint8_t{0});
}

void GradientSynchronizer::Impl::start_clock() {
  std::int64_t none = 0;
  started.compare_exchange_strong(none, nanoseconds(Clock::now()), std::memory_order_relaxed);
}

void GradientSynchronizer::Impl::mark_ready(std::size_t index) {
  static_cast<void>(parameter(index));
  if (no_sync.load(std::memory_order_relaxed) > 0) {
    if (options.find_unused) {
      touched[index] = 1;
    }
    return;
  }
  if (started.load(std::memory_order_relaxed) == 0) {
    start_clock();
  }
  if (!tracker.claim(index)) {
    twice.store(static_cast<std::uint32_t>(index), std::memory_order_relaxed);
    return;
  }
  finish_gradient(index);
  if (tracker.complete(index)) {
    times[layout.places[index].bucket].ready = Clock::now();
    tracker.launch_ready([this](std::size_t bucket) { launch(bucket); });
  }
}

/// Puts the weight in: before the bucket is launched, and while the gradient is still in this CPU's cache.
void GradientSynchronizer::Impl::finish_gradient(std::size_t index) {
  if (weight && *weight != 1 && !alone) {
    auto const& place = layout.places[index];
    multiply(parameters[index].type, memory + place.offset, parameters[index].count, *weight);
  }
}

/// One at a time and in order (ReadyTracker). On the thread that completed the bucket, or in wait().
void GradientSynchronizer::Impl::launch(std::size_t bucket) noexcept {
  auto const now = Clock::now();
  times[bucket].launched = now;
  if (launch_error) {
    return;
  }
  try {
    if (bucket + 1 == layout.buckets.size()) {
      write_control();
    }
    auto const& [type, offset, bytes, slots, gradients] = layout.buckets[bucket];
    auto const elements = elements_of(layout.buckets[bucket]);
    if (!alone && elements > 0) {
      auto* const data = memory + offset;
      works[bucket] = comm.start_all_reduce(data, data, elements, type, ReduceOp::sum, options.wire, call_scale);
    }
    for (; known_done < bucket && works[known_done].done(); ++known_done) {
      note_done(known_done, now);
    }
  } catch (...) {
    launch_error = std::current_exception();
  }
}

void GradientSynchronizer::Impl::write_control() {
  if (error.empty() && twice.load(std::memory_order_relaxed) != kNobody) {
    error = twice_text();
  }
  error_told = !error.empty();
  auto const slots = control();
  slots.write({error_told ? 1.0 : 0.0, weight ? 1.0 : 0.0, weight.value_or(0)});
  for (std::size_t i = 0; i < touched.size(); ++i) {
    slots.write_used(i, tracker.marked(i) || touched[i] != 0);
  }
}

std::string GradientSynchronizer::Impl::twice_text() const {
  return here() + ": gradient " + quoted(parameters[twice.load(std::memory_order_relaxed)].name) +
         " was marked ready twice" + step_text() + "; mark it once per step, when it is complete";
}

/// What has not been marked counts as zero, or is an error.
void GradientSynchronizer::Impl::note_missing() {
  std::array<std::uint32_t, kMostNames> names{};
  std::size_t missing = 0;
  bool const allowed = options.find_unused || (weight && *weight == 0);
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    if (tracker.marked(i)) {
      continue;
    }
    if (!allowed) {
      if (missing < kMostNames) {
        names[missing] = i;
      }
      ++missing;
    } else if (!touched.empty() && touched[i] != 0) {
      finish_gradient(i);
    } else {
      multiply(parameters[i].type, memory + layout.places[i].offset, parameters[i].count, 0);
    }
    if (tracker.complete(i)) {
      times[layout.places[i].bucket].ready = Clock::now();
    }
  }
  if (missing > 0) {
    error = here() + ": " + std::to_string(missing) + " of " + std::to_string(parameters.size()) +
            " gradients were never marked ready" + step_text() + ": " +
            names_of(parameters, std::span(names).first(std::min(missing, kMostNames)), missing) +
            "; mark each once per step, or set find_unused";
  }
}

void GradientSynchronizer::Impl::wait() {
  if (no_sync.load(std::memory_order_relaxed) > 0) {
    return;
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
  try {
    wait_for_buckets();
    auto const total = control().total(static_cast<double>(call_scale));
    require_success(total);
    apply_weights(total);
    for (std::size_t i = 0; i < touched.size(); ++i) {
      used[i] = control().used(i) ? 1 : 0;
    }
    ++stats.steps;
    if (std::exchange(rebuild_due, false)) {
      rebuild();
    }
    begin_step();
  } catch (...) {
    failed = std::current_exception();
    throw;
  }
}

/// Launches what is left, waits for everything, takes the times.
void GradientSynchronizer::Impl::wait_for_buckets() {
  auto const began = Clock::now();
  if (started.load(std::memory_order_relaxed) == 0) {
    start_clock();
  }
  if (!tracker.all_launched()) {
    note_missing();
    tracker.launch_ready([this](std::size_t bucket) { launch(bucket); });
  }
  if (launch_error) {
    std::rethrow_exception(launch_error);
  }
  for (; known_done < works.size(); ++known_done) {
    works[known_done].wait();
    note_done(known_done, Clock::now());
  }
  stats.exposed = Clock::now() - began;
  keep_stats();
}

void GradientSynchronizer::Impl::keep_stats() {
  stats.buckets.resize(times.size());  // room was made with the layout
  TimePoint const start{std::chrono::nanoseconds(started.load(std::memory_order_relaxed))};
  for (std::size_t b = 0; b < times.size(); ++b) {
    auto const& [ready, launched, done] = times[b];
    // A bucket without gradients is ready when its turn comes; another thread may launch one before its own time is
    // noted.
    auto const known = layout.buckets[b].gradients == 0 ? launched : std::min(ready, launched);
    auto const& bucket = layout.buckets[b];
    stats.buckets[b] = {elements_of(bucket) * size_of(bucket.type), known - start, launched - start, done - start};
  }
}

/// The same verdict on every rank: from totals, and if those say so from all ranks' reports.
void GradientSynchronizer::Impl::require_success(Control const& total) {
  bool const mixed = total.weighted != 0 && total.weighted != comm.world_size();
  if (total.errors != 0 || mixed) {
    Report mine;
    mine.weighted = weight.has_value();
    if (error_told) {
      error.copy(mine.error.data(), mine.error.size() - 1);
    }
    auto const reports = comm.all_gather_value(mine);
    for (auto const& report : reports) {
      if (report.error[0] != '\0') {
        throw Failure(fail(Errc::usage, report.error.data()));
      }
    }
    auto const other = std::find_if(reports.begin(), reports.end(),
                                    [&](auto const& report) { return report.weighted != reports[0].weighted; });
    auto const rank = static_cast<int>(other - reports.begin());
    throw Failure(fail(Errc::usage, name_of_rank(comm, reports[0].weighted ? rank : 0) + " gave no weight" +
                                        step_text() + " and " + name_of_rank(comm, reports[0].weighted ? 0 : rank) +
                                        " did: call set_weight() on all ranks or on none"));
  }
  if (total.weighted != 0 && !(total.weight > 0)) {
    throw Failure(fail(Errc::usage, "the weights of all ranks are 0" + step_text() + ": some rank must have samples"));
  }
  if (twice.load(std::memory_order_relaxed) != kNobody) {
    throw Failure(fail(Errc::usage, twice_text()));  // too late to tell the others: they notice that this rank is gone
  }
}

void GradientSynchronizer::Impl::apply_weights(Control const& total) {
  if (!options.average) {
    scale = alone ? 1.0 : 1.0 / (total.weighted != 0 ? total.weight : comm.world_size());
  } else if (total.weighted != 0 && !alone) {
    double const factor = 1.0 / (total.weight * static_cast<double>(call_scale));
    for (auto const& [type, offset, bytes, slots, gradients] : layout.buckets) {
      multiply(type, memory + offset, bytes / size_of(type), factor);
    }
  }
}

}  // namespace cxxrun
