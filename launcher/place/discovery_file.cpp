#include "launcher/place/discovery_file.hpp"

#include <cerrno>
#include <cstdio>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "launcher/facts/outer_launcher.hpp"
#include "launcher/options/options.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/local_address.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kMostAddresses = 8;
constexpr std::size_t kMostNames = 100'000;  // directory entries looked at

Error cannot_write(std::string const& path, int error) {
  auto const code = error == EACCES || error == EPERM || error == EROFS ? Errc::permission : Errc::io;
  return fail(code, "cannot write " + path + " (choose a directory that all nodes share with CXXRUN_DISCOVERY_DIR)",
              error);
}

/// mkdir -p with mode 0700.
void make_private(std::string const& path) {
  for (auto end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0700);
  }
  mkdir(path.c_str(), 0700);  // an error shows when the file is created
}

/// The discoveries in `dir` that may be of the target. Files that cannot be read become lines in `trouble`.
std::vector<Discovery> list_discoveries(std::string const& dir, JoinTarget const& target,
                                        Environment const& environment, std::vector<std::string>& trouble) {
  std::vector<Discovery> found;
  auto const folder = os::Folder::open(dir);
  auto const names = folder ? folder.names(kMostNames) : std::nullopt;
  for (auto const& name : names.value_or(std::vector<std::string>{})) {
    if (!may_lead_to(name, target, environment)) {
      continue;
    }
    auto discovery = read_discovery(std::string(dir).append("/").append(name));
    if (!discovery) {
      trouble.push_back(discovery.error().message());
    } else if (discovery->has_value()) {
      found.push_back(std::move(**discovery));
    }
  }
  return found;
}

/// Whether the file has these contents already, or contents that supersede them.
bool is_up_to_date(Discovery const& discovery) {
  auto const there = read_discovery(discovery.path);
  return there && there->has_value() && (**there == discovery || supersedes(**there, discovery));
}

}  // namespace

Result<std::string> read_private_file(std::string const& path, std::size_t most, std::string const& remedy) {
  auto const folder = os::Folder::above(path);
  auto const file = folder ? folder.open_file(os::name_in(path)) : os::UniqueFd();
  struct stat status {};
  if (!file && errno == ELOOP) {
    return fail(Errc::protocol, path + " is no regular file, or a link: " + remedy);
  }
  if (!file || fstat(file.get(), &status) != 0) {
    bool const missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing           ? Errc::not_found
                : errno == EACCES ? Errc::permission
                                  : Errc::io,
                "cannot read " + path, errno);
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::permission, path + " can be accessed by other users: " + remedy);
  }
  auto text = os::read_all(file.get(), most);
  return text ? Result<std::string>(*std::move(text)) : fail(Errc::io, "cannot read " + path, errno);
}

Result<std::optional<Discovery>> read_discovery(std::string const& path) {
  auto const text = read_private_file(path, kMaxDiscovery + 1, "remove it");
  if (!text && text.error().code == Errc::not_found) {
    return std::optional<Discovery>();
  }
  auto discovery = text ? parse_discovery(*text, path) : text.error();
  return discovery ? Result<std::optional<Discovery>>(*std::move(discovery)) : discovery.error();
}

Result<Discovery> find_job(std::string const& dir, JoinTarget const& target, Environment const& environment) {
  std::vector<std::string> trouble;
  auto chosen = choose_discovery(list_discoveries(dir, target, environment, trouble), target, dir);
  if (!chosen && !trouble.empty()) {
    return fail(chosen.error().code, chosen.error().context + "; " + trouble.front());
  }
  return chosen;
}

Discovery describe_self(Environment const& environment, std::string const& name, std::string const& host,
                        std::uint16_t port, std::string const& nonce) {
  Discovery discovery;
  discovery.job = value_of(environment, "SLURM_JOB_ID");
  discovery.restarts = restart_count(environment);
  discovery.addresses = os::own_addresses(kMostAddresses);
  discovery.addresses.insert(discovery.addresses.begin(), host);
  discovery.port = port;
  discovery.nonce = nonce;
  discovery.host = host;
  discovery.pid = getpid();
  if (auto const dir = discovery_dir(environment); !dir.empty()) {
    discovery.path = dir + "/" + name;
  }
  return discovery;
}

Result<void> write_discovery(Discovery const& discovery) {
  if (is_up_to_date(discovery)) {
    return {};
  }
  std::string const name = os::name_in(discovery.path);
  std::string const temporary = "." + name + "." + discovery.nonce;
  make_private(discovery.path.substr(0, discovery.path.rfind('/')));
  auto const folder = os::Folder::above(discovery.path);
  auto file = folder ? folder.create(temporary) : os::UniqueFd();
  if (!file) {
    return cannot_write(discovery.path, errno);
  }
  int error = os::write_all(file.get(), discovery_text(discovery)) ? 0 : errno;
  file.reset();
  bool const late = error == 0 && is_up_to_date(discovery);  // checked again: writing may have taken long
  if (error == 0 && !late && !folder.rename(temporary, name)) {
    error = errno;
  }
  if (error != 0 || late) {
    folder.remove(temporary);
  }
  return error == 0 ? Result<void>() : cannot_write(discovery.path, error);
}

void remove_discovery(std::string const& path, std::string const& nonce) noexcept {
  try {
    auto const there = read_discovery(path);
    if (there && there->has_value() && (*there)->nonce == nonce) {
      unlink(path.c_str());
    }
  } catch (...) {  // out of memory: the file stays; its nonce shows that it is stale
    return;
  }
}

namespace {

/// Retries: between two coordinators the file may be missing or stale for a moment.
Result<std::optional<Discovery>> find_job_to_join(Options const& options, Environment const& environment,
                                                  TimePoint until) {
  auto const dir = discovery_dir(environment);
  for (bool told = false;; told = true) {
    auto found = within_patience(dir, [=, target = *options.join] { return find_job(dir, target, environment); });
    if (found) {
      return std::optional(*std::move(found));
    }
    auto const& error = found.error();
    bool const certain = error.code == Errc::usage || dir.empty();
    if (certain || options.dry_run || Clock::now() >= until) {
      return error;
    }
    if (!told) {
      std::fprintf(stderr, "cxxrun: %s; looking again for %s\n", error.message().c_str(),
                   seconds_text(options.terms.join_timeout).c_str());
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

Result<std::optional<Discovery>> discover(Options const& options, Environment const& environment, TimePoint join_until,
                                          std::vector<std::string>& trouble) {
  auto const dir = discovery_dir(environment);
  if (options.join) {
    return find_job_to_join(options, environment, join_until);
  }
  auto const name = discovery_name(environment);
  bool const is_task = environment.contains("SLURM_STEP_ID") && !inside_worker(environment);
  if (dir.empty() || name.empty() || !is_task || options.standalone) {
    return std::optional<Discovery>();
  }
  auto found = within_patience(dir, [path = dir + "/" + name] { return read_discovery(path); });
  if (!found) {
    trouble.push_back(found.error().message() + "; it is ignored");
    return std::optional<Discovery>();
  }
  return of_this_run_of_the_job(*std::move(found), environment);
}

}  // namespace cxxrun::launcher
