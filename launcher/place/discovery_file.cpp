#include "launcher/place/discovery_file.hpp"

#include <cerrno>
#include <cstdio>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "launcher/facts/outer_launcher.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/private_file.hpp"
#include "src/base/os/fd_io.hpp"
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

/// mkdir -p, for this user alone.
void make_private(std::string const& path) {
  for (auto end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0700);
  }
  mkdir(path.c_str(), 0700);  // whether it worked is seen from the file
}

/// All files in `dir` that may lead to the target; those that cannot be read become lines in `trouble`.
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

/// Nothing is to be written: it is there already, or what supersedes it.
bool is_said(Discovery const& discovery) {
  auto const there = read_discovery(discovery.path);
  return there && there->has_value() && (**there == discovery || supersedes(**there, discovery));
}

}  // namespace

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
  if (is_said(discovery)) {
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
  bool const late = error == 0 && is_said(discovery);  // asked again: a file system may take its time to write
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
  } catch (...) {  // out of memory: the file stays and is recognised as stale
    return;
  }
}

namespace {

/// For a moment, between two coordinators, there may be no file, or a useless one.
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
