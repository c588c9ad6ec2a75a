// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <bpf/libbpf.h>
#include <uv.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace waggle {
namespace {

// The verifier may print megabytes; its last lines say what it objects to.
constexpr size_t kLogLimit = 256 * 1024;

// The kernel's own "not supported", which user-space headers do not know.
constexpr int kKernelNotSupported = 524;

thread_local LogCapture* innermost = nullptr;

int Print(enum libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG || !innermost) return 0;
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length <= 0) return 0;
  char* text = static_cast<char*>(malloc(static_cast<size_t>(length) + 1));
  if (!text) return 0;
  vsnprintf(text, static_cast<size_t>(length) + 1, format, arguments);
  innermost->Append(text, static_cast<size_t>(length));
  free(text);
  return length;
}

struct NamedError {
  int error;
  const char* name;
  const char* message;
};

constexpr NamedError kNamed[] = {
    {kKernelNotSupported, "ENOTSUPP", "operation is not supported by this kernel object"},
    {LIBBPF_ERRNO__LIBELF, "LIBBPF_ERRNO__LIBELF", "something wrong in libelf"},
    {LIBBPF_ERRNO__FORMAT, "LIBBPF_ERRNO__FORMAT", "BPF object format invalid"},
    {LIBBPF_ERRNO__KVERSION, "LIBBPF_ERRNO__KVERSION", "incorrect or no 'version' section"},
    {LIBBPF_ERRNO__ENDIAN, "LIBBPF_ERRNO__ENDIAN", "endian mismatch"},
    {LIBBPF_ERRNO__INTERNAL, "LIBBPF_ERRNO__INTERNAL", "internal error in libbpf"},
    {LIBBPF_ERRNO__RELOC, "LIBBPF_ERRNO__RELOC", "relocation failed"},
    {LIBBPF_ERRNO__LOAD, "LIBBPF_ERRNO__LOAD", "load program failure for unknown reason"},
    {LIBBPF_ERRNO__VERIFY, "LIBBPF_ERRNO__VERIFY", "kernel verifier blocks program loading"},
    {LIBBPF_ERRNO__PROG2BIG, "LIBBPF_ERRNO__PROG2BIG", "program too big"},
    {LIBBPF_ERRNO__KVER, "LIBBPF_ERRNO__KVER", "incorrect kernel version"},
    {LIBBPF_ERRNO__PROGTYPE, "LIBBPF_ERRNO__PROGTYPE", "kernel doesn't support this program type"},
    {LIBBPF_ERRNO__WRNGPID, "LIBBPF_ERRNO__WRNGPID", "wrong pid in netlink message"},
    {LIBBPF_ERRNO__INVSEQ, "LIBBPF_ERRNO__INVSEQ", "invalid netlink sequence"},
    {LIBBPF_ERRNO__NLPARSE, "LIBBPF_ERRNO__NLPARSE", "netlink parsing error"},
};

struct Described {
  std::string name;
  std::string message;
};

Described Describe(int error) {
  for (const NamedError& named : kNamed)
    if (named.error == error) return {named.name, named.message};
  char text[128];
  uv_err_name_r(-error, text, sizeof(text));
  std::string name = strncmp(text, "Unknown", 7) == 0 ? "ERRNO_" + std::to_string(error) : text;
  uv_strerror_r(-error, text, sizeof(text));
  return {name, text};
}

Napi::Error Decorate(Napi::Error error, const std::string& code, int number, const std::string& syscall,
                     const std::string& object, const std::string& log) {
  Napi::Env env = error.Env();
  Napi::Object value = error.Value();
  value.Set("code", Napi::String::New(env, code));
  value.Set("errno", Napi::Number::New(env, number));
  value.Set("syscall", Napi::String::New(env, syscall));
  value.Set("object", Napi::String::New(env, object));
  value.Set("log", Napi::String::New(env, log));
  return error;
}

}  // namespace

LogCapture::LogCapture() : outer_(innermost) { innermost = this; }

LogCapture::~LogCapture() { innermost = outer_; }

void LogCapture::Append(const char* text, size_t length) noexcept {
  try {
    if (length > kLogLimit) {
      text += length - kLogLimit;
      length = kLogLimit;
    }
    if (text_.size() + length > kLogLimit) text_.erase(0, text_.size() + length - kLogLimit);
    text_.append(text, length);
  } catch (const std::exception&) {
    // Out of memory: the error will be told without its log.
  }
}

void RouteLibbpfMessages() { libbpf_set_print(Print); }

Napi::Error SystemError(Napi::Env env, int error, const char* syscall, const std::string& object,
                        const std::string& log) {
  Described described = Describe(error);
  std::string message = described.name + ": " + described.message + ", " + syscall;
  if (!object.empty()) message += " '" + object + "'";
  return Decorate(Napi::Error::New(env, message), described.name, error, syscall, object, log);
}

Napi::Error WrongType(Napi::Env env, const char* function, const std::string& message) {
  return Decorate(Napi::TypeError::New(env, std::string(function) + ": " + message), "ERR_INVALID_ARG_TYPE", 0,
                  function, "", "");
}

Napi::Error OutOfRange(Napi::Env env, const char* function, const std::string& message) {
  return Decorate(Napi::RangeError::New(env, std::string(function) + ": " + message), "ERR_OUT_OF_RANGE", 0, function,
                  "", "");
}

Napi::Error Closed(Napi::Env env, const char* function, const std::string& object) {
  return Decorate(Napi::Error::New(env, std::string(function) + ": '" + object + "' is closed"), "ERR_CLOSED", 0,
                  function, object, "");
}

}  // namespace waggle
