package tokenprefix

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// keyHeader is the room in front of the block that a keyed chain hashes with it:
// the 32 bytes of the hashed key and the 32 bytes of the value before, together
// one block of SHA-256.
const keyHeader = 2 * sha256.Size

// A chain cuts a stream of bytes into blocks of one size and identifies every
// prefix of whole blocks:
//
//	without a key   h[i] = mix(h[i-1], XXH64(block i))
//	with a key      H[i] = SHA-256(SHA-256(key) ‖ H[i-1] ‖ block i), h[i] = first 8 bytes of H[i]
//
// XXH64 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md) reads about
// 14 GB/s, yet anyone can construct blocks that collide. SHA-256 is about ten
// times slower and leaves nothing to aim with.
//
// Blocks are hashed where they lie; only bytes of a block that is not complete
// at the end of a write are copied.
type chain struct {
	size   int      // bytes in a block
	n      int      // bytes of the open block in buf
	total  int      // bytes written
	keyed  bool     // whether SHA-256 takes the place of XXH64
	sum    uint64   // h[i-1]
	buf    []byte   // keyHeader, then the open block
	blocks []uint64 // h[0:i]
}

// start begins a new chain of blocks of size bytes, seeded with seed. A key of
// length zero is no key. The values of the blocks are appended to dst.
func (c *chain) start(size int, key, seed []byte, dst []uint64) {
	buf := c.buf
	if cap(buf) < keyHeader+size {
		buf = make([]byte, keyHeader+size)
	}
	*c = chain{size: size, keyed: len(key) > 0, buf: buf[:keyHeader+size], blocks: dst}
	if !c.keyed {
		c.sum = xxhash.Sum64(seed)
		return
	}
	k, s := sha256.Sum256(key), sha256.Sum256(seed)
	copy(c.buf, k[:])
	copy(c.buf[sha256.Size:], s[:])
}

// write adds p to the stream.
func (c *chain) write(p []byte) {
	c.total += len(p)
	open := c.buf[keyHeader:]
	if c.n > 0 {
		m := copy(open[c.n:], p)
		c.n += m
		if c.n < c.size {
			return
		}
		p = p[m:]
		c.block(open)
	}
	for len(p) >= c.size {
		c.block(p[:c.size])
		p = p[c.size:]
	}
	c.n = copy(open, p)
}

// writeByte adds one byte to the stream.
func (c *chain) writeByte(b byte) {
	c.total++
	c.buf[keyHeader+c.n] = b
	c.n++
	if c.n == c.size {
		c.block(c.buf[keyHeader:])
		c.n = 0
	}
}

// writeString adds a short text to the stream.
func (c *chain) writeString(s string) {
	for i := range len(s) {
		c.writeByte(s[i])
	}
}

// writeIDs adds token ids to the stream, four bytes each. The size of the block
// and the length of the stream so far must be multiples of four.
func (c *chain) writeIDs(ids []uint32) {
	open := c.buf[keyHeader:]
	for len(ids) > 0 {
		m := min((c.size-c.n)/4, len(ids))
		putIDs(open[c.n:c.n+4*m], ids[:m])
		ids = ids[m:]
		c.n += 4 * m
		c.total += 4 * m
		if c.n == c.size {
			c.block(open)
			c.n = 0
		}
	}
}

// putIDs writes ids to dst, little-endian, two to a store.
func putIDs(dst []byte, ids []uint32) {
	for len(ids) >= 4 && len(dst) >= 16 {
		binary.LittleEndian.PutUint64(dst, uint64(ids[0])|uint64(ids[1])<<32)
		binary.LittleEndian.PutUint64(dst[8:], uint64(ids[2])|uint64(ids[3])<<32)
		dst, ids = dst[16:], ids[4:]
	}
	for i, id := range ids {
		binary.LittleEndian.PutUint32(dst[4*i:], id)
	}
}

// block closes a block with the content b, which has the size of a block.
func (c *chain) block(b []byte) {
	c.sum = c.next(b)
	c.blocks = append(c.blocks, c.sum)
}

// next returns the value that follows in the chain when b is the next block, and
// in a keyed chain moves the header on to it.
func (c *chain) next(b []byte) uint64 {
	if !c.keyed {
		return mix(c.sum, xxhash.Sum64(b))
	}
	copy(c.buf[keyHeader:], b)
	sum := sha256.Sum256(c.buf[:keyHeader+len(b)])
	copy(c.buf[sha256.Size:], sum[:])
	return binary.LittleEndian.Uint64(sum[:])
}

// cut ends the open block where it is and returns the value for everything
// written so far. It differs from the value of every block, full ones included.
// What is written later starts a new block behind it.
func (c *chain) cut() uint64 {
	n := uint64(c.n)
	c.sum = c.next(c.buf[keyHeader : keyHeader+c.n])
	if !c.keyed {
		c.sum = mix(c.sum, n)
	}
	c.n = 0
	return c.sum
}

// tail ends the chain and returns the value for the whole stream, never 0.
func (c *chain) tail() uint64 {
	if t := c.cut(); t != 0 {
		return t
	}
	return 1
}

// mix returns a hash of the pair. For one parent, different blocks have
// different values, and the other way round: the sum is a bijection in each
// argument, and so is the finalizer (that of SplitMix64, Steele, Lea and Flood,
// OOPSLA 2014).
func mix(parent, block uint64) uint64 {
	x := bits.RotateLeft64(parent, 23)*0x9e3779b97f4a7c15 + block
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
