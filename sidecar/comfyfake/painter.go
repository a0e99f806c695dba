package comfyfake

import (
	"encoding/json"
	"image"
	"math"
	"strconv"
)

func painterClasses() []*class {
	return []*class{{name: "DemoSampler", display: "Demo Painter", category: "demo", module: "comfyfake",
		about: "Paints a picture from words: dunes, ridges, seas, planets or silk, in colours that the words suggest.",
		required: []input{
			{name: "text", kind: "STRING", options: obj("default", "misty mountains at dawn", "multiline", true)},
			{name: "seed", kind: "INT", options: obj("default", 0, "min", 0, "max", uint64(math.MaxUint64), "control_after_generate", true)},
			integer("steps", 12, 1, 100, "step", 1),
			integer("width", 768, 64, 2048, "step", 8),
			integer("height", 512, 64, 2048, "step", 8),
			{name: "style", choices: func(*Server) []string { return styles() }, options: obj("default", "auto")},
		},
		outputs: []string{"IMAGE"}, outputNames: []string{"IMAGE"}, run: runPainter}}
}

// sketch is how much smaller than the picture its previews are painted.
const sketch = 2

// runPainter paints a sketch and shows it through less and less blur and
// noise, while each step paints its part of the whole.
func runPainter(c *call) (result, error) {
	b := readBrief(c.text("text"), c.text("style"), c.seed("seed"))
	w, h, steps := int(c.integer("width")), int(c.integer("height")), int(c.integer("steps"))
	rough, whole := b.paint(w/sketch, h/sketch).finished(), b.paint(w, h)
	for i := 1; i < steps; i++ {
		whole.work(float64(i) / float64(steps))
		if err := c.tick(i, steps, c.unfinished(rough, b, float64(i)/float64(steps))); err != nil {
			return result{}, err
		}
	}
	pic := whole.finished().picture(noise{b.seed})
	if err := c.tick(steps, steps, c.show(pic)); err != nil {
		return result{}, err
	}
	return one(pictures{pic}), nil
}

// paint plans the picture; finished paints it.
func (b brief) paint(w, h int) *canvas {
	switch b.scene {
	case "dunes":
		return paintDunes(b, w, h)
	case "sea":
		return paintSea(b, w, h)
	case "planet":
		return paintPlanet(b, w, h)
	case "silk":
		return paintSilk(b, w, h)
	}
	return paintRidges(b, w, h)
}

// unfinished is the sketch as a sampler would show it after a part of its
// work; nil if nobody wants previews.
func (c *call) unfinished(rough *canvas, b brief, done float64) *preview {
	if !c.r.previews() {
		return nil
	}
	left := math.Pow(1-done, 1.6)
	blurred := rough.blurred(int(left * float64(rough.h) / 11))
	return c.show(blurred.grained(0.72*left, noise{b.seed + uint64(done*1000)}).picture(noise{b.seed}))
}

func (c *call) show(pic *image.NRGBA) *preview {
	if !c.r.previews() {
		return nil
	}
	return &preview{picture: pic}
}

// seed reads an unsigned 64-bit number.
func (c *call) seed(name string) uint64 {
	n, _ := c.inputs[name].(json.Number)
	v, err := strconv.ParseUint(n.String(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}
