#include <algorithm>
#include <array>
#include <cmath>

#include "src/runtime/gradient/synchronizer_impl.hpp"

namespace cxxrun {

using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

constexpr std::size_t kMostNames = 3;

/// A handle that no stream has.
void* no_stream() {
  static char const nothing = 0;
  return const_cast<char*>(&nothing);
}

/// The power of two that weights are divided by: at least their mean, so that the usual weight does not enlarge a
/// gradient, and not much more, so that f16 keeps the precision of small ones.
double unit_of(double mean) {
  constexpr double kRounded = 1 - 1e-6;  // tolerates rounding errors: a mean of 32 gives 32
  int exponent = 0;
  static_cast<void>(std::frexp(mean * kRounded, &exponent));
  return std::isfinite(mean) ? std::ldexp(1.0, exponent) : 1.0;
}

/// What one rank reports to the others after a step that failed on some rank.
struct Report {
  bool weighted = false;
  std::array<char, 503> error{};  // empty: no error on this rank
};

}  // namespace

void GradientSynchronizer::Impl::begin_step() {
  tracker.begin_step();
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    streams[b].store(no_stream(), std::memory_order_relaxed);
  }
  known_done = 0;
  started.store(0, std::memory_order_relaxed);
  twice.store(kNobody, std::memory_order_relaxed);
  error_told = false;
  weight.reset();
  std::fill(touched.begin(), touched.end(), std::uint8_t{0});
}

/// Starts the step's clock unless it is running.
void GradientSynchronizer::Impl::start_clock() {
  std::int64_t none = 0;
  if (started.load(std::memory_order_relaxed) == none) {
    auto const now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    started.compare_exchange_strong(none, now, std::memory_order_relaxed);
  }
}

void GradientSynchronizer::Impl::mark_ready(std::size_t index, Stream stream) {
  static_cast<void>(parameter(index));
  if (no_sync.load(std::memory_order_relaxed) > 0) {
    if (options.find_unused) {
      touched[index] = 1;
    }
    return;
  }
  start_clock();
  if (!tracker.claim(index)) {
    twice.store(static_cast<std::uint32_t>(index), std::memory_order_relaxed);
    return;
  }
  finish_gradient(index, stream);
  if (tracker.complete(index)) {
    times[layout.places[index].bucket].ready = Clock::now();
    tracker.launch_ready([this](std::size_t bucket) { launch(bucket); });
  }
}

/// Prepares a gradient for the launch of its bucket.
void GradientSynchronizer::Impl::finish_gradient(std::size_t index, Stream stream) noexcept {
  if (alone) {
    return;
  }
  try {
    if (memory.on_device()) {
      keep_stream(index, stream);
    } else if (weight && !unit_due && *weight != unit) {
      memory.multiply(piece(index), *weight / unit);  // while it is still in this CPU's cache
    }
  } catch (...) {  // the device has failed; wait() throws it
  }
}

/// The all-reduce is queued behind one stream, usually that of all gradients. Other streams are waited for here.
void GradientSynchronizer::Impl::keep_stream(std::size_t index, Stream stream) {
  void* seen = no_stream();
  auto& first = streams[layout.places[index].bucket];
  if (!first.compare_exchange_strong(seen, stream.handle) && seen != stream.handle) {
    memory.after(stream);
  }
}

/// Called for one bucket at a time, in order (ReadyTracker), on the thread that completed the bucket or in wait().
void GradientSynchronizer::Impl::launch(std::size_t bucket) noexcept {
  auto const now = Clock::now();
  times[bucket].launched = now;
  if (launch_error) {
    return;
  }
  try {
    require_same_generation();
    if (bucket == 0 && weight && unit_due) {
      agree_on_unit();
    }
    if (bucket + 1 == layout.buckets.size()) {
      write_control();
    }
    auto const& [type, offset, bytes, slots, gradients] = layout.buckets[bucket];
    auto const elements = elements_of(layout.buckets[bucket]);
    if (!alone && elements > 0) {
      auto* const data = memory.at(offset);
      void* const seen = streams[bucket].load(std::memory_order_relaxed);
      Stream const stream = seen == no_stream() ? last_stream : Stream{seen};
      if (weight && (memory.on_device() || unit_due) &&
          *weight != unit) {  // one kernel for all gradients of the bucket
        memory.after(stream);
        memory.multiply({type, offset, bytes / size_of(type)}, *weight / unit);
      }
      works[bucket] =
          comm.start_all_reduce(data, data, elements, type, ReduceOp::sum, options.wire, call_scale, stream);
    }
    for (; known_done < bucket && works[known_done].done(); ++known_done) {
      note_done(known_done, now);
    }
  } catch (...) {
    launch_error = std::current_exception();
  }
}

/// Happens once; later steps take the unit from the totals of the step before.
void GradientSynchronizer::Impl::agree_on_unit() {
  double sum = *weight;
  comm.start_all_reduce(&sum, &sum, 1, DType::f64).wait();
  unit = unit_of(sum / comm.world_size());
}

/// Writes this rank's control values behind the gradients of the last bucket.
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
  if (memory.on_device() && !alone) {
    memory.put(control_offset(layout), control_out.data(), control_bytes());
  }
}

/// Handles unmarked gradients: they count as zero, or are an error.
void GradientSynchronizer::Impl::note_missing(Stream stream) {
  std::vector<std::string> missing;
  bool const allowed = options.find_unused || (weight && *weight == 0);
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    if (tracker.marked(i)) {
      continue;
    }
    if (!allowed) {
      missing.push_back(quoted_name(parameters[i].name));
    } else if (!touched.empty() && touched[i] != 0) {
      finish_gradient(i, stream);
    } else {
      memory.after(stream);
      memory.multiply(piece(i), 0);
      results_late = memory.on_device();
    }
    if (tracker.complete(i)) {
      times[layout.places[i].bucket].ready = Clock::now();
    }
  }
  if (!missing.empty() && error.empty()) {  // otherwise the previous step failed, and this wait() throws its error
    error = here() + ": " + std::to_string(missing.size()) + " of " + std::to_string(parameters.size()) +
            " gradients were never marked ready" + step_text() + ": " + join_first(kMostNames, missing) +
            "; mark each once per step, or set find_unused";
  }
}

/// Ends the step: launches the remaining buckets, waits for the results or leaves that to `stream`, checks the totals,
/// and starts the next step.
void GradientSynchronizer::Impl::wait(std::optional<Stream> stream) {
  if (no_sync.load(std::memory_order_relaxed) > 0) {
    return;
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
  try {
    auto const began = Clock::now();
    if (alone) {
      comm.barrier();  // nothing is reduced, so nothing else would notice that the generation is over
    }
    launch_rest(stream.value_or(Stream{}));
    judge_step_before();
    if (memory.on_device()) {
      refine_means();
    }
    fetch_totals();
    bool const go_on = stream && may_go_on();
    if (go_on) {
      before = std::pair{results, error_told};
    } else {
      wait_for_buckets();
    }
    stats.exposed = Clock::now() - began;
    keep_stats();
    if (!go_on) {
      auto const total = totals().total(static_cast<double>(call_scale));
      require_success(total, stats.steps + 1, weight.has_value(), error_told);
      if (!memory.on_device()) {
        refine_means();
      }
      apply_weights(total);
      for (std::size_t i = 0; i < touched.size(); ++i) {
        used[i] = totals().used(i) ? 1 : 0;
      }
    }
    ++stats.steps;
    if (std::exchange(rebuild_due, false)) {
      rebuild();
    }
    if (memory.on_device() && stream) {
      memory.device().wait_on(results, *stream);
    }
    begin_step();
  } catch (...) {
    failed = std::current_exception();
    throw;
  }
}

void GradientSynchronizer::Impl::launch_rest(Stream stream) {
  start_clock();
  last_stream = stream;
  if (!tracker.all_launched()) {
    note_missing(stream);
    tracker.launch_ready([this](std::size_t bucket) { launch(bucket); });
  }
  if (launch_error) {
    std::rethrow_exception(launch_error);
  }
}

/// On a device: queues the end of the step.
void GradientSynchronizer::Impl::fetch_totals() {
  if (memory.on_device() && !alone) {
    results = memory.get(control_in.data(), control_offset(layout), control_bytes());
  } else if (std::exchange(results_late, false)) {
    results = memory.device().mark();
  }
}

/// Whether the host can go on without the totals. An error of this rank that the control values reported is thrown
/// later, together with the others, which may make other calls before that. An error too late for that must be thrown
/// now.
bool GradientSynchronizer::Impl::may_go_on() const {
  return memory.on_device() && !alone && !weight && !options.find_unused && !rebuild_due &&
         (error_told || twice.load(std::memory_order_relaxed) == kNobody);
}

void GradientSynchronizer::Impl::wait_for_buckets() {
  for (; known_done < works.size(); ++known_done) {
    works[known_done].wait();
    note_done(known_done, Clock::now());
  }
  if (memory.on_device()) {
    memory.device().wait(results);
  }
}

/// Checks the totals of a step that wait(stream) did not wait for.
void GradientSynchronizer::Impl::judge_step_before() {
  if (!before) {
    return;
  }
  auto const [point, told] = *before;
  memory.device().wait(point);
  before.reset();
  try {
    require_success(totals().total(static_cast<double>(call_scale)), stats.steps, false, told);
  } catch (...) {
    failed = std::current_exception();
    throw;
  }
}

void GradientSynchronizer::Impl::keep_stats() {
  for (; known_done < works.size(); ++known_done) {
    note_done(known_done, Clock::now());
  }
  stats.buckets.resize(times.size());  // room was made with the layout
  TimePoint const start{std::chrono::nanoseconds(started.load(std::memory_order_relaxed))};
  for (std::size_t b = 0; b < times.size(); ++b) {
    auto const& [ready, launched, done] = times[b];
    // A bucket without gradients is ready when its turn comes. And another thread may launch a bucket before its
    // `ready` is recorded.
    auto const known = layout.buckets[b].gradients == 0 ? launched : std::min(ready, launched);
    auto const& bucket = layout.buckets[b];
    stats.buckets[b] = {elements_of(bucket) * size_of(bucket.type), known - start, launched - start, done - start};
  }
}

/// Decides whether the step succeeded, the same on every rank: from the totals, and if these report errors, from the
/// reports of all ranks.
void GradientSynchronizer::Impl::require_success(Control const& total, std::uint64_t step, bool weighted, bool told) {
  auto const in_step = [step] { return " in step " + std::to_string(step); };
  bool const mixed = total.weighted != 0 && total.weighted != comm.world_size();
  if (total.errors != 0 || mixed) {
    Report mine;
    mine.weighted = weighted;
    if (told) {
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
    throw Failure(fail(Errc::usage, name_of_rank(comm, reports[0].weighted ? rank : 0) + " gave no weight" + in_step() +
                                        " and " + name_of_rank(comm, reports[0].weighted ? 0 : rank) +
                                        " did: call set_weight() on all ranks or on none"));
  }
  if (total.weighted != 0 && !(total.weight > 0)) {
    throw Failure(fail(Errc::usage, "the weights of all ranks are 0" + in_step() + ": some rank must have samples"));
  }
  if (step > stats.steps && twice.load(std::memory_order_relaxed) != kNobody) {
    throw Failure(fail(Errc::usage, twice_text()));  // too late to tell the others: they notice that this rank has left
  }
}

/// The scale of an all-reduce is a float, and 1/world as a float is too coarse for f64. apply_weights() divides by the
/// same float, so with weights there is nothing to refine.
void GradientSynchronizer::Impl::refine_means() const {
  double const rest = 1.0 / comm.world_size() / static_cast<double>(call_scale);
  if (!options.average || weight || rest == 1) {
    return;
  }
  for (auto const& [type, offset, bytes, slots, gradients] : layout.buckets) {
    if (type == DType::f64 && bytes > 0) {
      memory.multiply({type, offset, bytes / size_of(type)}, rest);
    }
  }
}

void GradientSynchronizer::Impl::apply_weights(Control const& total) {
  bool const weighted = total.weighted != 0 && !alone;
  if (!options.average) {
    scale = alone ? 1.0 : weighted ? unit / total.weight : 1.0 / comm.world_size();
  } else if (weighted) {
    double const factor = unit / (total.weight * static_cast<double>(call_scale));
    for (auto const& [type, offset, bytes, slots, gradients] : layout.buckets) {
      memory.multiply({type, offset, bytes / size_of(type)}, factor);
    }
    if (memory.on_device()) {
      results = memory.device().mark();
      memory.device().wait(results);
    }
  }
  if (weighted && has_f16) {  // never shrinks, because a small last batch of an epoch is followed by normal ones
    unit = std::max(unit, unit_of(total.weight / comm.world_size()));
    unit_due = false;
  }
}

}  // namespace cxxrun
