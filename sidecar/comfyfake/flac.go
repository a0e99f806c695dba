package comfyfake

import (
	"encoding/binary"
	"unicode/utf8"
)

// flacBlock is the number of samples in a FLAC frame; the last has fewer.
const flacBlock = 4096

// encodeFLAC writes FLAC without prediction: a block of equal samples as one
// constant, any other as it is.
func encodeFLAC(snd sound) []byte {
	w := &bits{}
	w.bytes([]byte("fLaC"))
	w.put(0x80, 8) // the last block of metadata, and it is STREAMINFO
	w.put(34, 24)
	w.put(flacBlock, 16)
	w.put(flacBlock, 16)
	w.put(0, 48) // sizes of frames: not told
	w.put(uint64(snd.rate), 20)
	w.put(uint64(snd.channels-1), 3)
	w.put(15, 5)
	w.put(uint64(len(snd.samples)), 36)
	w.bytes(make([]byte, 16)) // no checksum of the samples
	for n := 0; n*flacBlock < len(snd.samples); n++ {
		block := snd.samples[n*flacBlock : min((n+1)*flacBlock, len(snd.samples))]
		w.bytes(flacFrame(n, block, snd.channels))
	}
	return w.data
}

func flacFrame(n int, block []float64, channels int) []byte {
	w := &bits{}
	w.put(0xfff8, 16)
	w.put(0x70, 8) // length below, rate as in STREAMINFO
	w.put(uint64(channels-1), 4)
	w.put(8, 4) // 16 bits
	w.bytes(utf8.AppendRune(nil, rune(n)))
	w.put(uint64(len(block)-1), 16)
	w.put(uint64(crc(w.data, 8, 0x07)), 8)
	for range channels {
		flacChannel(w, block)
	}
	return binary.BigEndian.AppendUint16(w.data, crc(w.data, 16, 0x8005))
}

func flacChannel(w *bits, block []float64) {
	constant := true
	for _, v := range block {
		constant = constant && v == block[0]
	}
	if constant {
		w.put(0, 8)
		block = block[:1]
	} else {
		w.put(1<<1, 8)
	}
	for _, v := range block {
		w.put(uint64(uint16(sample(v))), 16)
	}
}

// crc is a checksum of up to 16 bits, highest bit first.
func crc(data []byte, width int, poly uint16) uint16 {
	top := uint16(1) << (width - 1)
	sum := uint16(0)
	for _, b := range data {
		sum ^= uint16(b) << (width - 8)
		for range 8 {
			carry := sum&top != 0
			sum <<= 1
			if carry {
				sum ^= poly
			}
		}
	}
	return sum & (top | (top - 1))
}
