#!/bin/sh
# Checks the model of the flat flow table: test/flat-table/check.sh [-a] [name...]; one line a configuration.
# ok = no error in all states that there are; caught = broken on purpose, and it was seen. -a: the large ones, too.
# Exit status 1 when one of them is not what it should be. Needs spin and gcc; 4 GB with -a.
cd "$(dirname "$0")" || exit 1
all=
[ "$1" = -a ] && { all=1; shift; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
only="$*"
bad=0

check() { # name expectation [large]; the configuration comes on stdin and goes in front of the model
	name=$1 want=$2 large=$3
	dir=$work/$name
	mkdir -p "$dir"
	{ cat; cat flow_table.pml; } >"$dir/m.pml"
	if [ -n "$only" ]; then
		case " $only " in *" $name "*) ;; *) return ;; esac
	elif [ -n "$large" ] && [ -z "$all" ]; then
		return
	fi
	(cd "$dir" && spin -a m.pml >spin.log 2>&1 && gcc -O2 -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM=6000 -w -o pan pan.c) ||
		{ echo "$name: cannot be compiled"; cat "$dir/spin.log"; bad=1; return; }
	(cd "$dir" && timeout 900 ./pan -m3000000 -n >pan.log 2>&1) || echo "aborting: status $?" >>"$dir/pan.log"
	log=$dir/pan.log
	if grep -qE 'out of memory|max search depth|aborting|hit memory|exceeds' "$log"; then got=INCOMPLETE
	elif grep -q 'errors: 0' "$log"; then got=ok
	else got=caught; fi
	mark=
	[ "$got" = "$want" ] || { mark='<-- not as expected'; bad=1; }
	printf '%-20s %-10s %11s states %7s s  %s %s\n' "$name" "$got" "$(awk '/states, stored/ {print $1; exit}' "$log")" \
		"$(sed -n 's/.*elapsed time \([0-9.e+]*\).*/\1/p' "$log")" "$(grep -m1 -oE '^pan:1: .*' "$log" | cut -c8-67)" "$mark"
}

# Keys 0 2 4 have home bucket 0, keys 1 3 5 home bucket 1.

### the same key at once
check same-key-2 ok <<'E2'
#define NP 2
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1)
#define EXPECT (live==1 && ok_ins==1)
E2
check same-both-keys ok <<'E2'
#define NP 2
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,0,1,1)
#define EXPECT (live==1 && ok_ins==1)
E2
check same-reply-key ok <<'E2'
#define NP 2
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,2,1,1)
#define EXPECT (live==1 && ok_ins==1)
E2
check crossed-keys ok <<'E2'
#define NP 2
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,1,0,1)
#define EXPECT (live==1 && ok_ins==1)
E2
check same-key-3 ok large <<'E2'
#define MERGE_LOADS
#define NP 3
#define S 3
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1); run prog(INS,0,5,2)
#define EXPECT (live==1 && ok_ins==1)
E2
check conflict-circle ok large <<'E2'
#define MERGE_LOADS
#define NP 3
#define S 4
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,1,2,1); run prog(INS,2,0,2)
#define EXPECT (live==ok_ins && ok_ins==1)
E2

### the home bucket is full: one copy may sit there, the other elsewhere
check overflow-race ok large <<'E2'
#define NP 3
#define SETUP preload(1,2,4,CONF)
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1); run prog(DEL,2,0,2)
#define EXPECT (live==ok_ins && ok_ins<=1 && (!nofail || ok_ins==1))
E2
check stable-lookup ok <<'E2'
#define NP 3
#define NREC 4
#define SETUP preload(1,2,4,CONF); preload(2,0,1,CONF)
#define PROGS run prog(DEL,2,0,0); run prog(INS,4,2,1); run prog(MUST,0,0,2)
#define EXPECT (live>=1+ok_ins)
E2

### ended, and the record taken again under a reader
check reuse ok <<'E2'
#define NP 3
#define NREC 2
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2)
#define EXPECT (live>=ok_ins)
E2
check reuse-twice ok large <<'E2'
#define NP 4
#define NREC 2
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2); run prog(INS,4,5,3)
#define EXPECT (live>=ok_ins)
E2
check reuse-same-key ok <<'E2'
#define NP 3
#define NREC 2
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,0,3,2)
#define EXPECT (live>=ok_ins)
E2
check reuse-contested ok large <<'E2'
#define NP 4
#define NREC 2
#define MERGE_LOADS
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(DEL,0,0,0); run prog(INS,0,3,1); run prog(INS,0,5,2); run prog(LOOK,0,0,3)
#define EXPECT (live<=1)
E2
check end-same-key ok large <<'E2'
#define NP 3
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(DEL,1,0,0); run prog(INS,0,1,1); run prog(INS,0,3,2)
#define EXPECT (live<=1 && live>=ok_ins-1)
E2
check two-end ok <<'E2'
#define NP 4
#define NREC 2
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(DEL,0,0,0); run prog(DEL,1,0,1); run prog(SWEEP,1,0,2); run prog(INS,0,1,3)
#define EXPECT (live<=1)
E2

### unconfirmed flows make room
check evict-confirm ok <<'E2'
#define NP 3
#define NREC 2
#define EVICT
#define SETUP preload(1,0,1,HALF); preload(2,2,3,CONF)
#define PROGS run prog(PROM,0,0,0); run prog(INS,4,5,1); run prog(LOOK,1,0,2)
#define EXPECT (live>=1 && ST(ctl[2])==CONF)
E2
check evict-evict ok large <<'E2'
#define NP 3
#define NREC 2
#define S 3
#define EVICT
#define SETUP preload(1,0,1,HALF); preload(2,2,3,CONF)
#define PROGS run prog(PROM,0,0,0); run prog(INS,4,5,1); run prog(INS,4,7,2)
#define EXPECT (live<=3 && ST(ctl[2])==CONF)
E2
check evict-lookup ok <<'E2'
#define NP 3
#define NREC 2
#define EVICT
#define LOOKS 1
#define SETUP preload(1,0,1,HALF)
#define PROGS run prog(LOOK,0,0,0); run prog(INS,0,3,1); run prog(LOOK,1,0,2)
#define EXPECT (live>=ok_ins)
E2

### one of the two keys finds no place
check half-fails ok <<'E2'
#define NP 3
#define S 1
#define SETUP skip
#define PROGS run prog(INS,0,2,0); run prog(INS,0,4,1); run prog(LOOK,0,0,2)
#define EXPECT (live==ok_ins && ok_ins<=1)
E2
check half-fails-collide ok <<'E2'
#define NP 2
#define SETUP preload(1,1,3,CONF)
#define PROGS run prog(INS,0,2,0); run prog(INS,0,4,1)
#define EXPECT (live==1+ok_ins && ok_ins<=1)
E2

### broken on purpose: the model has to notice
check BAD-no-abort caught <<'E2'
#define NP 2
#define NO_ABORT
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1)
#define EXPECT true
E2
check BAD-first-look caught <<'E2'
#define NP 3
#define NREC 2
#define NO_FIRST_LOOK
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2)
#define EXPECT true
E2
check BAD-second-look caught <<'E2'
#define NP 3
#define NREC 2
#define NO_SECOND_LOOK
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2)
#define EXPECT true
E2
check BAD-generation caught <<'E2'
#define NP 3
#define NREC 2
#define KEEP_GENERATION
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(LOOK,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2)
#define EXPECT true
E2
check BAD-free-early caught <<'E2'
#define NP 3
#define NREC 2
#define FREE_EARLY
#define SETUP preload(1,0,1,CONF)
#define PROGS run prog(DEL,0,0,0); run prog(INS,3,2,1); run prog(LOOK,3,0,2)
#define EXPECT true
E2
check BAD-blind-store caught <<'E2'
#define NP 3
#define NREC 2
#define BLIND_STORE
#define SETUP preload(1,0,1,HALF)
#define PROGS run prog(PROM,0,0,0); run prog(DEL,0,0,1); run prog(INS,2,3,2)
#define EXPECT true
E2
check BAD-contest-home caught <<'E2'
#define NP 3
#define CONTEST_HOME_ONLY
#define SETUP preload(1,2,4,CONF)
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1); run prog(DEL,2,0,2)
#define EXPECT true
E2
check BAD-offer-early caught <<'E2'
#define OFFER_EARLY
#define NP 3
#define NREC 2
#define S 3
#define SETUP skip
#define PROGS run prog(INS,0,1,0); run prog(INS,0,3,1); run prog(INS,2,5,2)
#define EXPECT true
E2
exit $bad
