#include "cli/sibling.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

namespace kvferry::cli {

int exec_sibling(const char* name, char** argv) {
  std::array<char, PATH_MAX> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  std::string path =
      size > 0 ? std::string(self.data(), static_cast<std::size_t>(size)) : std::string(argv[0]);
  const auto slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string("./") : path.substr(0, slash + 1)) + name;
  std::fflush(stdout);
  ::execv(path.c_str(), argv);
  std::fprintf(stderr, "kvferry: %s cannot be started: %s; `./run build` makes it next to kvferry\n",
               path.c_str(), std::strerror(errno));
  return 3;
}

}  // namespace kvferry::cli
