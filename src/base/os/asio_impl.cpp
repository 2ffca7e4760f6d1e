// The one file that compiles Asio and Process (BOOST_*_SEPARATE_COMPILATION).
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <boost/asio/impl/src.hpp>
#include <boost/process/v2/src.hpp>
