// SPDX-License-Identifier: Apache-2.0
#include "bpffs.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <string>

#include "args.h"
#include "errors.h"

namespace waggle {

namespace {

// 0 for an empty folder, otherwise why a mount must not go over it.
int InUse(const std::string& path) {
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return errno;
  int entries = 0;
  while (readdir(dir) != nullptr) entries++;
  closedir(dir);
  return entries > 2 ? ENOTEMPTY : 0;  // . and ..
}

}  // namespace

Napi::Value MountBpffs(const Napi::CallbackInfo& info) {
  Args args(info, "mountBpffs");
  Napi::Env env = info.Env();
  std::string path = args.GetString(0, "path");
  if (mkdir(path.c_str(), 0700) && errno != EEXIST) throw SystemError(env, errno, "mkdir", path);
  struct statfs filesystem;
  if (statfs(path.c_str(), &filesystem)) throw SystemError(env, errno, "statfs", path);
  // A folder of another bpffs takes pins as well.
  if (filesystem.f_type == BPF_FS_MAGIC) return env.Undefined();
  // Over anything that is in use a mount would hide it: /proc, a folder of files.
  if (int error = InUse(path)) throw SystemError(env, error, "mount", path);
  if (mount("bpf", path.c_str(), "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"))
    throw SystemError(env, errno, "mount", path);
  return env.Undefined();
}

}  // namespace waggle
