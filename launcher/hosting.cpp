#include "launcher/hosting.hpp"

#include <system_error>
#include <utility>

#include "launcher/discovery_file.hpp"
#include "launcher/log_dir.hpp"
#include "launcher/policies.hpp"
#include "src/os/bounded_thread.hpp"
#include "src/os/local_address.hpp"
#include "src/os/log.hpp"
#include "src/store/store_server.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kFileDeadline{2000};  // for a file system that hangs

}  // namespace

Hosting::Hosting(boost::asio::io_context& io, AgentConfig const& config, rendezvous::CoordinatorHandlers handlers)
    : io_(io), config_(config), handlers_(std::move(handlers)) {}

Hosting::~Hosting() {
  if (announcing_ && announcing_->join_until(Clock::now() + kFileDeadline)) {
    remove_discovery(announced_, config_.nonce);
  }
}

Result<bool> Hosting::is_mine() const {
  auto const& meeting = config_.topology.meeting;
  return meeting.host == Meeting::Host::find_out ? os::is_local_address(meeting.address)
                                                 : Result<bool>(meeting.host == Meeting::Host::me);
}

Result<void> Hosting::begin() {
  auto const mine = is_mine();
  if (!mine) {
    return mine.error();
  }
  if (!*mine) {
    return {};
  }
  auto const& meeting = config_.topology.meeting;
  rendezvous::CoordinatorConfig conf;
  conf.nonce = config_.nonce;
  conf.loopback_only = meeting.loopback_only;
  rendezvous::CoordinatorHandlers on;
  on.concluded = handlers_.concluded;
  on.closed = [this] {
    closed_ = true;
    handlers_.closed();
  };
  stores_ = std::make_unique<store::StoreServer>([](auto const& line) { log(Level::warn, line); });
  coordinator_ = std::make_unique<rendezvous::Coordinator>(io_, *stores_, std::move(conf), std::move(on));
  auto const port = coordinator_->listen(meeting.ports);
  if (port) {
    port_ = *port;
    begin_directories();
    announce();
    return {};
  }
  coordinator_.reset();
  stores_.reset();
  if (meeting.host == Meeting::Host::find_out && port.error().code == Errc::in_use) {
    return {};  // an agent on this machine was first, or a stranger: the handshake will tell
  }
  return port.error();
}

/// The host is in generation 1. A dozen directories cost a disk more than the whole rendezvous takes: they are made
/// meanwhile. Whoever starts the workers makes what is missing and says what cannot be made.
void Hosting::begin_directories() {
  if (config_.facts.log_root.empty()) {
    return;
  }
  try {
    directories_ = std::make_unique<os::BoundedThread>(
        "cxxrun-dirs", [root = config_.facts.log_root, count = config_.facts.workers] {
          (void)make_worker_dirs(root, rendezvous::kFirstGeneration, count).has_value();
        });
  } catch (std::system_error const&) {
    directories_.reset();  // without a thread to spare they are made later
  }
}

/// Written beside everything else: a home directory may be slow, and nobody who starts with us needs it.
void Hosting::announce() {
  if (config_.topology.announce_as.empty()) {
    return;
  }
  auto self =
      describe_self(config_.environment, config_.topology.announce_as, config_.facts.host, port_, config_.nonce);
  self.run_id = config_.topology.run_id;
  if (self.path.empty()) {
    return;
  }
  announced_ = self.path;
  try {
    announcing_ = std::make_unique<os::BoundedThread>("cxxrun-file", [self] {
      if (auto const written = write_discovery(self); !written) {
        log(Level::warn, "no node can be added with --join: " + written.error().message());
      }
    });
  } catch (std::system_error const& error) {
    log(Level::warn, std::string("no node can be added with --join: ") + error.what());
  }
}

void Hosting::open() {
  if (coordinator_) {
    coordinator_->open_run(config_.topology.run_id, terms_of(config_.options, config_.topology));
  }
}

void Hosting::abandon() {
  coordinator_.reset();
}

}  // namespace cxxrun::launcher
