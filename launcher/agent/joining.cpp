#include "launcher/agent/joining.hpp"

#include <algorithm>
#include <utility>

#include "launcher/place/discovery_file.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::launcher {
namespace {

/// After this time whoever waits is told.
constexpr Millis kToldAfter{3000};

}  // namespace

Joining::Joining(boost::asio::io_context& io, AgentConfig& config, AgentLinks& links,
                 std::shared_ptr<rendezvous::KeyRing> keys)
    : config_(config), links_(links), keys_(std::move(keys)), timer_(io) {}

void Joining::begin(agent::LinkId link, Plan plan, AgentLinks::Failed failed) {
  again(link, std::move(plan), "", std::move(failed));
  call();
}

void Joining::again(agent::LinkId link, Plan plan, std::string why, AgentLinks::Failed failed) {
  link_ = link;
  plan_ = std::move(plan);
  failed_ = std::move(failed);
  trouble_ = fail(Errc::closed, std::move(why));
  calls_ = false;
  timer_.after(kBetweenLooks, [this] { look(); });
}

void Joining::look() {
  if (Clock::now() >= config_.join_until) {
    if (!calls_) {
      end();
    }
    return;  // else the call ends by itself
  }
  timer_.after(kBetweenLooks, [this] { look(); });
  auto const before = *config_.topology.discovered;
  read_again();
  auto const& now = *config_.topology.discovered;
  if (now != before || !calls_) {
    call();
  }
  auto const patience = config_.options.terms.join_timeout;
  if (Clock::now() >= config_.join_until - patience + kToldAfter && !std::exchange(told_, true)) {
    log(Level::info, "not in the job yet: calling " + endpoint_text(now.host, now.port) + ", as " + now.path +
                         " says, which is read again each second; for " + seconds_text(patience) + " in all");
  }
}

/// What cannot be read, or is of no use, changes nothing.
void Joining::read_again() {
  auto const dir = discovery_dir(config_.environment);
  auto found = within_patience(dir, [dir, target = *config_.options.join, environment = config_.environment] {
    return find_job(dir, target, environment);
  });
  if (!found) {
    return;
  }
  if (auto const key = keys_ ? rendezvous::read_key(found->key) : std::nullopt) {
    keys_->know(*key);
  }
  config_.topology.discovered = *std::move(found);
}

void Joining::call() {
  calls_ = true;
  auto plan = plan_();
  auto const left = std::chrono::ceil<std::chrono::seconds>(config_.join_until - Clock::now());
  plan.patience = std::max(Millis{left}, kBetweenLooks);
  links_.join(link_, std::move(plan), [this](Error const& error) {
    calls_ = false;
    trouble_ = error;
    if (error.code == Errc::refused || Clock::now() >= config_.join_until) {
      end();
    }
  });
}

void Joining::end() {
  stop();
  failed_(*trouble_);
}

}  // namespace cxxrun::launcher
