#include "transport/shm/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace kvferry::shm {

void File::reset() noexcept {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

tl::unexpected<Error> system_error(std::string what, std::string_view why, int number) {
  std::string text(why);
  text.append(": ").append(std::generic_category().message(number));
  text.append(" (errno ").append(std::to_string(number)).append(")");
  return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, std::move(what), std::move(text), number);
}

Result<File> make_memfd(const char* name, std::uint64_t bytes) {
  const std::string what = std::string("shm memory '") + name + "' of " + std::to_string(bytes) + " bytes";
  File file{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file) {
    return system_error(what, "memfd_create failed", errno);
  }
  if (::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0) {
    return system_error(what, "ftruncate failed", errno);
  }
  if (::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error(what, "sealing failed", errno);
  }
  return file;
}

Result<File> read_only(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  File copy{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (copy) {
    return copy;
  }
  copy = File{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
  if (!copy) {
    return system_error("shm memory", "duplicating its descriptor failed", errno);
  }
  return copy;
}

Result<std::uint64_t> sealed_size(int fd, const std::string& what) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) {
    return system_error(what, "fstat of the handed-over descriptor failed", errno);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return system_error(what, "the handed-over descriptor has no seals (not a memfd)", errno);
  }
  if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    return fail(Code::kBadMessage, Who::kPeer, Next::kNever, what,
                "the handed-over memfd is not sealed against shrinking and growing (seals " +
                    std::to_string(seals) + ")");
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace kvferry::shm
