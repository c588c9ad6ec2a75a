/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * crc32c.h: arithmetic on CRC32c, the checksum of SCTP (RFC 9260 appendix A). Pure.
 *
 * A CRC is linear: what changes in it follows from the bits that change and from how many
 * bytes come behind them, whatever those say. Each byte multiplies by x^8, modulo the
 * polynomial, in GF(2). So a change is carried over n bytes by multiplying by x^(8n), which
 * is at most one multiplication for each bit of n.
 *
 * Numbers are reflected: bit 31 stands for x^0. Words are as the wire has them in memory:
 * a CRC is little-endian there (RFC 9260 appendix A), so are these machines.
 */
#ifndef WAGGLE_LIB_CRC32C_H
#define WAGGLE_LIB_CRC32C_H

#include <linux/types.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of a CRC are little-endian");

#define CRC32C_POLYNOMIAL 0x82f63b78

/* Bits in the number of bytes that a word is carried over: no IP packet has more. */
#define CRC32C_LENGTH_BITS 16

/* x^(8 * 2^i) modulo the polynomial. */
static const __u32 crc32c_powers[CRC32C_LENGTH_BITS] = {
	0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18, 0x510ac59a,
	0xb82be955, 0xb8fdb1e7, 0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a,
	0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc,
};

/* The product of two numbers. A global function: the verifier looks at it once. */
__noinline __u32 crc32c_multiply(__u32 a, __u32 b)
{
	__u32 product = 0;
	int i;

	for (i = 0; i < 32; i++) {
		product ^= b & -(a >> 31);
		a <<= 1;
		b = (b >> 1) ^ (CRC32C_POLYNOMIAL & -(b & 1));
	}
	return product;
}

/*
 * What 32 bits of a message, with nothing but zeros before them, make of the CRC's register
 * once `bytes` bytes have gone through it, their own four counted and all others zeros.
 */
__noinline __u32 crc32c_carry(__u32 word, __u32 bytes)
{
	__u32 i;

	for (i = 0; i < CRC32C_LENGTH_BITS; i++) {
		if (bytes >> i & 1)
			word = crc32c_multiply(word, crc32c_powers[i]);
	}
	return word;
}

#endif
