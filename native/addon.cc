// SPDX-License-Identifier: Apache-2.0
//
// The addon's exports, by the names of `Native` in src/ebpf/native.ts: bytes and file
// descriptors, no map of ours, no policy, no logging.
#include <bpf/libbpf.h>
#include <napi.h>

#include <string>

#include "attach.h"
#include "bpffs.h"
#include "btf.h"
#include "clsact.h"
#include "device.h"
#include "errors.h"
#include "link.h"
#include "map.h"
#include "netlink_watch.h"
#include "netns.h"
#include "network.h"
#include "object.h"
#include "program.h"
#include "ring_buffer.h"
#include "watch.h"

namespace waggle {
namespace {

Napi::Value PossibleCpus(const Napi::CallbackInfo& info) {
  int cpus = libbpf_num_possible_cpus();
  if (cpus < 0) throw SystemError(info.Env(), -cpus, "libbpf_num_possible_cpus", "");
  return Napi::Number::New(info.Env(), cpus);
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new EnvData());
  RouteLibbpfMessages();
  BpfMap::Init(env);
  BpfProgram::Init(env);
  BpfLink::Init(env);
  BpfObject::Init(env);
  Watch::Init(env);

  auto version = std::to_string(libbpf_major_version()) + "." + std::to_string(libbpf_minor_version());
  exports.Set("libbpfVersion", version);
  const std::pair<const char*, Napi::Value (*)(const Napi::CallbackInfo&)> functions[] = {
      {"possibleCpus", PossibleCpus},
      {"openObject", OpenObject},
      {"openMap", OpenMap},
      {"openProgram", OpenProgram},
      {"openLink", OpenLink},
      {"createMap", CreateMap},
      {"attachCgroup", AttachCgroup},
      {"attachTcx", AttachTcx},
      {"attachXdp", AttachXdp},
      {"attachClsact", AttachClsact},
      {"detachClsact", DetachClsact},
      {"queryClsact", QueryClsact},
      {"queryCgroup", QueryCgroup},
      {"queryTcx", QueryTcx},
      {"queryDevice", QueryDevice},
      {"openRingBuffer", OpenRingBuffer},
      {"openNetlinkWatch", OpenNetlinkWatch},
      {"readNetwork", ReadNetwork},
      {"readBtf", ReadBtf},
      {"inNetns", InNetns},
      {"netnsInode", NetnsInode},
      {"netnsCookie", NetnsCookie},
      {"ifNameToIndex", IfNameToIndex},
      {"mountBpffs", MountBpffs},
  };
  for (const auto& [name, function] : functions) exports.Set(name, Napi::Function::New(env, function, name));
  return exports;
}

NODE_API_MODULE(waggle_native, Init)

}  // namespace
}  // namespace waggle
