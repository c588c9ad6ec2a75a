// SPDX-License-Identifier: Apache-2.0
#include "netns.h"

#include <linux/magic.h>
#include <linux/nsfs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "args.h"
#include "errors.h"
#include "fd.h"

namespace waggle {
namespace {

// Of the thread: setns changes one thread only, /proc/self/ns is the main thread's.
constexpr const char* kOwn = "/proc/thread-self/ns/net";

// SO_NETNS_COOKIE; the headers of a Linux below 5.14 lack it.
constexpr int kNetnsCookie = 71;

// Non-blocking, so that a pipe by that name cannot hold us up.
UniqueFd OpenNamespace(const Args& args, const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) throw SystemError(args.env(), errno, "open", path);
  struct statfs filesystem;
  if (fstatfs(fd.get(), &filesystem)) throw SystemError(args.env(), errno, "fstatfs", path);
  if (filesystem.f_type != NSFS_MAGIC || ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET)
    throw SystemError(args.env(), EINVAL, args.function(), path);
  return fd;
}

// Puts the thread back on every way out. Going on in a foreign namespace would program
// somebody else's network, so a thread that cannot return ends the process.
class Return {
 public:
  explicit Return(UniqueFd home) : home_(std::move(home)) {}
  ~Return() {
    if (setns(home_.get(), CLONE_NEWNET) == 0) return;
    fprintf(stderr, "waggle: cannot return to my network namespace: %s\n", strerror(errno));
    abort();
  }
  Return(const Return&) = delete;
  Return& operator=(const Return&) = delete;

 private:
  UniqueFd home_;
};

}  // namespace

Napi::Value InNetns(const Napi::CallbackInfo& info) {
  Args args(info, "inNetns");
  std::string path = args.GetString(0, "path");
  Napi::Function function = args.GetFunction(1, "fn");
  UniqueFd there = OpenNamespace(args, path);
  UniqueFd home = OpenNamespace(args, kOwn);
  Napi::Value result;
  {
    if (setns(there.get(), CLONE_NEWNET)) throw SystemError(info.Env(), errno, "setns", path);
    Return on_every_way_out(std::move(home));
    result = function.Call({});
  }
  if (result.IsPromise())
    throw WrongType(info.Env(), "inNetns",
                    "fn must be synchronous: after its first await it runs in the old namespace");
  return result;
}

Napi::Value NetnsInode(const Napi::CallbackInfo& info) {
  Args args(info, "netnsInode");
  std::string path = args.absent(0) ? kOwn : args.GetString(0, "path");
  UniqueFd fd = OpenNamespace(args, path);
  struct stat facts;
  if (fstat(fd.get(), &facts)) throw SystemError(info.Env(), errno, "fstat", path);
  return Napi::BigInt::New(info.Env(), uint64_t{facts.st_ino});
}

Napi::Value NetnsCookie(const Napi::CallbackInfo& info) {
  Args args(info, "netnsCookie");
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw SystemError(info.Env(), errno, "socket", "AF_INET");
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (!getsockopt(socket.get(), SOL_SOCKET, kNetnsCookie, &cookie, &size)) return Napi::BigInt::New(info.Env(), cookie);
  if (errno != ENOPROTOOPT) throw SystemError(info.Env(), errno, "getsockopt", "SO_NETNS_COOKIE");
  return info.Env().Undefined();
}

Napi::Value IfNameToIndex(const Napi::CallbackInfo& info) {
  Args args(info, "ifNameToIndex");
  std::string name = args.GetString(0, "name");
  unsigned int index = if_nametoindex(name.c_str());
  if (!index && errno != ENODEV) throw SystemError(info.Env(), errno, "if_nametoindex", name);
  return Napi::Number::New(info.Env(), index);
}

}  // namespace waggle
