package comfyfake

import (
	"encoding/binary"
	"math"
	"slices"
)

// element is one element of a Matroska file; its length takes four bytes.
func element(id uint32, parts ...[]byte) []byte {
	name := be32(id)
	for name[0] == 0 {
		name = name[1:]
	}
	body := slices.Concat(parts...)
	return slices.Concat(name, be32(1<<28|uint32(len(body))), body)
}

func whole(id uint32, v int) []byte { return element(id, be32(uint32(v))) }

func word(id uint32, text string) []byte { return element(id, []byte(text)) }

// encodeWebM writes a well-formed WebM that tells codec, size and length and
// holds an empty cluster, no frames: the codecs of the format cannot be written without an
// encoder. Players open it and show nothing.
func encodeWebM(v video, codec string) []byte {
	const millisecond = 1_000_000
	b := v.frames[0].Bounds()
	length := binary.BigEndian.AppendUint64(nil, math.Float64bits(1000*float64(len(v.frames))/v.fps))
	head := element(0x1a45dfa3, whole(0x4286, 1), whole(0x42f7, 1), whole(0x42f2, 4), whole(0x42f3, 8),
		word(0x4282, "webm"), whole(0x4287, 4), whole(0x4285, 2))
	info := element(0x1549a966, whole(0x2ad7b1, millisecond), word(0x4d80, "fake"), word(0x5741, "fake"), element(0x4489, length))
	track := element(0xae, whole(0xd7, 1), whole(0x73c5, 1), whole(0x83, 1), word(0x86, codec),
		element(0xe0, whole(0xb0, b.Dx()), whole(0xba, b.Dy())))
	empty := element(0x1f43b675, whole(0xe7, 0))
	return slices.Concat(head, element(0x18538067, info, element(0x1654ae6b, track), empty))
}
