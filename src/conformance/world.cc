#include "conformance/world.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "conformance/remote_party.h"

namespace kvferry::conformance {
namespace {

Error failed(const char* call) {
  return {Code::kEnvironment,  Who::kLocal,
          Next::kAfterFix,     errno,
          "conformance child", std::string(call) + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::unique_ptr<World>> World::start(const HarnessSpec& spec) {
  std::unique_ptr<World> world(new World(spec));
  MakerSpec& maker = world->spec_.maker;
  if (spec.far == HarnessSpec::Far::kSameProcess && !maker.fabric) {
    maker.fabric = std::make_shared<transport::LoopbackFabric>();
  }
  auto near = LocalParty::start(maker);
  if (!near) return tl::unexpected(near.error());
  world->near_ = std::move(*near);
  switch (spec.far) {
    case HarnessSpec::Far::kSameProcess: {
      auto far = LocalParty::start(maker);
      if (!far) return tl::unexpected(far.error());
      world->far_local_ = far->get();
      world->far_ = std::move(*far);
      break;
    }
    case HarnessSpec::Far::kChild:
      if (auto ok = world->start_child(); !ok) return tl::unexpected(ok.error());
      break;
    case HarnessSpec::Far::kStream:
      world->far_ = make_remote_party(dup(spec.stream));
      if (auto ok = world->far_->restart(); !ok) return tl::unexpected(ok.error());
      break;
  }
  const Capabilities far = world->far_->capabilities();
  if (!far.name.empty()) return world;
  return fail(Code::kEnvironment, Who::kPeer, Next::kAfterFix, "conformance far side",
              "it could not make its transport");
}

Result<> World::start_child() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return tl::unexpected(failed("socketpair"));
  std::vector<std::string> words = spec_.child_command;
  words.push_back(std::to_string(pair[1]));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  child_ = fork();
  if (child_ == 0) {
    fcntl(pair[1], F_SETFD, 0);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(pair[1]);
  if (child_ < 0) {
    close(pair[0]);
    return tl::unexpected(failed("fork"));
  }
  far_ = make_remote_party(pair[0]);
  return {};
}

void World::end_child() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {}
  child_ = -1;
}

World::~World() {
  far_.reset();
  end_child();
}

void World::pump() {
  near_->pump();
  if (far_runs_) far_->pump();
}

void World::kill_far() {
  far_runs_ = false;
  if (far_local_ != nullptr) far_local_->destroy();
  end_child();
}

void World::stop_far() {
  far_runs_ = false;
  if (child_ > 0) {
    kill(child_, SIGSTOP);
    int status = 0;
    while (waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {}
  }
}

void World::continue_far() {
  far_runs_ = true;
  if (child_ > 0) kill(child_, SIGCONT);
}

}  // namespace kvferry::conformance
