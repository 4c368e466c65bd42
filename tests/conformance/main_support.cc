// The test program is also the other process of its two-process harnesses: "--party MOVER BIND FD" serves one
// party.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "conformance/remote_party.h"

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--party") {
    kvferry::conformance::MakerSpec spec;
    spec.mover = argv[2];
    spec.bind = argv[3];
    return kvferry::conformance::serve_party(std::atoi(argv[4]), spec);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
