package comfyfake

import (
	"encoding/binary"
	"hash/crc32"
)

// textChunk is one tEXt chunk of a PNG.
type textChunk struct{ key, text string }

// pngHead is the length of a PNG's signature and header chunk.
const pngHead = 8 + 25

// withText puts text chunks behind the header of a PNG. The texts are ASCII,
// as appendJSON makes them.
func withText(png []byte, chunks []textChunk) []byte {
	out := append([]byte{}, png[:pngHead]...)
	for _, c := range chunks {
		body := append([]byte("tEXt"+c.key+"\x00"), c.text...)
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)-4))
		out = append(out, body...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	}
	return append(out, png[pngHead:]...)
}
