// SPDX-License-Identifier: Apache-2.0
#include "attach.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "kernel.h"
#include "link.h"

namespace waggle {
namespace {

// XDP_FLAGS_*: any mode, generic, driver.
constexpr uint32_t kXdpAny = 0;
constexpr uint32_t kXdpGeneric = 2;
constexpr uint32_t kXdpDriver = 4;

// No hook of the kernel takes more programs than this.
constexpr uint32_t kMaxPrograms = 4096;

// BPF_LINK_CREATE as Linux 6.6 has it: a prefix of the kernel's union, in which all that
// is not named is zero.
struct LinkCreate {
  uint32_t program_fd;
  uint32_t ifindex;
  uint32_t attach_type;
  uint32_t flags;
  uint32_t relative_fd;
  uint32_t zero;
  uint64_t expected_revision;
  uint64_t zeros[4];
};
static_assert(sizeof(LinkCreate) == 64, "what Linux 6.6 reads of a link's attributes");

bool IsCgroupType(uint32_t type) {
  switch (type) {
    case BPF_PROG_TYPE_CGROUP_SKB:
    case BPF_PROG_TYPE_CGROUP_SOCK:
    case BPF_PROG_TYPE_SOCK_OPS:
    case BPF_PROG_TYPE_CGROUP_DEVICE:
    case BPF_PROG_TYPE_CGROUP_SOCK_ADDR:
    case BPF_PROG_TYPE_CGROUP_SYSCTL:
    case BPF_PROG_TYPE_CGROUP_SOCKOPT:
      return true;
    default:
      return false;
  }
}

// For these the kernel would read the descriptor of a cgroup as a device.
bool IsDeviceAttachment(uint32_t attach_type) {
  return attach_type == kAttachTcxIngress || attach_type == kAttachTcxEgress || attach_type == kAttachNetkitPrimary ||
         attach_type == kAttachNetkitPeer;
}

UniqueFd OpenDirectory(const Args& args, const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) throw SystemError(args.env(), errno, "open", path);
  return fd;
}

std::string DeviceName(int ifindex) { return "ifindex " + std::to_string(ifindex); }

// Program ids at a target (a cgroup's descriptor or an ifindex), first one first.
Napi::Value Query(const Args& args, int target, uint32_t attach_type, const std::string& object) {
  std::vector<uint32_t> ids(64);
  uint32_t count = static_cast<uint32_t>(ids.size());
  int error;
  while ((error = bpf_prog_query(target, static_cast<bpf_attach_type>(attach_type), 0, nullptr, ids.data(), &count)) ==
             -ENOSPC &&
         ids.size() < kMaxPrograms) {
    ids.resize(ids.size() * 2);
    count = static_cast<uint32_t>(ids.size());
  }
  if (error) throw SystemError(args.env(), -error, "bpf_prog_query", object);
  Napi::Array list = Napi::Array::New(args.env(), count);
  for (uint32_t i = 0; i < count; i++) list.Set(i, Napi::Number::New(args.env(), ids[i]));
  return list;
}

}  // namespace

bool IsIngress(const Args& args, size_t index) {
  std::string direction = args.GetString(index, "direction");
  if (direction != "ingress" && direction != "egress")
    throw OutOfRange(args.env(), args.function(), "direction must be 'ingress' or 'egress'");
  return direction == "ingress";
}

void RequireType(const Args& args, const BpfProgram& program, uint32_t type) {
  if (program.state().type != type) throw SystemError(args.env(), EINVAL, args.function(), program.name());
}

Napi::Value AttachCgroup(const Napi::CallbackInfo& info) {
  Args args(info, "attachCgroup");
  BpfProgram& program = BpfProgram::From(args, info[0], "program");
  std::string path = args.GetString(1, "cgroup");
  uint32_t attach_type = args.GetUint32(2, "attachType");
  if (!IsCgroupType(program.state().type)) throw SystemError(info.Env(), EINVAL, "attachCgroup", program.name());

  UniqueFd cgroup = OpenDirectory(args, path);
  LogCapture log;
  UniqueFd link(
      bpf_link_create(program.state().fd.get(), cgroup.get(), static_cast<bpf_attach_type>(attach_type), nullptr));
  if (!link.valid()) throw SystemError(info.Env(), errno, "bpf_link_create", path, log.text());
  return BpfLink::Make(args, std::move(link), path);
}

Napi::Value AttachTcx(const Napi::CallbackInfo& info) {
  Args args(info, "attachTcx");
  BpfProgram& program = BpfProgram::From(args, info[0], "program");
  int ifindex = args.GetIfindex(1);
  bool ingress = IsIngress(args, 2);
  std::string position = args.GetString(3, "position");
  if (position != "before" && position != "after")
    throw OutOfRange(info.Env(), "attachTcx", "position must be 'before' or 'after'");
  RequireType(args, program, BPF_PROG_TYPE_SCHED_CLS);

  // libbpf 1.1 cannot say where in the chain. Without a neighbour named, "before" is
  // before all others and "after" behind them.
  LinkCreate attributes = {};
  attributes.program_fd = static_cast<uint32_t>(program.state().fd.get());
  attributes.ifindex = static_cast<uint32_t>(ifindex);
  attributes.attach_type = ingress ? kAttachTcxIngress : kAttachTcxEgress;
  attributes.flags = position == "before" ? kFlagBefore : kFlagAfter;
  UniqueFd link(static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof(attributes))));
  if (!link.valid()) throw SystemError(info.Env(), errno, "bpf_link_create", DeviceName(ifindex));
  return BpfLink::Make(args, std::move(link), DeviceName(ifindex));
}

Napi::Value AttachXdp(const Napi::CallbackInfo& info) {
  Args args(info, "attachXdp");
  BpfProgram& program = BpfProgram::From(args, info[0], "program");
  int ifindex = args.GetIfindex(1);
  uint32_t mode = args.GetUint32(2, "mode");
  if (mode != kXdpAny && mode != kXdpGeneric && mode != kXdpDriver)
    throw OutOfRange(info.Env(), "attachXdp", "mode must be 0 (any), 2 (generic) or 4 (driver)");
  RequireType(args, program, BPF_PROG_TYPE_XDP);

  LIBBPF_OPTS(bpf_link_create_opts, create, .flags = mode);
  LogCapture log;
  UniqueFd link(bpf_link_create(program.state().fd.get(), ifindex, BPF_XDP, &create));
  if (!link.valid()) throw SystemError(info.Env(), errno, "bpf_link_create", DeviceName(ifindex), log.text());
  return BpfLink::Make(args, std::move(link), DeviceName(ifindex));
}

Napi::Value QueryCgroup(const Napi::CallbackInfo& info) {
  Args args(info, "queryCgroup");
  std::string path = args.GetString(0, "cgroup");
  uint32_t attach_type = args.GetUint32(1, "attachType");
  if (IsDeviceAttachment(attach_type))
    throw OutOfRange(info.Env(), "queryCgroup", "attachType must be one of a cgroup");
  UniqueFd cgroup = OpenDirectory(args, path);
  return Query(args, cgroup.get(), attach_type, path);
}

Napi::Value QueryTcx(const Napi::CallbackInfo& info) {
  Args args(info, "queryTcx");
  int ifindex = args.GetIfindex(0);
  bool ingress = IsIngress(args, 1);
  return Query(args, ifindex, ingress ? kAttachTcxIngress : kAttachTcxEgress, DeviceName(ifindex));
}

}  // namespace waggle
