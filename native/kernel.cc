// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "errors.h"

namespace waggle {
namespace {

// The kernel names a descriptor's kind only in the target of its /proc link.
bool IsKind(int fd, FdKind kind) {
  char target[64] = {};
  std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) return false;
  switch (kind) {
    case FdKind::kMap:
      return strstr(target, "bpf-map");
    case FdKind::kProgram:
      return strstr(target, "bpf-prog");
    case FdKind::kLink:
      return strstr(target, "bpf_link") || strstr(target, "bpf-link");
  }
  return false;
}

}  // namespace

UniqueFd OpenPin(const Args& args, const std::string& path, FdKind kind) {
  UniqueFd fd(bpf_obj_get(path.c_str()));
  if (!fd.valid()) throw SystemError(args.env(), errno, "bpf_obj_get", path);
  if (!IsKind(fd.get(), kind)) throw SystemError(args.env(), EINVAL, args.function(), path);
  return fd;
}

void Pin(const Args& args, int fd, const std::string& path) {
  if (int error = bpf_obj_pin(fd, path.c_str())) throw SystemError(args.env(), -error, "bpf_obj_pin", path);
}

template <class Info>
Info InfoOf(const Args& args, int fd, const std::string& object) {
  Info info{};
  uint32_t length = sizeof(info);
  if (int error = bpf_obj_get_info_by_fd(fd, &info, &length))
    throw SystemError(args.env(), -error, "bpf_obj_get_info_by_fd", object);
  return info;
}

template bpf_map_info InfoOf<bpf_map_info>(const Args&, int, const std::string&);
template bpf_prog_info InfoOf<bpf_prog_info>(const Args&, int, const std::string&);
template bpf_link_info InfoOf<bpf_link_info>(const Args&, int, const std::string&);

}  // namespace waggle
