#include "train_torch/torch_trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "cxxrun/torch.hpp"
#include "train/model.hpp"

namespace train {
namespace {

constexpr std::int64_t kWide = 32;
constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kSeen = 8;   // characters that the next one is guessed from
constexpr double kLargestNorm = 1;  // of the gradient; a longer one is shortened

// Nothing here is of cxxrun.
struct Net : torch::nn::Module {
  torch::nn::Embedding embedding;
  torch::nn::Conv1d mix;
  torch::nn::Linear head;

  explicit Net(std::int64_t vocabulary)
      : embedding(register_module("embedding", torch::nn::Embedding(vocabulary, kWide))),
        mix(register_module("mix", torch::nn::Conv1d(torch::nn::Conv1dOptions(kWide, kHidden, kSeen)))),
        head(register_module("head", torch::nn::Linear(kHidden, vocabulary))) {}

  /// The mean over all characters.
  torch::Tensor loss(torch::Tensor const& tokens, torch::Tensor const& targets) {
    auto const wide = torch::constant_pad_nd(embedding(tokens).transpose(1, 2), {kSeen - 1, 0});
    auto const guesses = head(torch::relu(mix(wide)).transpose(1, 2));
    return torch::nn::functional::cross_entropy(guesses.flatten(0, 1), targets.flatten());
  }
};

torch::Tensor tensor_of(std::vector<std::uint8_t>& tokens, std::int64_t context) {
  return torch::from_blob(tokens.data(), {static_cast<std::int64_t>(tokens.size()) / context, context}, torch::kByte)
      .to(torch::kLong);
}

Net make_net(Text const& text, Options const& options) {
  torch::set_num_threads(1);  // a rank per CPU
  torch::manual_seed(options.seed);
  return Net(static_cast<std::int64_t>(text.vocabulary()));
}

class TorchTrainer final : public Trainer {
 public:
  TorchTrainer(Text const& text, Options const& options)
      : text_(text),
        options_(options),
        net_(make_net(text, options)),
        adam_(net_.parameters(), torch::optim::AdamOptions(options.rate)),
        sampler_(text.samples(), options.seed) {
    state_.sampler = sampler_.state();
  }

  void attach(cxxrun::Communicator& comm) override {
    // Buckets as small as the model, and the same layout after a restart: it decides in which order ranks are added up.
    auto next = std::make_unique<cxxrun::TorchGradients>(
        comm, net_,
        cxxrun::TorchGradients::Options{
            .synchronizer = {.first_bucket_bytes = 8 << 10, .bucket_bytes = 32 << 10, .rebuild_order = false}});
    gradients_ = std::move(next);
    comm_ = &comm;
    sampler_.restore(state_.sampler);  // a step that failed has taken samples
  }

  [[nodiscard]] std::string name() const override {
    char hash[20];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(text_.hash()));
    return std::string("char-conv, libtorch, text=") + hash;
  }

  [[nodiscard]] std::vector<cxxrun::Checkpoint::Blob> blobs() override {
    saved_ = cxxrun::torch_state(net_, adam_);
    return {{"torch", cxxrun::bytes_of(saved_)}, {"state", std::as_bytes(std::span(&state_, 1))}};
  }

  void restore(cxxrun::Checkpoint::Loaded const& saved) override {
    auto const state = saved.blob("state");
    if (state.size() != sizeof state_) {
      throw cxxrun::Failure({cxxrun::Errc::usage, saved.path + ": 'state' has " + std::to_string(state.size()) +
                                                      " bytes and should have " + std::to_string(sizeof state_)});
    }
    cxxrun::set_torch_state(saved.blob("torch"), net_, adam_);
    std::memcpy(&state_, state.data(), sizeof state_);
  }

  // Taken up when all of it is there.
  void share(int donor) override {
    bool const mine = comm_->rank() == donor;
    std::string bytes = mine ? cxxrun::torch_state(net_, adam_) : std::string();
    State state = state_;
    std::array<std::uint64_t, 1> size{bytes.size()};
    cxxrun::Tensor const sizes[] = {{size.data(), sizeof size, cxxrun::DType::u8},
                                    {&state, sizeof state, cxxrun::DType::u8}};
    gradients_->synchronizer().broadcast(sizes, donor);
    bytes.resize(size[0]);
    comm_->broadcast(bytes.data(), bytes.size(), cxxrun::DType::u8, donor);
    if (!mine) {
      cxxrun::set_torch_state(cxxrun::bytes_of(bytes), net_, adam_);
    }
    state_ = state;
    sampler_.restore(state_.sampler);
  }

  std::uint64_t step() override {
    if (sampler_.done()) {
      sampler_.next_epoch();
    }
    auto const samples = sampler_.next(comm_->rank(), comm_->world_size(), options_.batch);
    auto& synchronizer = gradients_->synchronizer();
    synchronizer.set_weight(static_cast<double>(samples.size()));
    std::array<double, 2> totals = backward(samples);
    gradients_->wait();
    comm_->all_reduce(std::span<double>(totals));
    double const norm = synchronizer.clip_gradients(kLargestNorm);
    // That was the last call: from here on the step cannot fail any more.
    if (std::isfinite(norm)) {
      adam_.step();
    }
    ++state_.step;
    state_.loss = totals[0] / totals[1];
    state_.sampler = sampler_.state();
    return static_cast<std::uint64_t>(totals[1]) / context();
  }

  [[nodiscard]] std::uint64_t hash() override {
    std::uint64_t hash = hash_of({});
    for (auto const& parameter : net_.parameters()) {
      auto const bytes = parameter.detach().contiguous();
      hash = hash_of({static_cast<std::byte const*>(bytes.data_ptr()), bytes.nbytes()}, hash);
    }
    return hash;
  }

 private:
  [[nodiscard]] static std::uint64_t context() { return Shape{}.context; }

  /// Sum of the losses and number of characters. At the end of an epoch a rank may have no samples.
  std::array<double, 2> backward(std::vector<std::uint64_t> const& samples) {
    gradients_->zero();
    if (samples.empty()) {
      return {0, 0};
    }
    auto batch = text_.batch(samples);
    auto const columns = static_cast<std::int64_t>(context());
    auto const loss = net_.loss(tensor_of(batch.tokens, columns), tensor_of(batch.targets, columns));
    loss.backward();
    auto const characters = static_cast<double>(batch.targets.size());
    return {loss.item<double>() * characters, characters};
  }

  Text const& text_;
  Options options_;
  Net net_;
  torch::optim::Adam adam_;
  cxxrun::ElasticSampler sampler_;
  std::unique_ptr<cxxrun::TorchGradients> gradients_;
  cxxrun::Communicator* comm_ = nullptr;
  std::string saved_;  ///< what blobs() shows
};

}  // namespace

std::unique_ptr<Trainer> make_torch_trainer(Text const& text, Options const& options) {
  return std::make_unique<TorchTrainer>(text, options);
}

}  // namespace train
