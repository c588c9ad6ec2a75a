// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "bytes.h"
#include "kernel.h"

namespace waggle {
namespace {

// Room by which a program may lengthen its packet in a test run; a packet is at most
// 64 KiB.
constexpr size_t kGrowth = 64 * 1024;

// More than any context struct; the kernel reports the true size.
constexpr size_t kContextRoom = 4096;

std::string HexTag(const uint8_t* tag) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < BPF_TAG_SIZE; i++) {
    text += digits[tag[i] >> 4];
    text += digits[tag[i] & 15];
  }
  return text;
}

// These take a context but never give one back: the kernel refuses a buffer for it.
bool GivesContextBack(uint32_t type) { return type != BPF_PROG_TYPE_RAW_TRACEPOINT && type != BPF_PROG_TYPE_SYSCALL; }

}  // namespace

void BpfProgram::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&BpfProgram::TestRun>("testRun"),
                                InstanceMethod<&BpfProgram::PinAt>("pin"),
                                InstanceMethod<&BpfProgram::Close>("close"),
                            }));
}

BpfProgram::BpfProgram(const Napi::CallbackInfo& info) : Handle(info) {}

Napi::Object BpfProgram::Make(const Args& args, UniqueFd fd) {
  Napi::Env env = args.env();
  bpf_prog_info facts = InfoOf<bpf_prog_info>(args, fd.get(), "program");
  Napi::Object about = Napi::Object::New(env);
  about.Set("name", std::string(facts.name));
  about.Set("id", Napi::Number::New(env, facts.id));
  about.Set("type", Napi::Number::New(env, facts.type));
  about.Set("tag", HexTag(facts.tag));
  about.Set("verifiedInstructions", Napi::Number::New(env, facts.verified_insns));
  about.Freeze();

  ProgramState state;
  state.fd = std::move(fd);
  state.name = facts.name;
  state.id = facts.id;
  state.type = facts.type;
  Napi::Object program = New(env, std::move(state));
  program.DefineProperty(Napi::PropertyDescriptor::Value("info", about, napi_enumerable));
  return program;
}

Napi::Value BpfProgram::TestRun(const Napi::CallbackInfo& info) {
  Args args(info, "testRun");
  Napi::Env env = info.Env();
  Napi::Object options = args.GetObject(0, "options");
  // Getters may run JavaScript, which could close this handle or shrink an array: all of
  // them first, the state and the bytes after them.
  Napi::Value given_data = options.Get("data");
  Napi::Value given_context = options.Get("ctxIn");
  Napi::Value given_repeat = options.Get("repeat");
  Napi::Value given_flags = options.Get("flags");
  RequireOpen(args);
  uint32_t repeat = given_repeat.IsUndefined() ? 0 : args.ToUint32(given_repeat, "repeat", 1, INT_MAX);
  uint32_t flags = given_flags.IsUndefined() ? 0 : args.ToUint32(given_flags, "flags", 0, UINT32_MAX);
  Bytes data = given_data.IsUndefined() ? Bytes() : args.ToBytes(given_data, "data");
  Bytes context = given_context.IsUndefined() ? Bytes() : args.ToBytes(given_context, "ctxIn");
  if (data.size > kMaxResult || context.size > kMaxResult)
    throw OutOfRange(env, "testRun", "data and ctxIn must have less than 1 GiB");

  LIBBPF_OPTS(bpf_test_run_opts, run, .repeat = static_cast<int>(repeat), .flags = flags);
  ByteBuffer data_out(env, "testRun", state_.name.c_str());
  ByteBuffer context_out(env, "testRun", state_.name.c_str());
  if (data.size) {
    run.data_in = data.data;
    run.data_size_in = static_cast<uint32_t>(data.size);
  }
  // Live frames go where the program sends them.
  if (data.size && !(flags & BPF_F_TEST_XDP_LIVE_FRAMES)) {
    data_out.Reserve(data.size + kGrowth);
    run.data_out = data_out.data();
    run.data_size_out = static_cast<uint32_t>(data_out.capacity());
  }
  if (context.size) {
    run.ctx_in = context.data;
    run.ctx_size_in = static_cast<uint32_t>(context.size);
    if (GivesContextBack(state_.type)) {
      context_out.Reserve(kContextRoom);
      run.ctx_out = context_out.data();
      run.ctx_size_out = kContextRoom;
    }
  }
  if (int error = bpf_prog_test_run_opts(state_.fd.get(), &run))
    throw SystemError(env, -error, "bpf_prog_test_run_opts", state_.name);

  Napi::Object result = Napi::Object::New(env);
  result.Set("retval", Napi::Number::New(env, run.retval));
  result.Set("data", data_out.Take(std::min<size_t>(run.data_size_out, data_out.capacity())));
  result.Set("ctx", context_out.Take(std::min<size_t>(run.ctx_size_out, context_out.capacity())));
  result.Set("duration", Napi::Number::New(env, run.duration));
  return result;
}

Napi::Value BpfProgram::PinAt(const Napi::CallbackInfo& info) {
  Args args(info, "pin");
  RequireOpen(args);
  Pin(args, state_.fd.get(), args.GetString(0, "path"));
  return info.Env().Undefined();
}

Napi::Value BpfProgram::Close(const Napi::CallbackInfo& info) {
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Value OpenProgram(const Napi::CallbackInfo& info) {
  Args args(info, "openProgram");
  return BpfProgram::Make(args, OpenPin(args, args.GetString(0, "path"), FdKind::kProgram));
}

}  // namespace waggle
