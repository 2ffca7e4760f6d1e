"""The version of the package: that of the launcher, include/cxxrun/version.hpp; tests/src/runtime/python compares them."""

VERSION = "0.1.0"
