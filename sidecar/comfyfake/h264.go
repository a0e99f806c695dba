package comfyfake

import (
	"bytes"
	"image"
	"image/color"
	"slices"
)

// H.264 without compression: a picture that differs from the one before is
// written as raw macroblocks (I_PCM), an equal one as skipped macroblocks.
// Every player of the format shows it.

const (
	macroblock   = 16
	frameNumBits = 16
)

// Heads of the units of a stream.
const (
	unitPicture = 0x61
	unitKey     = 0x65
	unitSPS     = 0x67
	unitPPS     = 0x68
)

// h264 is an encoded stream.
type h264 struct {
	width, height int // even
	sps, pps      []byte
	frames        [][]byte // one unit each
	keys          []int    // frames that need no other
}

func encodeH264(list pictures) h264 {
	b := list[0].Bounds()
	s := h264{width: b.Dx() + b.Dx()%2, height: b.Dy() + b.Dy()%2}
	s.sps, s.pps = s.sequence(), s.parameters()
	since := 0
	for i, pic := range list {
		if i > 0 && (pic == list[i-1] || bytes.Equal(pic.Pix, list[i-1].Pix)) {
			since++
			s.frames = append(s.frames, s.skipped(since))
			continue
		}
		since = 0
		s.frames = append(s.frames, s.key(pic, len(s.keys)))
		s.keys = append(s.keys, i)
	}
	return s
}

func (s h264) blocks() (across, down int) {
	return (s.width + macroblock - 1) / macroblock, (s.height + macroblock - 1) / macroblock
}

func (s h264) sequence() []byte {
	const baseline, constrained, level = 66, 0xc0, 51
	w := &bits{}
	w.put(baseline<<16|constrained<<8|level, 24)
	w.ues(0, frameNumBits-4, 2, 1) // id, bits of a frame's number, order as sent, one reference
	w.put(0, 1)
	across, down := s.blocks()
	w.ues(uint64(across-1), uint64(down-1))
	w.put(0b111, 3) // whole frames, direct inference, cropped
	w.ues(0, uint64(across*macroblock-s.width)/2, 0, uint64(down*macroblock-s.height)/2)
	w.put(0, 1)
	return unit(unitSPS, w)
}

func (s h264) parameters() []byte {
	w := &bits{}
	w.ues(0, 0)
	w.put(0, 2)
	w.ues(0, 0, 0)
	w.put(0, 3)
	w.ues(0, 0, 0) // three signed zeros
	w.put(0b100, 3)
	return unit(unitPPS, w)
}

// key is a picture in raw macroblocks; two in a row need different numbers.
func (s h264) key(pic *image.NRGBA, number int) []byte {
	const onlyIntra, rawBlock = 7, 25
	w := &bits{}
	w.ues(0, onlyIntra, 0)
	w.put(0, frameNumBits)
	w.ue(uint64(number % 2))
	w.put(0, 2)
	w.ues(0, 1) // quantiser, no filter
	across, down := s.blocks()
	for y := range down {
		for x := range across {
			w.ue(rawBlock)
			w.align()
			w.bytes(rawMacroblock(pic, x*macroblock, y*macroblock))
		}
	}
	return unit(unitKey, w)
}

func (s h264) skipped(number int) []byte {
	const onlyPredicted = 5
	w := &bits{}
	w.ues(0, onlyPredicted, 0)
	w.put(uint64(number)%(1<<frameNumBits), frameNumBits)
	w.put(0, 3)
	w.ues(0, 1)
	across, down := s.blocks()
	w.ue(uint64(across * down))
	return unit(unitPicture, w)
}

// rawMacroblock is 16x16 brightness and twice 8x8 colour in the narrow range
// of video; beyond the picture its edge goes on.
func rawMacroblock(pic *image.NRGBA, x0, y0 int) []byte {
	b := pic.Bounds()
	var luma, blue, red []byte
	for y := y0; y < y0+macroblock; y++ {
		for x := x0; x < x0+macroblock; x++ {
			c := pic.NRGBAAt(min(b.Min.X+x, b.Max.X-1), min(b.Min.Y+y, b.Max.Y-1))
			yy, cb, cr := color.RGBToYCbCr(c.R, c.G, c.B)
			luma = append(luma, byte(16+int(yy)*219/255))
			if x%2 == 0 && y%2 == 0 {
				blue = append(blue, byte(128+(int(cb)-128)*112/128))
				red = append(red, byte(128+(int(cr)-128)*112/128))
			}
		}
	}
	return slices.Concat(luma, blue, red)
}

// unit closes a unit and breaks up what would look like the start of another.
func unit(head byte, w *bits) []byte {
	w.put(1, 1)
	out := []byte{head}
	zeros := 0
	for _, v := range w.data {
		if zeros >= 2 && v <= 3 {
			out = append(out, 3)
			zeros = 0
		}
		out = append(out, v)
		zeros++
		if v != 0 {
			zeros = 0
		}
	}
	return out
}
