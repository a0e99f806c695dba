package comfyfake

import "math"

// paintRidges paints mountains behind mountains, paler the farther, with mist
// in the valleys and trees on the nearest.
func paintRidges(b brief, w, h int) *canvas {
	c := newCanvas(w, h)
	n := noise{b.seed + 5}
	s := newSky(b, 0.52+0.06*n.unit(1, 9))
	s.sunY = lerp(0.16, 0.27, n.unit(2, 9))
	layers := ridgeLayers(b, n, w, h)
	px := 1 / float64(h)
	c.later(w, func(i int) {
		x := ((float64(i)+0.5)/float64(w) - 0.5) * float64(w) / float64(h)
		for j := range h {
			y := (float64(j) + 0.5) * px
			col := s.at(x, y, false)
			for _, l := range layers {
				cover := clamp01((y-l.crest[i])/px + 0.5)
				if cover == 0 {
					continue
				}
				col = mix(col, l.shade(s, x, y, y-l.crest[i], y-l.slow[i]), cover)
			}
			c.pix[j*w+i] = col
		}
	})
	return c
}

// ridge is one silhouette: its upper edge for each column.
type ridge struct {
	crest []float64
	slow  []float64 // the same without trees and details: mist does not see them
	body  rgb
	mist  rgb
	fog   float64 // how deep the mist begins below the crest
	depth float64 // 0 far, 1 near
	n     noise
}

func ridgeLayers(b brief, n noise, w, h int) []ridge {
	count := 6 + int(n.hash(3, 3)%2)
	list := make([]ridge, count)
	for k := range list {
		t := float64(k) / float64(count-1)
		l := ridge{crest: make([]float64, w), depth: t, n: noise{n.seed + uint64(k)*31},
			body: ramp(math.Pow(t, 1.25), b.mood.far, b.mood.near), fog: lerp(0.10, 0.30, t)}
		l.mist = mix(b.mood.horizon.linear(), l.body, 0.12+0.62*t)
		base, rise := lerp(0.47, 0.93, math.Pow(t, 0.9)), lerp(0.24, 0.17, t)
		for i := range w {
			x := ((float64(i)+0.5)/float64(w) - 0.5) * float64(w) / float64(h)
			u := x*lerp(1.5, 1.0, t) + float64(k)*13.7
			shape := 0.62*l.n.ridged(u, 0.5+float64(k), 6) + 0.34*l.n.fbm(u*0.7, 3.3, 3)
			l.crest[i] = base - rise*shape + 0.02
		}
		l.slow = l.evened(w / 24)
		l.wood(w, h, t)
		list[k] = l
	}
	return list
}

// wood sets trees on the near ridges.
func (l ridge) wood(w, h int, t float64) {
	if t < 0.55 {
		return
	}
	for i := range w {
		x := ((float64(i)+0.5)/float64(w) - 0.5) * float64(w) / float64(h)
		l.crest[i] -= l.trees(x, t)
	}
}

// evened is the crest as a running mean.
func (l ridge) evened(radius int) []float64 {
	out := make([]float64, len(l.crest))
	for i := range out {
		lo, hi := max(0, i-radius), min(len(out), i+radius+1)
		for _, v := range l.crest[lo:hi] {
			out[i] += v / float64(hi-lo)
		}
	}
	return out
}

// trees is how far treetops rise over the ridge at x.
func (l ridge) trees(x, t float64) float64 {
	density := lerp(95, 42, t)
	cell := int(math.Floor(x * density))
	tallest := 0.0
	for k := cell - 2; k <= cell+2; k++ {
		middle := (float64(k) + l.n.unit(k, 1)) / density
		tall := lerp(0.008, 0.034, l.n.unit(k, 2)*t) * (0.55 + 0.9*clamp01(0.5+l.n.at(middle*3, 7)))
		d := math.Abs(x-middle) / (tall * 0.30)
		if d < 1 {
			jag := 0.14 * math.Abs(math.Mod(d*5, 1)-0.5)
			tallest = math.Max(tallest, tall*math.Max(0, 1-d-jag))
		}
	}
	return tallest
}

// shade darkens from the crest, dissolves into mist, and lets the slopes that
// face the sun catch light.
func (l ridge) shade(s sky, x, y, below, deep float64) rgb {
	tex := l.n.fbm(x*9, y*15, 3)
	col := l.body.times(1 + 0.13*tex*(0.4+l.depth))
	rim := math.Exp(-math.Max(below, 0)*60) * math.Exp(-math.Abs(x-s.sunX)*2.2) * (1 - 0.85*l.depth)
	col = col.add(s.glow.times(0.20 * rim))
	drift := 0.75 + 0.5*l.n.fbm(x*2.2, y*5, 3)
	mist := smooth(0.0, l.fog, deep*drift) * lerp(0.92, 0.45, l.depth)
	return mix(col, l.mist, clamp01(mist))
}
