"""PyTorch that keeps its process when a peer dies: docs/use/elastic_pytorch.md."""
from cxxrun._lib import Failure, PeerFailure
from cxxrun.torch._elastic import Elastic
from cxxrun.torch._sampler import ElasticSampler

__all__ = ["Elastic", "ElasticSampler", "Failure", "PeerFailure"]
