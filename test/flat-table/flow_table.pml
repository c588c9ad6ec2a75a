/*
 * flow_table.pml: table.h as a model for spin (Promela).
 *
 * One process is one run of a program: insertion, look-up, confirmation, end. Every access
 * to shared memory is a step of its own; only what one machine instruction does is atomic.
 * All tags are equal, the worst case: each word of a bucket must be compared by its record.
 * A program may stop for good at no step, but may be overtaken at each.
 *
 * Nothing waits for programs that are under way: a record that was given back is taken
 * again at once, under the eyes of who still looks at it.
 *
 * Configurations, and the ways to break it on purpose: check.sh.
 */
#ifndef NREC
#define NREC 3		/* records 1..NREC */
#endif
#ifndef S
#define S 2		/* words a bucket */
#endif
#define NB 2		/* buckets; every key has a home and one other bucket */
#ifndef LOOKS
#define LOOKS NREC	/* records that an insertion asks for a place */
#endif

#define HOME(k)		((k) % NB)
#define POS(k, p)	(((p) < S -> HOME(k) : (NB - 1 - HOME(k))) * S + (p) % S)
#define WORD(r, dir)	((r) * 2 + (dir))
#define REC(w)		((w) / 2)
#define KEY(w)		((w) % 2 -> kr[(w) / 2] : kf[(w) / 2])
#define OTHER(w)	((w) % 2 -> kf[(w) / 2] : kr[(w) / 2])

/* States of a record; its control word is generation and state. */
#define FREE 0		/* nobody's */
#define TAKEN 6		/* an inserter's, which writes its keys */
#define TENT 1		/* its keys are there, and it is not decided yet */
#define ABRT 2		/* refused by another inserter; still its inserter's */
#define HALF 3		/* live, unconfirmed */
#define CONF 4		/* live, confirmed */
#define DEAD 5		/* ended; whoever moved it here takes its words out */
#define CTL(g, s)	((g) * 8 + (s))
#define ST(c)		((c) % 8)
#define GEN(c)		((c) / 8)
#define LIVE(c)		(ST(c) == HALF || ST(c) == CONF)

byte ctl[NREC + 1], kf[NREC + 1], kr[NREC + 1];
byte slot[NB * S];
byte over[NB];		/* keys of this home that sit elsewhere */

byte done;
byte owner[NREC + 1];	/* ghost: who may write the keys, 1 + number of the process */
byte ok_ins, evictions, nofail = 1;	/* ghosts */

inline unlink(k, w)	/* the caller owns record REC(w) */
{
	u = 0;
	do
	:: u < 2 * S ->
		if
		:: slot[POS(k, u)] == w ->
			slot[POS(k, u)] = 0;
			if
			:: u >= S -> over[HOME(k)]--
			:: else
			fi;
			break
		:: else -> u++
		fi
	:: else -> break
	od;
	u = 0
}

inline cas(r, from, to, yes)
{
	d_step {
		if
		:: ctl[r] == (from) -> ctl[r] = (to); yes = 1
		:: else -> yes = 0
		fi
	}
}

/* Ends record r, which was seen with control word c. */
inline end(r, c, yes)
{
	cas(r, c, CTL(GEN(c), DEAD), yes);
	if
	:: yes ->
		assert(owner[r] == 0);
		owner[r] = me + 1;
#ifdef FREE_EARLY	/* given back before the words are gone: two plain stores on arm64 */
		owner[r] = 0;
		ctl[r] = CTL(GEN(ctl[r]), FREE);
#endif
		unlink(kf[r], WORD(r, 0));
		unlink(kr[r], WORD(r, 1));
#ifndef FREE_EARLY
		owner[r] = 0;
		ctl[r] = CTL(GEN(ctl[r]), FREE)
#endif
	:: else
	fi
}

/*
 * out = word, 0 if there is none; outc = its control word. Control word, keys, control
 * word again: what was read between two looks of one generation is of that generation.
 */
inline lookup(k, out, outc)
{
	out = 0; outc = 0; p = 0;
	do
	:: p == S && over[HOME(k)] == 0 -> break
	:: p == 2 * S -> break
	:: else ->
		w = slot[POS(k, p)];
		if
		:: w != 0 ->
#ifdef NO_FIRST_LOOK
			x = KEY(w); y = OTHER(w); c = ctl[REC(w)];
#else
			c = ctl[REC(w)]; x = KEY(w); y = OTHER(w);
#endif
			d_step {
#ifdef NO_SECOND_LOOK
				if
				:: x == k && LIVE(c) ->
#else
				if
				:: x == k && LIVE(c) && LIVE(ctl[REC(w)]) && GEN(ctl[REC(w)]) == GEN(c) ->
#endif
					/* the flow that was copied is the one that is there */
					assert(LIVE(ctl[REC(w)]) && KEY(w) == k && OTHER(w) == y);
					out = w;
					outc = ctl[REC(w)]
				:: else
				fi
			};
			if
			:: out != 0 -> break
			:: else
			fi
		:: else
		fi;
		p++
	od;
	p = 0; w = 0; c = 0; x = 0; y = 0
}

/* A record for a new flow, or 0: free, or of a flow that has to go. Starts anywhere, as the hand does. */
inline claim(out)
{
	out = 0; h = 0;
	if
	:: o = 1 :: o = 2 :: o = NREC
	fi;
	do
	:: h == LOOKS -> break
	:: else ->
		c = ctl[o];
#ifdef EVICT
		if
		:: ST(c) == HALF -> end(o, c, yes); if :: yes -> evictions++; c = CTL(GEN(c), FREE) :: else fi
		:: else
		fi;
#endif
		if
		:: ST(c) == FREE ->
			cas(o, c, CTL(GEN(c), TAKEN), yes);
			if
			:: yes -> assert(owner[o] == 0); owner[o] = me + 1; out = o; break
			:: else
			fi
		:: else
		fi;
		h++;
		o = (o == NREC -> 1 : o + 1)
	od;
	h = 0; c = 0; o = 0; yes = 0
}

inline put(k, wd, yes)
{
	yes = 0; p = 0;
	do
	:: p == 2 * S -> over[HOME(k)]--; break
	:: p < 2 * S ->
		if
		:: p == S -> over[HOME(k)]++	/* before the word, so that nobody misses it */
		:: else
		fi;
		d_step {
			if
			:: slot[POS(k, p)] == 0 -> slot[POS(k, p)] = wd; yes = 1
			:: else
			fi
		};
		if
		:: yes -> break
		:: else -> p++
		fi
	od;
	p = 0
}

/* After publishing: may record n stand as the only one with key k? */
inline contest(k)
{
	p = 0;
	do
	:: lose != 0 -> break
#ifdef CONTEST_HOME_ONLY
	:: p == S -> break
#endif
	:: p == S && over[HOME(k)] == 0 -> break
	:: p == 2 * S -> break
	:: else ->
		w = slot[POS(k, p)];
		if
		:: w != 0 && REC(w) != n ->
			o = REC(w);
#ifdef MERGE_LOADS	/* a smaller state space; the other configurations take them apart */
			d_step { c = ctl[o]; x = KEY(w); y = ctl[o] };
#else
			c = ctl[o];
			x = KEY(w);
			y = ctl[o];
#endif
			if
			:: x == k && (ST(c) == TENT || LIVE(c)) && GEN(y) == GEN(c) ->
				if
				:: LIVE(y) -> lose = 1
				:: ST(y) == TENT && o < n -> lose = 2
				:: ST(y) == TENT && o > n ->
					d_step {
						if
						:: ctl[o] == y ->
							assert(KEY(w) == k);	/* nobody else is refused */
#ifndef NO_ABORT
							ctl[o] = CTL(GEN(y), ABRT)
#endif
						:: else -> if :: LIVE(ctl[o]) -> lose = 1 :: else fi
						fi	/* the failed swap returns what it saw */
					}
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		p++
	od;
	p = 0; w = 0; c = 0; x = 0; y = 0; o = 0
}

/* The strong invariant, checked at the only step that makes a record live. */
inline assert_only_one(r)
{
	o = 1;
	do
	:: o <= NREC ->
		assert(o == r || !LIVE(ctl[o]) || (kf[o] != kf[r] && kf[o] != kr[r] && kr[o] != kf[r] && kr[o] != kr[r]));
		o++
	:: else -> break
	od;
	o = 0
}

inline insert(F, R)
{
	claim(n);
	if
	:: n == 0 -> nofail = 0
	:: else ->
#ifdef KEEP_GENERATION
		g = GEN(ctl[n]);
#else
		g = GEN(ctl[n]) + 1;
#endif
		assert(ST(ctl[n]) == TAKEN && owner[n] == me + 1);
#ifdef OFFER_EARLY
		ctl[n] = CTL(g, TENT);
#endif
		kf[n] = F;
		kr[n] = R;
		ctl[n] = CTL(g, TENT);
		lose = 0;
		put(F, WORD(n, 0), pf);
		if
		:: pf -> put(R, WORD(n, 1), pr)
		:: else
		fi;
		if
		:: !pf || !pr -> lose = 3; nofail = 0
		:: else -> contest(F); contest(R)
		fi;
		if
		:: lose == 0 ->
			d_step {
				if
				:: ctl[n] == CTL(g, TENT) ->
					ctl[n] = CTL(g, HALF);
					owner[n] = 0;
					ok_ins++;
					assert_only_one(n)
				:: else -> lose = 2	/* refused by a lower record */
				fi
			}
		:: else
		fi;
		if
		:: lose != 0 ->			/* withdraw */
			ctl[n] = CTL(g, DEAD);
			if :: pf -> unlink(F, WORD(n, 0)) :: else fi;
			if :: pr -> unlink(R, WORD(n, 1)) :: else fi;
			owner[n] = 0;
			ctl[n] = CTL(g, FREE)
		:: else
		fi;
		pf = 0; pr = 0; g = 0; yes = 0; lose = 0; n = 0
	fi
}

#define INS 0
#define LOOK 1
#define PROM 2
#define DEL 3
#define MUST 4		/* look up a flow that nobody ends: it has to be found */
#define SWEEP 5		/* end whatever flow record F holds, as the agent's rounds do */

proctype prog(byte op; byte F; byte R; byte me)
{
	byte n, g, p, u, w, c, x, y, o, h, res, resc;
	byte lose;
	bool pf, pr, yes;

	if
	:: op == INS -> insert(F, R)
	:: op == SWEEP ->
		c = ctl[F];
		if
		:: LIVE(c) -> end(F, c, yes)
		:: else
		fi
	:: op != INS && op != SWEEP ->
		lookup(F, res, resc);
		if
		:: res == 0 -> assert(op != MUST)
		:: res != 0 && (op == LOOK || op == MUST) -> skip
		:: res != 0 && op == PROM ->
#ifdef BLIND_STORE	/* what a packet has to say stored, not swapped in */
			ctl[REC(res)] = CTL(GEN(resc), CONF);
			assert(KEY(res) == F)
#else
			d_step {
				if
				:: ctl[REC(res)] == CTL(GEN(resc), HALF) ->
					ctl[REC(res)] = CTL(GEN(resc), CONF);
					assert(KEY(res) == F)	/* of the right flow */
				:: else
				fi
			}
#endif
		:: res != 0 && op == DEL -> end(REC(res), resc, yes)
		fi
	fi;
	d_step { res = 0; resc = 0; n = 0; c = 0; yes = 0; done++ }
}

inline preload(r, F, R, state)	/* a live flow that was there before */
{
	ctl[r] = CTL(0, state); kf[r] = F; kr[r] = R;
	put(F, WORD(r, 0), yes); put(R, WORD(r, 1), yes)
}

init {
	byte n, p, m, words, u, live;
	bool yes;

	atomic { SETUP; yes = 0; n = 0 }
	atomic { PROGS }

	/* quiescent: everything has ended */
	(done == NP);
	d_step {
		n = 1; m = 0; words = 0;
		do
		:: n <= NREC ->
			assert(owner[n] == 0);
			if
			:: LIVE(ctl[n]) ->
				words = words + 2;
				live++;
				m = 1;
				do	/* no other live record holds one of its keys */
				:: m <= NREC ->
					assert(m == n || !LIVE(ctl[m]) || (kf[m] != kf[n] && kf[m] != kr[n] && kr[m] != kf[n] && kr[m] != kr[n]));
					m++
				:: else -> break
				od
			:: else -> assert(ST(ctl[n]) == FREE)		/* nothing is lost */
			fi;
			n++
		:: else -> break
		od;
		/* as many words as live records ask for, and true overflow counts */
		p = 0; m = 0;
		do :: p < NB * S -> if :: slot[p] != 0 -> m++; assert(LIVE(ctl[REC(slot[p])])) :: else fi; p++ :: else -> break od;
		assert(m == words);
		p = 0;
		do
		:: p < NB ->
			m = 0; u = 0;
			do
			:: u < S ->	/* words in the other bucket whose home is p */
				if :: slot[(NB - 1 - p) * S + u] != 0 && HOME(KEY(slot[(NB - 1 - p) * S + u])) == p -> m++ :: else fi;
				u++
			:: else -> break
			od;
			assert(over[p] == m);
			p++
		:: else -> break
		od;
		assert(EXPECT)
	}
}
