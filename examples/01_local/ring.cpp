// ring: the smallest worker that meets its peers. In each step every rank puts a number into a ring, the numbers
// travel once around it, and every rank adds up all of them. Started by cxxrun, by torchrun or alone.
//
// usage: ring [--steps N] [--pause-ms N] [--checkpoint PATH] [--pid-dir DIR]
//
// With --checkpoint, rank 0 keeps the number of the last finished step there, and a restarted job goes on after it.
// With --pid-dir, each rank writes its process id to DIR/pid.RANK, so that one can be killed to see what happens.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

#include "cxxrun/store.hpp"
#include "cxxrun/worker_env.hpp"

namespace {

using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::Result;
using cxxrun::Store;
using cxxrun::WorkerEnv;

struct Options {
  int steps = 10;
  int pause_ms = 0;
  std::string checkpoint;
  std::string pid_dir;
};

Result<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string_view const name = argv[i];
    if (i + 1 == argc) {
      return fail(Errc::usage, std::string(name) + " needs a value");
    }
    char const* const value = argv[i + 1];
    if (name == "--steps") {
      options.steps = std::atoi(value);
    } else if (name == "--pause-ms") {
      options.pause_ms = std::atoi(value);
    } else if (name == "--checkpoint") {
      options.checkpoint = value;
    } else if (name == "--pid-dir") {
      options.pid_dir = value;
    } else {
      return fail(Errc::usage,
                  "unknown option " + std::string(name) + "; known: --steps, --pause-ms, --checkpoint, --pid-dir");
    }
  }
  return options;
}

/// The last finished step, 0 when there is none.
int load(std::string const& path) {
  int step = 0;
  std::ifstream(path) >> step;
  return step;
}

/// Written beside and renamed, so that a reader finds a whole number whenever we are killed.
Result<void> save(std::string const& path, int value) {
  std::string const beside = path + ".new";
  std::ofstream file(beside);
  file << value << '\n';
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    return fail(Errc::io, "cannot write " + path);
  }
  return {};
}

class Ring {
 public:
  Ring(WorkerEnv env, Store store) : env_(std::move(env)), store_(std::move(store)) {}

  /// Rank 0's value, on every rank.
  Result<int> broadcast(std::string const& name, int value) {
    if (env_.rank == 0) {
      if (auto sent = store_.set(name, std::to_string(value)); !sent) {
        return sent.error();
      }
    }
    return number(name);
  }

  /// The sum of all ranks' values: each passes on to the right what came from the left.
  Result<int> sum(int step, int value) {
    int const left = (env_.rank + env_.world_size - 1) % env_.world_size;
    int total = value;
    for (int hop = 1; hop < env_.world_size; ++hop) {
      if (auto sent = store_.set(key(step, hop, env_.rank), std::to_string(value)); !sent) {
        return sent.error();
      }
      auto const received = number(key(step, hop, left));
      if (!received) {
        return received;
      }
      if (auto removed = store_.delete_key(key(step, hop, left)); !removed) {
        return removed.error();
      }
      value = *received;
      total += value;
    }
    return total;
  }

 private:
  static std::string key(int step, int hop, int rank) {
    return "ring/" + std::to_string(step) + "/" + std::to_string(hop) + "/" + std::to_string(rank);
  }

  Result<int> number(std::string const& name) {
    auto const text = store_.get(name);
    return text ? Result<int>(std::atoi(text->c_str())) : text.error();
  }

  WorkerEnv env_;
  Store store_;
};

Result<void> run(Options const& options, WorkerEnv const& env) {
  if (!options.pid_dir.empty()) {
    if (auto saved = save(options.pid_dir + "/pid." + std::to_string(env.rank), getpid()); !saved) {
      return saved;
    }
  }
  // A generation has a store of its own: keys of workers that have been killed cannot be there.
  auto store = Store::connect(*env.store);
  if (!store) {
    return store.error();
  }
  Ring ring(env, *std::move(store));
  auto const done = ring.broadcast("done", options.checkpoint.empty() ? 0 : load(options.checkpoint));
  if (!done) {
    return done.error();
  }
  if (env.rank == 0 && *done > 0) {
    std::cout << "generation " << env.generation << " goes on after step " << *done << std::endl;
  }
  for (int step = *done + 1; step <= options.steps; ++step) {
    auto const sum = ring.sum(step, env.rank + 1);
    if (!sum) {
      return sum.error();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(options.pause_ms));
    if (env.rank == 0) {
      std::cout << "step " << step << ": sum over " << env.world_size << " ranks = " << *sum << std::endl;
      if (!options.checkpoint.empty()) {
        if (auto saved = save(options.checkpoint, step); !saved) {
          return saved;
        }
      }
    }
  }
  return {};
}

int complain(cxxrun::Error const& error) {
  std::cerr << "ring: " << error.message() << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = parse(argc, argv);
  if (!options) {
    return complain(options.error());
  }
  auto const env = WorkerEnv::from_environment();
  if (!env) {
    return complain(env.error());
  }
  if (!env->store) {
    return complain(fail(Errc::environment, "no ring without a store; start with: cxxrun --nproc-per-node 4 ring"));
  }
  auto const done = run(*options, *env);
  return done ? 0 : complain(done.error());
}
