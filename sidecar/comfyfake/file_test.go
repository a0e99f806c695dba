package comfyfake_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"strings"
)

// fileOf makes a file of exactly that length; a PNG that decodes if the name
// says so and there is room for one.
func fileOf(name string, length int) []byte {
	if !strings.HasSuffix(name, ".png") {
		return bytes.Repeat([]byte("x"), length)
	}
	pic := image.NewGray(image.Rect(0, 0, 1, 1))
	pic.SetGray(0, 0, color.Gray{Y: uint8(length)})
	var b bytes.Buffer
	if err := png.Encode(&b, pic); err != nil {
		return nil
	}
	if strings.HasPrefix(name, "corrupt") {
		return b.Bytes()[:b.Len()-20]
	}
	const overhead = 14 // of a text chunk with a key of one letter
	room := length - b.Len() - overhead
	if room < 0 {
		return b.Bytes()
	}
	chunk := append([]byte("tEXta\x00"), bytes.Repeat([]byte("."), room)...)
	out := append([]byte{}, b.Bytes()[:33]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(chunk)-4))
	out = append(out, chunk...)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(chunk))
	return append(out, b.Bytes()[33:]...)
}
