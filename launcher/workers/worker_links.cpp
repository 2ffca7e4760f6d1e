#include "launcher/workers/worker_links.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <new>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "launcher/workers/local_listener.hpp"
#include "launcher/workers/worker_processes.hpp"
#include "src/base/core/complaints.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"
#include "src/base/worker/futex.hpp"

namespace cxxrun::launcher {
namespace {

using Connection = LocalListener::Connection;

constexpr std::size_t kMostPacket = 1024;  // bytes that a worker may send at once
constexpr std::size_t kPageBytes = 4096;
constexpr int kPageSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The memory of one ControlPage, as the agent has mapped it. Sealed: its size cannot change, so no access to it fails.
struct WorkerPage {
  os::UniqueFd fd;  ///< for the worker; closed once the worker has it
  os::Mapping memory;

  [[nodiscard]] worker::ControlPage* get() const { return static_cast<worker::ControlPage*>(memory.get()); }
  /// Wakes the worker's threads that sleep on the bell. Call it after changing the agent's words.
  void ring() const {
    get()->bell.fetch_add(1, std::memory_order_release);
    worker::futex_wake_all(get()->bell);
  }
};

/// Errors: io, when memory or descriptors run out.
Result<WorkerPage> make_page() {
  os::UniqueFd fd = os::make_memory_file("cxxrun-page");
  if (!fd || ftruncate(fd.get(), kPageBytes) != 0 || fcntl(fd.get(), F_ADD_SEALS, kPageSeals) != 0) {
    return fail(Errc::io, "cannot make the page that a worker and its agent share", errno);
  }
  auto memory = os::map_memory(kPageBytes, MAP_SHARED, fd.get());
  if (!memory) {
    return fail(Errc::io, "cannot map the page that a worker and its agent share", errno);
  }
  auto* const page = new (memory.get()) worker::ControlPage;
  page->magic.store(worker::kPageMagic, std::memory_order_release);
  return WorkerPage{std::move(fd), std::move(memory)};
}

/// `descriptor`: -1 = none. False: the other end has closed the connection, or does not read.
bool send_packet(int connection, worker::FromAgent const& packet, int descriptor = -1) {
  std::string const bytes = worker::encode(packet);
  return os::send_packet(connection, bytes, descriptor, MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

enum class Input : std::uint8_t { nothing_yet, packet, gone };

/// Uses recv, not recvmsg, so that descriptors in the packet are dropped.
Input receive_packet(int connection, worker::FromWorker& packet) {
  std::array<char, kMostPacket> bytes{};
  ssize_t const n = recv(connection, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Input::nothing_yet;
  }
  if (n <= 0 || static_cast<std::size_t>(n) > bytes.size()) {
    return Input::gone;
  }
  auto decoded = worker::decode_from_worker({bytes.data(), static_cast<std::size_t>(n)});
  if (!decoded) {
    return Input::gone;
  }
  packet = *std::move(decoded);
  return Input::packet;
}

Caller caller_at(int connection) {
  ucred who{};
  socklen_t length = sizeof who;
  bool const known = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.pid > 0;
  return known ? Caller{who.pid, getsid(who.pid), ""} : Caller{};
}

}  // namespace

struct WorkerLinks::Impl {
  /// A worker that has registered. No connection: the worker has ended or closed it.
  struct Link {
    pid_t pid = 0;
    bool survives = false;
    Connection connection;
    WorkerPage page{};
  };

  explicit Impl(WorkerLinksInbox& whose) : inbox(whose) {}

  void close() {
    if (listener) {
      listener->close();
    }
    while (!links.empty()) {
      forget(links.begin()->first);
    }
    while (!provers.empty()) {
      hang_up(provers.begin()->second);
    }
  }

  /// The local rank that has registered on this connection.
  [[nodiscard]] std::optional<std::uint32_t> registered_on(Connection const& connection) const {
    auto const it =
        std::ranges::find_if(links, [&](auto const& known) { return known.second.connection == connection; });
    return it == links.end() ? std::nullopt : std::optional(it->first);
  }

  /// A registered connection may send Parked only, another one anything but Parked. All else ends the connection.
  void on_input(Connection const& connection) {
    auto const from = registered_on(connection);
    worker::FromWorker packet;
    auto const input = receive_packet(connection->native_handle(), packet);
    auto const* const registration = std::get_if<worker::Register>(&packet);
    auto const* const claim = std::get_if<wire::RailClaim>(&packet);
    if (input == Input::nothing_yet) {
      listener->await_input(connection);
    } else if (claim != nullptr && !from) {
      prove(connection, *claim);
    } else if (auto const* const question = std::get_if<worker::Question>(&packet); question != nullptr && !from) {
      os::UniqueFd mine(connection->release());
      listener->drop(connection);
      inbox.on_question(std::move(mine), question->text);
    } else if (question != nullptr || claim != nullptr || input == Input::gone ||
               (registration != nullptr) == from.has_value()) {
      from ? disconnect(*from) : hang_up(connection);
    } else if (registration != nullptr) {
      admit(connection, *registration);
    } else {
      listener->await_input(connection);
      auto const& parked = std::get<worker::Parked>(packet);
      if (parked.generation == generation) {  // else it was sent before the worker was resumed
        inbox.on_parked(*from, parked.why);
      }
    }
  }

  /// The pid and the session identify the worker of most callers. Only for the others are the ancestors read, and then
  /// the environment.
  std::optional<std::uint32_t> find_worker(Caller& caller) const {
    auto const who = [this](pid_t pid) { return inbox.who(pid); };
    if (auto const local_rank = worker_of(caller, who)) {
      return local_rank;
    }
    caller.ancestors = caller.pid > 0 ? os::ancestors_of(caller.pid) : std::vector<pid_t>{};
    caller.of_agent = std::ranges::find(caller.ancestors, getpid()) != caller.ancestors.end();
    if (auto const local_rank = worker_of(caller, who)) {
      return local_rank;
    }
    auto const rank =
        caller.of_agent ? rank_of_agent(os::variables_of(caller.pid).value_or(""), listener->name()) : std::nullopt;
    caller.named = rank ? inbox.pid_of_rank(*rank) : 0;
    return worker_named(caller, who);
  }

  void admit(Connection const& connection, worker::Register packet) {
    auto caller = caller_at(connection->native_handle());
    auto const local_rank = find_worker(caller);
    packet.survives = packet.survives && caller.named == 0;  // an orphan is killed when its generation is over
    auto const known = local_rank ? links.find(*local_rank) : links.end();
    pid_t const holder = known != links.end() && known->second.connection ? known->second.pid : 0;
    std::string no = why_not({local_rank, holder, packet.generation, generation}, caller);
    if (no.empty()) {
      no = welcome(*local_rank, {caller.pid, packet.survives, connection});
    }
    if (!no.empty()) {
      refuse(connection, caller, local_rank, no);
      listener->drop(connection);
    } else if (packet.survives) {
      inbox.on_survivor(*local_rank, packet.shrinks);
    }
  }

  /// Tells the caller and the log why.
  void refuse(Connection const& connection, Caller caller, std::optional<std::uint32_t> local_rank,
              std::string const& why) {
    send_packet(connection->native_handle(), worker::No{why});
    if (caller.pid > 0) {
      auto const stat = os::read_stat(caller.pid);
      caller.program = stat ? stat->comm : "gone";
    }
    auto const line = complain(complaints, "refused", refusal_line(caller, local_rank, why), Clock::now());
    if (!line.empty()) {
      log(Level::warn, line);
    }
  }

  void prove(Connection const& connection, wire::RailClaim const& claim) {
    int const fd = connection->native_handle();
    auto caller = caller_at(fd);
    auto const local_rank = find_worker(caller);
    if (!local_rank) {
      refuse(connection, caller, local_rank, no_worker(caller));
      return hang_up(connection);
    }
    auto const verdict = inbox.prove(*local_rank, claim);
    if (!verdict || !send_packet(fd, *verdict)) {
      if (!verdict) {
        send_packet(fd, worker::No{verdict.error().context});
      }
      return hang_up(connection);
    }
    auto& kept = provers[*local_rank];
    if (kept != connection) {
      if (kept) {
        listener->drop(kept);
      }
      kept = connection;
      listener->keep(connection);
    }
    listener->await_input(connection);
  }

  /// Closes the connection of a caller that has not registered.
  void hang_up(Connection const& connection) {
    Connection const gone = connection;  // NOLINT(performance-unnecessary-copy-initialization): it may be in the map
    std::erase_if(provers, [&](auto const& known) { return known.second == gone; });
    listener->drop(gone);
  }

  /// Gives a worker its page. Returns the reason when that fails, else "".
  std::string welcome(std::uint32_t local_rank, Link link) {
    auto made = make_page();
    if (!made) {
      log(Level::warn, made.error().message());
      return made.error().message();
    }
    made->get()->over.store(is_over && link.survives ? generation : 0);
    made->get()->ends.store(is_ending || (is_over && !link.survives) ? 1 : 0);
    if (!send_packet(link.connection->native_handle(), worker::Welcome{}, made->fd.get())) {
      return "it does not read its answer";
    }
    made->fd.reset();
    link.page = *std::move(made);
    listener->keep(link.connection);
    listener->await_input(link.connection);
    links.erase(local_rank);
    links.emplace(local_rank, std::move(link));
    return "";
  }

  void disconnect(std::uint32_t local_rank) {
    if (auto const it = links.find(local_rank); it != links.end() && it->second.connection) {
      boost::system::error_code ignored;
      std::exchange(it->second.connection, nullptr)->close(ignored);
    }
  }

  void forget(std::uint32_t local_rank) {
    disconnect(local_rank);
    links.erase(local_rank);
  }

  WorkerLinksInbox& inbox;
  std::shared_ptr<LocalListener> listener;  // null when no descriptor was left
  std::map<std::uint32_t, Link> links;
  std::map<std::uint32_t, Connection> provers;  // by local rank: connections of callers that ask for proofs
  Complaints complaints;
  std::uint64_t generation = 0;
  bool is_over = false;    // over() was called in this generation
  bool is_ending = false;  // ends() was called in this generation
};

WorkerLinks::WorkerLinks(boost::asio::io_context& io, WorkerLinksInbox& inbox, std::string const& directory)
    : impl_(std::make_shared<Impl>(inbox)) {
  impl_->listener =
      LocalListener::start(io, directory, [impl = impl_](auto const& connection) { impl->on_input(connection); });
}

WorkerLinks::~WorkerLinks() {
  impl_->close();
}

std::string WorkerLinks::name() const {
  return impl_->listener ? impl_->listener->name() : "";
}

void WorkerLinks::begin(std::uint64_t generation) {
  impl_->generation = generation;
  impl_->is_over = false;
  impl_->is_ending = false;
}

void WorkerLinks::forget(std::uint32_t local_rank) {
  impl_->forget(local_rank);
}

void WorkerLinks::over() {
  impl_->is_over = true;
  for (auto const& [local_rank, link] : impl_->links) {
    if (link.survives) {
      link.page.get()->over.store(impl_->generation);
    } else {
      link.page.get()->ends.store(1);
    }
    link.page.ring();
  }
}

void WorkerLinks::ends() {
  impl_->is_ending = true;
  for (auto const& [local_rank, link] : impl_->links) {
    link.page.get()->ends.store(1);
    link.page.ring();
  }
}

bool WorkerLinks::checkpoint(std::uint32_t local_rank) {
  auto const it = impl_->links.find(local_rank);
  if (it == impl_->links.end()) {
    return false;
  }
  it->second.page.get()->checkpoints.fetch_add(1);
  it->second.page.ring();
  return true;
}

void WorkerLinks::ask_to_give_up(std::uint32_t local_rank) {
  if (auto const it = impl_->links.find(local_rank); it != impl_->links.end()) {
    it->second.page.get()->asked.store(impl_->generation);
    it->second.page.ring();
  }
}

bool WorkerLinks::resume(std::uint32_t local_rank, worker::Resume const& packet) {
  auto const it = impl_->links.find(local_rank);
  return it != impl_->links.end() && it->second.connection &&
         send_packet(it->second.connection->native_handle(), packet);
}

worker::ControlPage const* WorkerLinks::page(std::uint32_t local_rank) const {
  auto const it = impl_->links.find(local_rank);
  return it == impl_->links.end() ? nullptr : it->second.page.get();
}

pid_t WorkerLinks::pid(std::uint32_t local_rank) const {
  auto const it = impl_->links.find(local_rank);
  return it == impl_->links.end() ? 0 : it->second.pid;
}

}  // namespace cxxrun::launcher
