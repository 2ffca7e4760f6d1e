namespace cxxrun { void placeholder_l() {} }
