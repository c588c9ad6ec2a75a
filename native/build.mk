# The addon: included by the Makefile, which sets B CC CXX LIBBPF NODE_INC NAPI_INC UV_INC.
#
#   $(B)/waggle_native.node        what ships
#   $(B)/asan/waggle_native.node   the same under AddressSanitizer, for the misuse tests

NATIVE_CC      := $(wildcard native/*.cc)
NATIVE_HEADERS := $(wildcard native/*.h)

# Asked of node once, and only when something is compiled.
NATIVE_INC = $(eval NATIVE_INC := -isystem $(NODE_INC) -isystem $(NAPI_INC) -isystem $(UV_INC))$(NATIVE_INC)

NATIVE_WARN     := -Wall -Wextra -Werror
NATIVE_CFLAGS   := -O2 -g -fPIC -fvisibility=hidden $(NATIVE_WARN)
NATIVE_CXXFLAGS := -std=c++17 -O2 -g -fPIC -fvisibility=hidden $(NATIVE_WARN) \
  -DNAPI_VERSION=8 -DNODE_ADDON_API_CPP_EXCEPTIONS_ALL -DNODE_ADDON_API_DISABLE_DEPRECATED \
  -DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
NATIVE_LDFLAGS  := -shared -Wl,-Bsymbolic -Wl,-z,now
NATIVE_ASAN     := -fsanitize=address -fno-omit-frame-pointer

# Debian's archives are PIE, not PIC: static_shim.c stands in for the two members that a
# shared object cannot take. The dynamic libz could be interposed by node's own copy.
NATIVE_ARCHIVE = $(shell $(CC) -print-file-name=$1)
ifeq ($(LIBBPF),static)
NATIVE_SHIM := static_shim.o
NATIVE_LIBS  = -Wl,--wrap=stderr -Wl,--exclude-libs,ALL \
  $(foreach lib,libbpf.a libelf.a libz.a,$(call NATIVE_ARCHIVE,$(lib)))
else ifeq ($(LIBBPF),dynamic)
NATIVE_SHIM :=
NATIVE_LIBS  = -lbpf
else
$(error LIBBPF is "$(LIBBPF)"; it may be static or dynamic)
endif

NATIVE_OBJECTS := $(NATIVE_CC:native/%.cc=%.o) $(NATIVE_SHIM)

# The variant is part of the path, so that switching it never mixes objects.
NATIVE_DIR      := $(B)/native/$(LIBBPF)
NATIVE_ASAN_DIR := $(B)/native/$(LIBBPF)-asan

$(NATIVE_DIR)/%.o: native/%.cc native/build.mk | node_modules/.package-lock.json
	@mkdir -p $(@D)
	$(CXX) $(NATIVE_CXXFLAGS) $(NATIVE_INC) -MMD -MP -c $< -o $@

$(NATIVE_DIR)/%.o: native/%.c native/build.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) -MMD -MP -c $< -o $@

$(NATIVE_ASAN_DIR)/%.o: native/%.cc native/build.mk | node_modules/.package-lock.json
	@mkdir -p $(@D)
	$(CXX) $(NATIVE_CXXFLAGS) $(NATIVE_ASAN) $(NATIVE_INC) -MMD -MP -c $< -o $@

$(NATIVE_ASAN_DIR)/%.o: native/%.c native/build.mk
	@mkdir -p $(@D)
	$(CC) $(NATIVE_CFLAGS) $(NATIVE_ASAN) -MMD -MP -c $< -o $@

# Linked beside and moved into place: a process that has the old one loaded keeps it.
$(B)/waggle_native.node: $(addprefix $(NATIVE_DIR)/,$(NATIVE_OBJECTS))
	$(CXX) -o $@.new $^ $(NATIVE_LDFLAGS) $(NATIVE_LIBS)
	@mv $@.new $@

$(B)/asan/waggle_native.node: $(addprefix $(NATIVE_ASAN_DIR)/,$(NATIVE_OBJECTS))
	@mkdir -p $(@D)
	$(CXX) $(NATIVE_ASAN) -o $@.new $^ $(NATIVE_LDFLAGS) $(NATIVE_LIBS)
	@mv $@.new $@

-include $(wildcard $(NATIVE_DIR)/*.d $(NATIVE_ASAN_DIR)/*.d)
