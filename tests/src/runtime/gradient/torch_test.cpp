// TorchGradients on two ranks: .grad after a step, and what is refused. A program under cxxrun, because libtorch's
// headers and Catch's define the same macros. Its models are so small that the results are known.
#include "cxxrun/torch.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cxxrun/checkpoint.hpp"

namespace {

using cxxrun::Communicator;
using cxxrun::TorchGradients;

void expect(bool right, char const* what) {
  if (!right) {
    std::fprintf(stderr, "torch_test: not so: %s\n", what);
    std::_Exit(1);
  }
}

template <class Act>
void expect_refused(Act const& act, char const* part) {
  std::string said = "nothing was thrown";
  try {
    act();
  } catch (cxxrun::Failure const& failure) {
    said = failure.what();
  }
  if (said.find(part) == std::string::npos) {
    std::fprintf(stderr, "torch_test: '%s' is not in: %s\n", part, said.c_str());
    std::_Exit(1);
  }
}

/// Three vectors; the gradient of each is its factor in the loss.
struct Vectors : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::ones({3}));
  torch::Tensor b = register_parameter("b", torch::ones({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast));
  torch::Tensor c = register_parameter("c", torch::ones({7}, torch::kDouble));
  torch::Tensor fixed = register_parameter("fixed", torch::ones({2}), false);
  Vectors() { register_parameter("again", a); }

  torch::Tensor loss(double factor) { return factor * a.sum() + 2 * factor * b.sum() + 3 * factor * c.sum(); }
};

/// Saves to bytes and restores, together with an optimizer.
void reload(Vectors& model) {
  torch::optim::SGD sgd(model.parameters(), 0.1);
  auto const bytes = cxxrun::torch_state(model, sgd);
  torch::NoGradGuard const guard;
  model.a.fill_(5);
  model.b.fill_(6);
  cxxrun::set_torch_state(cxxrun::bytes_of(bytes), model, sgd);
  expect(model.a.eq(1).all().item<bool>() && model.b.eq(1).all().item<bool>(), "a model comes back from its bytes");
}

bool holds(torch::Tensor const& parameter, double value) {
  return parameter.grad().defined() && parameter.grad().strides() == parameter.strides() &&
         parameter.grad().eq(value).all().item<bool>();
}

void expect_step(Communicator& comm, Vectors& model, TorchGradients& gradients, double more, char const* what) {
  double const mine = 1 + comm.rank() + more;
  model.loss(mine).backward();
  gradients.wait();
  double const mean = (comm.world_size() + 1) / 2.0 + more;
  expect(holds(model.a, mean) && holds(model.b, 2 * mean) && holds(model.c, 3 * mean), what);
  for (std::size_t i = 0; auto const& parameter : {model.a, model.b, model.c}) {
    expect(parameter.grad().data_ptr() == gradients.synchronizer().gradient_data(i++), ".grad is in its bucket");
  }
}

void steps(Communicator& comm) {
  Vectors model;
  {
    TorchGradients gradients(comm, model);
    expect(gradients.synchronizer().size() == 3, "a shared parameter counts once, a fixed one not");
    void* const before = model.a.grad().data_ptr();
    expect_step(comm, model, gradients, 0, "the mean over all ranks");
    expect(comm.world_size() == 1 || model.a.grad().data_ptr() != before, "buckets move after the first step");
    gradients.zero();
    expect_step(comm, model, gradients, 1, "the same in a second step");
    expect(gradients.copied() == 0, "nothing is copied");

    model.zero_grad(true);
    expect_step(comm, model, gradients, 2, "gradients that libtorch has put elsewhere");
    expect(gradients.copied() == 3, "these are copied");

    gradients.zero();
    {
      auto const pause = gradients.no_sync();
      model.loss(-1).backward();
      gradients.wait();
      expect(holds(model.a, -1), "inside no_sync() a gradient stays this rank's own");
    }
    model.loss(comm.rank() + 2).backward();
    gradients.wait();
    expect(holds(model.a, (comm.world_size() + 1) / 2.0), "what was accumulated counts");
    expect(gradients.copied() == 3, "also accumulating copies nothing");

    reload(model);
    gradients.zero();
    expect_step(comm, model, gradients, 3, "after loading");
  }
  expect(!model.a.grad().defined(), "afterwards nothing refers to the buckets");
  model.loss(1).backward();
  expect(holds(model.b, 2), "and nothing is left of the hooks");
}

void unused(Communicator& comm) {
  Vectors model;
  TorchGradients gradients(comm, model, {.synchronizer = {.find_unused = true}});
  (comm.rank() == 0 ? model.a.sum() : model.b.sum()).backward();
  gradients.wait();
  expect(holds(model.a, 1.0 / comm.world_size()), "what one rank used counts on all");
  expect(comm.world_size() == 1 || holds(model.b, 1.0 / comm.world_size()), "also the other rank's");
  expect(!model.c.grad().defined(), "what no rank used has no gradient");
}

struct Odd : torch::nn::Module {
  explicit Odd(torch::TensorOptions options) { register_parameter("odd", torch::zeros({2}, options)); }
};

void refusals(Communicator& comm) {
  Odd complex(torch::kComplexFloat);
  expect_refused([&] { TorchGradients const gradients(comm, complex); },
                 "parameter 'odd' is of type ComplexFloat, which cannot be summed");
  Odd elsewhere(torch::kMeta);
  expect_refused([&] { TorchGradients const gradients(comm, elsewhere); },
                 "parameter 'odd' is on meta, and the Communicator sums in host memory");
  torch::nn::Embedding sparse(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  TorchGradients gradients(comm, *sparse);
  sparse->weight.mutable_grad().reset();
  expect_refused([&] { sparse(torch::ones({1}, torch::kLong)).sum().backward(); },
                 "parameter 'weight' has a sparse gradient, which cannot be summed");
  gradients.zero();
  sparse(torch::ones({1}, torch::kLong)).sum().backward();  // to the dense view it can be added
  gradients.wait();
  expect(sparse->weight.grad().sum().item<double>() == 2, "a sparse gradient is added to a dense one");
}

}  // namespace

int main() {
  try {
    auto comm = Communicator::init();
    steps(comm);
    unused(comm);
    refusals(comm);
    comm.barrier();
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "torch_test: %s\n", failure.what());
    return 1;
  }
  return 0;
}
