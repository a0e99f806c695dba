package comfyfake

import "math"

// dunes is a desert as a height over a plane, seen from a low hill.
type dunes struct {
	n              noise
	turn, tall     float64
	sx, sy, sz     float64 // direction to the sun
	sand, dark     rgb
	light, ambient rgb
	haze           rgb
}

// paintDunes walks every column from near to far and fills what rises above
// all that was drawn: no hidden surface is shaded. It paints at double size
// for smooth crests.
func paintDunes(b brief, w, h int) *canvas {
	n := noise{b.seed + 9}
	s := newSky(b, 0.40+0.05*n.unit(2, 2))
	side := 1.0
	if n.unit(4, 4) < 0.5 {
		side = -1
	}
	s.sunX = side * lerp(0.18, 0.5, n.unit(5, 5))
	s.sunY = s.horizon - lerp(0.05, 0.2, n.unit(6, 6))
	d := dunes{n: n, turn: -side * lerp(0.5, 0.95, n.unit(7, 7)), tall: lerp(0.8, 1.15, n.unit(8, 8)),
		sand: b.mood.lit.linear(), dark: b.mood.shade.linear(), light: s.light,
		ambient: mix(b.mood.mid.linear(), b.mood.shade.linear(), 0.5), haze: b.mood.horizon.linear()}
	d.sx, d.sy, d.sz = unit3(side*0.86, 0.36, 0.36)
	ratio := float64(w) / float64(h)
	c := newDoubleCanvas(w, h)
	c.fill(ratio, func(x, y float64) rgb {
		if y > s.horizon+0.08 {
			return rgb{}
		}
		return s.at(x, y, false)
	})
	c.later(c.w, func(i int) { d.column(c, s, i, ratio) })
	return c
}

func unit3(x, y, z float64) (a, b, c float64) {
	k := 1 / math.Sqrt(x*x+y*y+z*z)
	return x * k, y * k, z * k
}

const (
	dunesEye  = 2.3
	dunesNear = 0.7
	dunesFar  = 70
)

func (d dunes) column(c *canvas, s sky, i int, ratio float64) {
	u := ((float64(i)+0.5)/float64(c.w) - 0.5) * ratio * 1.25
	top := c.h
	var below rgb
	first := true
	for z := dunesNear; z < dunesFar && top > 0; z *= 1.005 {
		x := u * z
		height := d.height(x, z)
		y := int((s.horizon + (dunesEye-height)/z*0.46) * float64(c.h))
		if y >= top {
			continue
		}
		col := d.shade(x, z, height)
		if first {
			below, first = col, false
		}
		for row := top - 1; row >= max(0, y); row-- {
			t := float64(top-row) / float64(top-y)
			c.pix[row*c.w+i] = mix(below, col, t)
		}
		below, top = col, max(0, y)
	}
}

// height is long dunes, steep on the lee side and with a sharp crest, over a
// slow swell.
func (d dunes) height(x, z float64) float64 {
	wx := x + 1.3*d.n.at(x*0.21, z*0.21+40)
	wz := z + 1.3*d.n.at(x*0.21+80, z*0.21)
	big := crest((wx*d.turn+wz*0.62)*0.26+0.6*d.n.at(x*0.13, z*0.13), 0.66)
	small := crest((wx*0.5*d.turn-wz*0.85)*0.52+0.4*d.n.at(x*0.3, z*0.3), 0.7)
	swell := d.n.at(x*0.09+7, z*0.09)
	return smooth(0.2, 5.5, z) * d.tall * (0.95*big*(0.75+0.45*swell) + 0.26*small + 0.5*swell)
}

// crest is a wave of length 1 that rises slowly, breaks sharply at part, and
// has a round valley.
func crest(phase, part float64) float64 {
	t := phase - math.Floor(phase)
	s := t / part
	if t > part {
		s = (1 - t) / (1 - part)
	}
	// The crest is a little round: a knife edge would flicker.
	s = 1.03 - math.Hypot(1-s, 0.06) - 0.03*(1-s)
	return s * s * (1.35 - 0.35*s)
}

func (d dunes) shade(x, z, height float64) rgb {
	e := 0.02 + 0.011*z
	hx, hz := (d.height(x+e, z)-height)/e, (d.height(x, z+e)-height)/e
	near := math.Exp(-z * 0.17)
	ripple := math.Sin((x*3.1*d.turn+z*9+2.2*d.n.at(x*0.9, z*0.9))*5.2) * near
	hx += 0.085 * ripple * d.turn
	hz += 0.05 * ripple
	nx, ny, nz := unit3(-hx, 1, -hz)
	facing := nx*d.sx + ny*d.sy + nz*d.sz
	lit := smooth(-0.06, 0.34, facing) * (0.45 + 0.75*math.Max(0, facing))
	grain := 1 + 0.05*d.n.at(x*21, z*21)*near
	col := d.sand.mul(d.light).times(1.12 * lit * grain)
	col = col.add(mix(d.dark, d.ambient, 0.35+0.3*ny).times(0.46 + 0.18*ny))
	col = mix(col, d.dark, 0.30*(1-smooth(-0.25, 0.12, facing)))
	return mix(col, d.haze, 1-math.Exp(-math.Pow(z/26, 1.5)))
}
