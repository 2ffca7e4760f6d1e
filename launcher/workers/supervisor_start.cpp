#include <csignal>
#include <utility>

#include "launcher/workers/supervisor_impl.hpp"
#include "launcher/workers/worker_start.hpp"
#include "launcher/workers/worker_streams.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {

void Supervisor::Impl::start(std::uint64_t number, std::vector<WorkerSpec> const& workers) {
  reap();  // whoever has died waiting is started anew
  generation = number;
  active = true;
  told = false;
  descendants.reset();
  asked.clear();
  links.begin(number);
  prepare_members(workers);
  std::size_t pipes = 0;
  for (auto const& worker : workers) {
    pipes += (needs_pipe(worker.out, false) ? 1U : 0U) + (needs_pipe(worker.err, true) ? 1U : 0U);
  }
  starting = &workers;
  happen(Begin{static_cast<std::uint32_t>(workers.size())});
  starting = nullptr;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (state.workers[i].life == GroupWorker::Life::pending) {
      start_one(workers[i], members[i], pipe_bytes(pipes));
    }
  }
  for (auto& member : members) {  // after the last start: the pump's thread would compete with it
    hand_to_pump(member);
  }
  check_descendants();  // when none could be started the generation is over
}

// Those that wait keep their process and their streams.
void Supervisor::Impl::prepare_members(std::vector<WorkerSpec> const& workers) {
  std::vector<Member> next;
  next.reserve(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    bool const waits = i < state.workers.size() && state.workers[i].life == GroupWorker::Life::parked;
    Member& member = waits ? next.emplace_back(std::move(members[i])) : next.emplace_back();
    member.exit = {};
    member.exit.rank = workers[i].rank;
    member.exit.local_rank = static_cast<std::uint32_t>(i);
    member.error_file = workers[i].error_file;
  }
  for (auto const& member : members) {  // of workers that died while they waited: nobody else ends these
    for (auto const stream : member.streams) {
      pump.drain(stream, true, [](std::string const& /*tail*/) {});
    }
  }
  members = std::move(next);
}

void Supervisor::Impl::perform(ResumeWorker const& what) {
  auto const& spec = (*starting)[what.local_rank];
  if (links.resume(what.local_rank, {generation, resume_environment(spec)})) {
    return;
  }
  log(Level::info, "rank " + std::to_string(spec.rank) + " cannot be told of the next generation: it is started anew");
  auto& member = members[what.local_rank];
  descendants.signal_worker(state.workers[what.local_rank].pid, SIGKILL);
  for (auto const stream : std::exchange(member.streams, {})) {
    pump.drain(stream, true, [](std::string const& /*tail*/) {});
  }
  happen(ResumeFailed{what.local_rank});
}

void Supervisor::Impl::start_one(WorkerSpec const& spec, Member& member, int capacity_bytes) {
  auto started = start_worker(spec, capacity_bytes);
  links.forget(member.exit.local_rank);
  if (started.pid == 0) {
    member.exit.stderr_tail = std::move(started.why);
    happen(StartFailed{member.exit.local_rank, started.error});
    return;
  }
  member.process.emplace(io, started.pid);
  member.pending = std::move(started.streams);
  happen(Started{member.exit.local_rank, started.pid});
}

void Supervisor::Impl::hand_to_pump(Member& member) {
  for (auto& stream : member.pending) {
    bool const tail = stream.keep_tail;
    member.streams.push_back(pump.add(std::move(stream)));
    if (tail) {
      member.stderr_stream = member.streams.back();
    }
  }
  member.pending.clear();
}

}  // namespace cxxrun::launcher
