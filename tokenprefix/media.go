package tokenprefix

import "encoding/binary"

// mediaTokens is what an image, a video or an audio part counts for in
// Signature.Tokens and in Signature.Blocks. Models take from 256 tokens an image
// (Gemma 3) to 1,337 (Qwen2-VL at one megapixel, 28 × 28 pixels a token); only a
// decoder of the image could tell.
const mediaTokens = 1024

// mediaBlock is the size of the blocks that media is hashed in, in bytes.
const mediaBlock = 1024

// media is what an encoder knows about the parts of a prompt that are no text.
type media struct {
	chain  chain // of the part being read
	count  int   // parts seen
	filled int   // bytes of the stream that stand for them
}

// isMediaPart reports whether parts of this type are taken as media.
func isMediaPart(kind []byte) bool {
	switch string(kind) {
	case "image", "image_url", "input_image", "image_embeds",
		"video", "video_url", "audio", "audio_url", "input_audio",
		"file", "input_file":
		return true
	}
	return false
}

// mediaPart writes a digest in the place of the part v, again and again until it
// takes as many bytes as the tokens that the part counts for: positions in the
// stream stay near to positions in the engine's cache, however large the file.
// The digest covers the bytes as sent; nothing is decoded or fetched, so a URL
// counts with its query.
func (e *encoder) mediaPart(v span) {
	digest := e.digest(v)
	e.leading = false
	e.writeByte(tagMedia)
	var fill [256]byte
	for i := 0; i < len(fill); i += 8 {
		binary.LittleEndian.PutUint64(fill[i:], digest)
	}
	e.media.count++
	for n := e.mediaFill(); n > 0; {
		m := min(n, len(fill))
		e.write(fill[:m])
		e.media.filled += m
		n -= m
	}
}

// mediaFill returns how many bytes stand for one part, at least one digest.
func (e *encoder) mediaFill() int {
	return max(8, int(mediaTokens*e.hasher.configuredTokenBytes()))
}

// digest returns the hash of the value v on a chain of its own.
func (e *encoder) digest(v span) uint64 {
	outer := e.chain
	defer func() { e.media.chain, e.chain = e.chain, outer }()
	e.chain = e.media.chain
	e.seed = appendSeed(e.seed[:0], domainMedia, Scope{}, bodyScope{})
	e.chain.start(mediaBlock, e.hasher.Key, e.seed, e.blocks[:0])
	e.value(nil, v, 0)
	return e.chain.tail()
}

// medias writes the media value v, or each element of the list v of them.
func (e *encoder) medias(v span) {
	if e.is(v, '[') {
		for m := range e.elements(v) {
			e.mediaPart(m)
		}
	} else if e.present(v) {
		e.mediaPart(v)
	}
}
