#include "src/base/os/path_owners.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "src/base/core/text.hpp"

namespace cxxrun::os {
namespace {

constexpr int kMostPathLinks = 40;  // as in the kernel

void put_first(std::deque<std::string>& names, std::string const& path) {
  std::vector<std::string> found;
  for (auto const& name : split(path, '/')) {
    if (!name.empty() && name != ".") {
      found.push_back(std::string(name));
    }
  }
  names.insert(names.begin(), found.begin(), found.end());
}

UniqueFd open_root() {
  return UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

class Walk {
 public:
  Walk(std::string const& path, bool make) : make_(make) {
    std::array<char, PATH_MAX> here{};
    std::string const from = path.starts_with('/') || ::getcwd(here.data(), here.size()) == nullptr ? "" : here.data();
    put_first(left_, from + "/" + path);
  }

  bool next() {
    std::string const name = left_.front();
    left_.pop_front();
    if (name == "..") {
      path_.resize(std::min(path_.size(), path_.rfind('/')));
    } else {
      path_ += "/" + name;
    }
    UniqueFd there = open_next(name);
    struct stat holder {};
    struct stat facts {};
    if (!there || ::fstat(at_.get(), &holder) != 0 || ::fstat(there.get(), &facts) != 0) {
      return false;
    }
    bool const link = S_ISLNK(facts.st_mode);
    if (name != "..") {
      steps.push_back({path_, facts.st_uid, link, holder.st_uid, others_may_write(at_.get(), holder),
                       (holder.st_mode & S_ISVTX) != 0});
    }
    if (link) {
      return follow(there.get());
    }
    if (!S_ISDIR(facts.st_mode)) {
      errno = ENOTDIR;
      return false;
    }
    at_ = std::move(there);
    return true;
  }

  [[nodiscard]] bool done() const { return left_.empty(); }
  [[nodiscard]] int at() const { return at_.get(); }

  std::vector<PathStep> steps;
  bool made = false;

 private:
  /// Opens a directory (O_DIRECTORY makes an automount happen) or anything else.
  UniqueFd open_next(std::string const& name) {
    constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd there(::openat(at_.get(), name.c_str(), kFlags | O_DIRECTORY));
    if (!there && errno == ENOENT && left_.empty() && make_) {
      made = ::mkdirat(at_.get(), name.c_str(), 0777) == 0;
      if (made || errno == EEXIST) {
        there.reset(::openat(at_.get(), name.c_str(), kFlags | O_DIRECTORY));
      }
    }
    if (!there && (errno == ENOTDIR || errno == ELOOP)) {
      there.reset(::openat(at_.get(), name.c_str(), kFlags));
    }
    return there;
  }

  bool follow(int link) {
    std::array<char, PATH_MAX> target{};
    auto const size = ::readlinkat(link, "", target.data(), target.size());
    if (size <= 0 || ++links_ > kMostPathLinks) {
      errno = size <= 0 ? errno : ELOOP;
      return false;
    }
    std::string const leads_to(target.data(), static_cast<std::size_t>(size));
    put_first(left_, leads_to);
    if (leads_to.front() == '/') {
      at_ = open_root();
      path_.clear();
    } else {
      path_.resize(path_.rfind('/'));
    }
    return static_cast<bool>(at_);
  }

  bool make_;
  UniqueFd at_ = open_root();
  std::deque<std::string> left_;
  std::string path_;  // for messages; ".." removes a name
  int links_ = 0;
};

bool is_among(uid_t owner, std::vector<uid_t> const& users) {
  return is_root(owner) || std::find(users.begin(), users.end(), owner) != users.end();
}

}  // namespace

PathWalk walk(std::string const& path, bool make) {
  Walk walk(path, make);
  while (!walk.done()) {
    if (!walk.next()) {
      int const error = errno;
      PathWalk none{{}, std::move(walk.steps), false};
      errno = error;
      return none;
    }
  }
  UniqueFd last(::openat(walk.at(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return {Folder(std::move(last)), std::move(walk.steps), walk.made};
}

PathStep const* first_strange(std::vector<PathStep> const& steps, uid_t user) {
  std::vector<uid_t> known{user};
  bool const own_end = !steps.empty() && !steps.back().is_link && is_among(steps.back().owner, known);
  for (PathStep const& step : steps) {
    if (is_among(step.owner, known)) {
      continue;
    }
    if (!step.open || step.owner == step.holder) {
      known.push_back(step.owner);          // the directory's owner made it, or root gave it away
    } else if (step.is_link || !own_end) {  // no user can make a directory that belongs to another
      return &step;
    }
  }
  return nullptr;
}

PathStep const* first_loose(std::vector<PathStep> const& steps, uid_t user) {
  for (PathStep const& step : steps) {
    bool const renamed_by_others = step.open && !(step.sticky && is_among(step.owner, {user}));
    if (renamed_by_others || !is_among(step.holder, {user})) {
      return &step;
    }
  }
  return nullptr;
}

}  // namespace cxxrun::os
