// SPDX-License-Identifier: Apache-2.0
#include "clsact.h"

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cerrno>
#include <string>

#include "attach.h"
#include "tc_filter.h"

namespace waggle {
namespace {

std::string PlaceName(const FilterPlace& place) {
  return "ifindex " + std::to_string(place.ifindex) + (place.ingress ? " ingress" : " egress") + " priority " +
         std::to_string(place.priority) + " handle " + std::to_string(place.handle);
}

// ifindex, direction, priority and handle, from the argument at `index` on.
FilterPlace GetPlace(const Args& args, size_t index) {
  FilterPlace place;
  place.ifindex = args.GetIfindex(index);
  place.ingress = IsIngress(args, index + 1);
  place.priority = static_cast<uint16_t>(args.GetUint32(index + 2, "priority", 1, UINT16_MAX));
  place.handle = args.GetUint32(index + 3, "handle", 1);
  return place;
}

bool SameName(const std::string& a, const std::string& b) {
  return a.compare(0, BPF_OBJ_NAME_LEN - 1, b, 0, BPF_OBJ_NAME_LEN - 1) == 0;
}

bpf_tc_hook Hook(const FilterPlace& place) {
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = place.ifindex,
              .attach_point = place.ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS);
  return hook;
}

}  // namespace

Napi::Value AttachClsact(const Napi::CallbackInfo& info) {
  Args args(info, "attachClsact");
  Napi::Env env = info.Env();
  BpfProgram& program = BpfProgram::From(args, info[0], "program");
  FilterPlace place = GetPlace(args, 1);
  RequireType(args, program, BPF_PROG_TYPE_SCHED_CLS);

  bpf_tc_hook hook = Hook(place);
  {
    // A qdisc that is there already is reported as an error and a message; it is none.
    LogCapture log;
    int error = bpf_tc_hook_create(&hook);
    if (error && error != -EEXIST) throw SystemError(env, -error, "bpf_tc_hook_create", PlaceName(place), log.text());
  }
  std::optional<Filter> present = FindFilter(args, place);
  if (present && !SameName(present->program_name, program.name()))
    throw SystemError(env, EEXIST, "attachClsact", PlaceName(place), "held by program " + present->program_name);

  LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = program.state().fd.get(), .flags = BPF_TC_F_REPLACE,
              .handle = place.handle, .priority = place.priority);
  LogCapture log;
  if (int error = bpf_tc_attach(&hook, &options))
    throw SystemError(env, -error, "bpf_tc_attach", PlaceName(place), log.text());
  return env.Undefined();
}

Napi::Value DetachClsact(const Napi::CallbackInfo& info) {
  Args args(info, "detachClsact");
  Napi::Env env = info.Env();
  FilterPlace place = GetPlace(args, 0);
  std::string name = args.GetString(4, "programName");
  std::optional<Filter> present = FindFilter(args, place);
  if (!present || !SameName(present->program_name, name)) return Napi::Boolean::New(env, false);

  bpf_tc_hook hook = Hook(place);
  LIBBPF_OPTS(bpf_tc_opts, options, .handle = place.handle, .priority = place.priority);
  LogCapture log;
  int error = bpf_tc_detach(&hook, &options);
  if (error && error != -ENOENT) throw SystemError(env, -error, "bpf_tc_detach", PlaceName(place), log.text());
  return Napi::Boolean::New(env, error == 0);
}

Napi::Value QueryClsact(const Napi::CallbackInfo& info) {
  Args args(info, "queryClsact");
  std::optional<Filter> present = FindFilter(args, GetPlace(args, 0));
  if (!present) return info.Env().Undefined();
  Napi::Object found = Napi::Object::New(info.Env());
  found.Set("programId", Napi::Number::New(info.Env(), present->program_id));
  return found;
}

}  // namespace waggle
