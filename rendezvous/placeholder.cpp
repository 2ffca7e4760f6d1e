namespace cxxrun { void placeholder_r() {} }
