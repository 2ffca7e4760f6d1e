#include "cxxrun/elastic.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "cxxrun/failure.hpp"
#include "src/runtime/client/access.hpp"

namespace cxxrun {
namespace {

class Training {
 public:
  explicit Training(ElasticTask& task) : task_(task) {}

  void run(Communicator& comm) {
    task_.attach(comm);
    recover(comm);
    for (bool more = true; more;) {
      more = task_.step(comm);
      comm.report_step(task_.completed());  // not after a load: that is no progress of this generation
    }
    comm.barrier();  // no rank leaves while another may still need its state
  }

  /// Brings all ranks to the same state (plan_recovery), and tracks whether this rank's state is complete.
  void recover(Communicator& comm) {
    auto const ranks = comm.all_gather_value(Standing{task_.completed(), !whole_, client::Access::met_before(comm)});
    Recovery const recovery = plan_recovery(ranks);
    if (recovery.load) {
      if (comm.rank() == 0 && torn_) {
        throw Failure({Errc::closed,
                       "rank 0 has only a part of the state of a rank that died while sending it; the process ends, to "
                       "be restarted"});
      }
      on_rank_0(comm, [this] { task_.load(); });
    }
    if (recovery.share) {
      auto const donor = static_cast<std::size_t>(recovery.donor);
      bool const same = whole_ && !recovery.load && ranks[donor].completed == task_.completed() &&
                        ranks[donor].generation == client::Access::met_before(comm);
      torn_ = !same && comm.rank() != recovery.donor;
      whole_ = !torn_;
      task_.share(comm, recovery.donor);
    }
    whole_ = true;
    torn_ = false;
  }

 private:
  ElasticTask& task_;
  bool whole_ = false;  ///< the state results from training, here or on another rank
  bool torn_ = false;   ///< only a part of another rank's state has arrived
};

}  // namespace

void on_rank_0(Communicator& comm, std::function<void()> const& action) {
  std::string complaint;
  if (comm.rank() == 0) {
    try {
      action();
    } catch (Failure const& failure) {
      complaint = failure.what();
    }
  }
  auto length = static_cast<std::int64_t>(complaint.size());
  comm.broadcast(std::span(&length, 1));
  if (length > 0) {
    complaint.resize(static_cast<std::size_t>(length));
    comm.broadcast(std::span(reinterpret_cast<std::uint8_t*>(complaint.data()), complaint.size()));
    throw Failure({Errc::io, complaint});
  }
}

Recovery plan_recovery(std::span<Standing const> ranks) {
  std::uint64_t newest = 0;
  for (Standing const& rank : ranks) {
    newest = rank.fresh ? newest : std::max(newest, rank.generation);
  }
  std::optional<std::size_t>
      donor;  // lowest rank with the highest step, among the ranks that were in the last generation
  std::uint64_t lowest = UINT64_MAX;
  bool any_fresh = false;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].fresh || ranks[rank].generation < newest) {
      any_fresh = true;
      continue;
    }
    lowest = std::min(lowest, ranks[rank].completed);
    if (!donor || ranks[rank].completed > ranks[*donor].completed) {
      donor = rank;
    }
  }
  if (!donor || ranks[*donor].completed - lowest > 1) {
    return {.load = true, .share = true, .donor = 0};
  }
  if (any_fresh || ranks[*donor].completed != lowest) {
    return {.load = false, .share = true, .donor = static_cast<int>(*donor)};
  }
  return {};
}

void run_elastic(ElasticTask& task, Communicator::Options options) {
  options.survive = true;
  Communicator comm = Communicator::init(options);
  Training training(task);
  for (bool first = true;; first = false) {
    try {
      if (!first) {
        comm.rebuild();
      }
      return training.run(comm);
    } catch (PeerFailure const&) {
      if (!comm.can_rebuild()) {
        throw;
      }
    }
  }
}

}  // namespace cxxrun
