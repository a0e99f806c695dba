package comfyfake

import (
	"encoding/binary"
	"slices"
)

// mp4Scale is the length of a frame in ticks.
const mp4Scale = 1000

func be32(list ...uint32) []byte {
	var b []byte
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func box(kind string, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	return slices.Concat(be32(uint32(8+len(body))), []byte(kind), body)
}

// encodeMP4 puts the pictures into an MP4 that plays.
func encodeMP4(v video) []byte {
	s := encodeH264(v.frames)
	ftyp := box("ftyp", []byte("isom"), be32(512), []byte("isomiso2avc1mp41"))
	var samples []byte
	for _, f := range s.frames {
		samples = slices.Concat(samples, be32(uint32(len(f))), f)
	}
	const head = 8 // of mdat
	at := uint32(len(ftyp)+len(mp4Index(v, s, 0))) + head
	return slices.Concat(ftyp, mp4Index(v, s, at), box("mdat", samples))
}

// mp4Index is the moov box; at is where the samples begin.
func mp4Index(v video, s h264, at uint32) []byte {
	scale, length := uint32(v.fps*mp4Scale+0.5), uint32(len(s.frames)*mp4Scale)
	matrix := be32(1<<16, 0, 0, 0, 1<<16, 0, 0, 0, 1<<30)
	track := box("tkhd", be32(3, 0, 0, 1, 0, length, 0, 0, 0, 0), matrix, be32(uint32(s.width)<<16, uint32(s.height)<<16))
	media := box("mdia",
		box("mdhd", be32(0, 0, 0, scale, length, 0x55c40000)), // no language
		box("hdlr", be32(0, 0), []byte("vide"), be32(0, 0, 0), []byte{0}),
		box("minf", box("vmhd", be32(1, 0, 0)), box("dinf", box("dref", be32(0, 1), box("url ", be32(1)))), mp4Table(s, at)))
	return box("moov",
		box("mvhd", be32(0, 0, 0, scale, length, 1<<16, 1<<24, 0, 0), matrix, be32(0, 0, 0, 0, 0, 0, 2)),
		box("trak", track, media))
}

// mp4Table tells how the samples are coded and where each lies.
func mp4Table(s h264, at uint32) []byte {
	sizes, keys := []uint32{0, 0, uint32(len(s.frames))}, []uint32{0, uint32(len(s.keys))}
	for _, f := range s.frames {
		sizes = append(sizes, uint32(4+len(f)))
	}
	for _, k := range s.keys {
		keys = append(keys, uint32(k+1))
	}
	n := uint32(len(s.frames))
	return box("stbl", box("stsd", be32(0, 1), avc1(s)), box("stts", be32(0, 1, n, mp4Scale)), box("stss", be32(keys...)),
		box("stsc", be32(0, 1, 1, n, 1)), box("stsz", be32(sizes...)), box("stco", be32(0, 1, at)))
}

func avc1(s h264) []byte {
	config := slices.Concat([]byte{1, s.sps[1], s.sps[2], s.sps[3], 0xff, 0xe1}, short(len(s.sps)), s.sps, []byte{1}, short(len(s.pps)), s.pps)
	const density = 72 << 16
	return box("avc1", be32(0, 1, 0, 0, 0, 0), short(s.width), short(s.height), be32(density, density, 0), short(1),
		make([]byte, 32), short(24), short(0xffff), box("avcC", config))
}

func short(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
