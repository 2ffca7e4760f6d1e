// Communicators that are given up: beside a rank that was killed, beside one that is stopped, and many times.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <unistd.h>

#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

using test::PluginComm;

constexpr std::chrono::seconds kGivenUp{5};  ///< without an error from NCCL after a kill

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// When the other rank killed itself, by the clock that all processes of a machine share.
std::int64_t killed_at(std::string const& file) {
  std::int64_t when = 0;
  std::ifstream(file + ".killed") >> when;
  return when;
}

constexpr std::chrono::milliseconds kStuck{300};  ///< beside a rank that is stopped
constexpr double kDeadline = 4000;                ///< of Communicator::Options::abort_deadline, in ms

[[noreturn]] void die(std::string const& file) {
  std::ofstream(file + ".killed") << nanoseconds_now() << std::endl;
  std::raise(SIGKILL);
  std::abort();
}

/// Sums until NCCL reports the loss ("its words") or nothing has moved for so long ("").
std::string until_lost(PluginComm& comm, comm::Call const& call, std::chrono::milliseconds given_up) {
  try {
    while (true) {
      comm.run(call);
      cxxrun_cuda_status status{};
      std::uint64_t point = 0;
      comm.check(comm.api().mark(comm.raw(), &point, &status), status);
      comm.until_done(
          [&](cxxrun_cuda_status* now) {
            auto const code = comm.api().reached(comm.raw(), point, now);
            return code == CXXRUN_CUDA_IN_PROGRESS && comm.api().poll(comm.raw(), now) == CXXRUN_CUDA_OK ? code
                                                                                                         : now->code;
          },
          given_up);
    }
  } catch (test::PluginError const& error) {
    return error.what();
  } catch (std::runtime_error const&) {
    return "";
  }
}

/// A communicator that has been used, and what it is used for.
struct Used {
  PluginComm comm;
  comm::Call call;
  Used(cxxrun_cuda_api const& api, Arguments const& arguments, std::string const& file)
      : comm(open_comm(api, arguments, file)), call(sum_of(comm.allocate(kBytes), kBytes / sizeof(float))) {
    if (!sum_is_right(comm, call, arguments.rank, arguments.world)) {
      throw std::runtime_error("the sums are wrong");
    }
  }
  static constexpr std::size_t kBytes = std::size_t{4} << 20U;
};

/// abort() of a communicator, on a thread of its own as the library calls it.
class Abort {
 public:
  explicit Abort(PluginComm& comm)
      : comm_(comm), thread_([this] {
          comm_.api().abort(comm_.raw());
          took_ = Clock::now() - from_;
        }) {}
  /// Milliseconds until another communicator may begin.
  double drained() {
    comm_.until_done([&](cxxrun_cuda_status* now) { return comm_.api().drained(comm_.raw(), now); });
    return milliseconds(Clock::now() - from_);
  }
  /// Until it has returned.
  double whole() {
    thread_.join();
    return milliseconds(took_);
  }

 private:
  PluginComm& comm_;
  Clock::time_point from_ = Clock::now();
  Clock::duration took_{};
  std::jthread thread_;
};

/// Stops this process; returns when the other rank lets it go on.
void stop(std::string const& file) {
  std::ofstream(file + ".new") << ::getpid();
  static_cast<void>(std::rename((file + ".new").c_str(), (file + ".pid").c_str()));
  std::raise(SIGSTOP);
}

pid_t stopped_one(std::string const& file) {
  auto const end = Clock::now() + std::chrono::seconds(10);
  for (pid_t pid = 0; Clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    if (std::ifstream(file + ".pid") >> pid) {
      return pid;
    }
  }
  throw std::runtime_error("the other rank has not stopped");
}

/// MiB of the device that are free.
double free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(free) / (1U << 20U);
}

}  // namespace

int check_survival(cxxrun_cuda_api const& api, Arguments const& arguments) {
  std::size_t const count = arguments.quick ? 1U << 10U : 1U << 22U;
  auto comm = open_comm(api, arguments, arguments.id);
  auto const call = sum_of(comm.allocate(count * sizeof(float)), count);
  if (!sum_is_right(comm, call, arguments.rank, arguments.world)) {
    throw std::runtime_error("the sums were wrong before anything failed");
  }
  if (arguments.next_id.empty()) {  // the replacement
    comm.finalize();
    std::printf("ok: the replacement's sums are right\n");
    return 0;
  }
  if (arguments.dies) {
    comm.run(call);
    die(arguments.id);
  }
  auto const said = until_lost(comm, call, kGivenUp);
  if (said.empty()) {
    std::printf("the loss was not noticed within %d s\n", static_cast<int>(kGivenUp.count()));
  } else {
    std::printf("noticed %.1f ms after the kill: %s\n",
                static_cast<double>(nanoseconds_now() - killed_at(arguments.id)) / 1e6, said.c_str());
  }
  Abort abort(comm);
  std::printf("drained in %.1f ms\n", abort.drained());
  auto const from = Clock::now();
  auto next = open_comm(api, arguments, arguments.next_id);  // while the rest of the abort runs
  std::printf("a new communicator in %.1f ms\n", milliseconds(Clock::now() - from));
  bool const right =
      sum_is_right(next, sum_of(next.allocate(count * sizeof(float)), count), arguments.rank, arguments.world);
  next.finalize();
  std::printf("aborted in %.1f ms\n", abort.whole());
  std::printf("%s: the sums with the replacement\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}

int check_stop(cxxrun_cuda_api const& api, Arguments const& arguments) {
  Rounds rounds(arguments, arguments.quick ? 3 : 20);
  std::vector<double> drained;
  std::vector<double> times;
  while (rounds.next()) {
    auto const file = rounds.file();
    Used used(api, arguments, file);
    if (arguments.dies) {
      used.comm.run(used.call);
      stop(file);
      used.comm.api().abort(used.comm.raw());
      continue;
    }
    pid_t const other = stopped_one(file);
    if (auto const said = until_lost(used.comm, used.call, kStuck); !said.empty()) {
      std::printf("NCCL says: %s\n", said.c_str());
    }
    Abort abort(used.comm);
    drained.push_back(abort.drained());
    times.push_back(abort.whole());
    ::kill(other, SIGCONT);
    std::printf("- abort %zu: drained in %.1f ms, %.1f ms\n", times.size(), drained.back(), times.back());
    std::fflush(stdout);  // in case that the row's time is over
  }
  if (arguments.dies) {
    return 0;
  }
  double const most = *std::max_element(times.begin(), times.end());
  std::printf("%zu aborts: drained in %.1f ms (median), in %.1f ms at most; median %.1f ms, at most %.1f ms\n",
              times.size(), median(drained), *std::max_element(drained.begin(), drained.end()), median(times), most);
  std::printf("%s: within the deadline of %.0f ms\n", most < kDeadline ? "ok" : "wrong: not", kDeadline);
  return most < kDeadline ? 0 : 1;
}

int check_abort_memory(cxxrun_cuda_api const& api, Arguments const& arguments) {
  Rounds rounds(arguments, arguments.quick ? 5 : 50);
  int given_up = 0;
  double first = 0;
  double less = 0;
  for (; rounds.next(); ++given_up) {
    Used used(api, arguments, rounds.file());
    double const now = free_memory();  // both ranks have one communicator now, and what the ones before have left
    first = given_up == 0 ? now : first;
    less = first - now;
    std::printf("- after %d aborts: %.1f MiB less\n", given_up, less);
    std::fflush(stdout);  // in case that the row's time is over
    if (arguments.rank == 0) {
      used.comm.run(used.call);  // alone
    }
    used.comm.api().abort(used.comm.raw());
  }
  std::printf("ok: %d communicators were given up; free after %d aborts: %.1f MiB less\n", given_up, given_up - 1,
              less);
  return 0;
}

}  // namespace cxxrun::gpu_check
