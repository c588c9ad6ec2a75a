// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "errors.h"
#include "fd.h"

namespace waggle {
namespace {

constexpr size_t kMaxFile = 256 * 1024 * 1024;
constexpr size_t kStep = 1024 * 1024;

UniqueFd OpenRegularFile(const Args& args, const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) throw SystemError(args.env(), errno, "open", path);
  struct stat facts;
  if (fstat(fd.get(), &facts)) throw SystemError(args.env(), errno, "fstat", path);
  if (!S_ISREG(facts.st_mode)) throw SystemError(args.env(), S_ISDIR(facts.st_mode) ? EISDIR : EINVAL, "open", path);
  return fd;
}

}  // namespace

void RequireRegularFile(const Args& args, const std::string& path) { OpenRegularFile(args, path); }

std::vector<char> ReadFile(const Args& args, const std::string& path) {
  UniqueFd fd = OpenRegularFile(args, path);
  std::vector<char> bytes;
  size_t length = 0;
  while (true) {
    if (length > kMaxFile) throw SystemError(args.env(), EFBIG, "read", path);
    bytes.resize(length + kStep);
    ssize_t count = read(fd.get(), bytes.data() + length, kStep);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw SystemError(args.env(), errno, "read", path);
    if (count == 0) break;
    length += static_cast<size_t>(count);
  }
  bytes.resize(length);
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace waggle
