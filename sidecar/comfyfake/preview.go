package comfyfake

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

// Kinds of binary frames.
const (
	framePreview     = 1
	frameText        = 3
	framePreviewData = 4
)

// previewSide is the longest side of a JPEG preview.
const previewSide = 512

// preview is a picture of unfinished work.
type preview struct {
	picture *image.NRGBA
	png     bool // whole and lossless, as SaveImageWebsocket sends it
}

func (p *preview) encode() ([]byte, error) {
	var b bytes.Buffer
	if p.png {
		err := png.Encode(&b, opaque(p.picture))
		return b.Bytes(), err
	}
	err := jpeg.Encode(&b, opaque(shrink(p.picture, previewSide)), &jpeg.Options{Quality: 90})
	return b.Bytes(), err
}

// sendPreview sends a type 4 frame, which names node and prompt, or a type 1
// frame, which names nothing.
func (r *run) sendPreview(id string, p *preview, rich bool) {
	data, err := p.encode()
	if err != nil {
		r.p.s.opts.Log.Warn("encode preview", "node", id, "err", err)
		return
	}
	kind, mime := uint32(1), "image/jpeg"
	if p.png {
		kind, mime = 2, "image/png"
	}
	if !rich {
		r.p.hub.sendBinary(framePreview, append(binary.BigEndian.AppendUint32(nil, kind), data...), r.to)
		return
	}
	meta := dumps(obj("node_id", id, "prompt_id", r.it.id, "display_node_id", id, "parent_node_id", nil, "real_node_id", id, "image_type", mime))
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	r.p.hub.sendBinary(framePreviewData, append(append(frame, meta...), data...), r.to)
}

// sendText sends a type 3 frame: words to show on a node.
func (r *run) sendText(id, text string) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(id)))
	r.p.hub.sendBinary(frameText, append(append(frame, id...), text...), r.to)
}

// shrink fits a picture into a square without enlarging it.
func shrink(src *image.NRGBA, side int) *image.NRGBA {
	b := src.Bounds()
	longest := max(b.Dx(), b.Dy())
	if longest <= side {
		return src
	}
	dst := image.NewNRGBA(image.Rect(0, 0, max(1, b.Dx()*side/longest), max(1, b.Dy()*side/longest)))
	draw.ApproxBiLinear.Scale(dst, dst.Bounds(), src, b, draw.Src, nil)
	return dst
}

// opaque drops the fourth channel of a picture that does not use it: PNG gets
// smaller, and JPEG is encoded faster.
func opaque(src *image.NRGBA) image.Image {
	if !src.Opaque() {
		return src
	}
	dst := image.NewRGBA(src.Bounds())
	copy(dst.Pix, src.Pix)
	return dst
}
