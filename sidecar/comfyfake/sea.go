package comfyfake

import "math"

// sea is water under a sky, with the sun's path on it and land far out.
type sea struct {
	s      sky
	n      noise
	deep   rgb
	glow   rgb
	coast  []float64 // how far land rises over the horizon, by column
	shore  rgb
	swells float64
}

func paintSea(b brief, w, h int) *canvas {
	n := noise{b.seed + 21}
	s := newSky(b, 0.45+0.08*n.unit(2, 2))
	s.sunY = s.horizon - lerp(0.05, 0.2, n.unit(3, 3))
	ratio := float64(w) / float64(h)
	c := newDoubleCanvas(w, h)
	p := sea{s: s, n: n, deep: mix(b.mood.top.linear(), b.mood.near.linear(), 0.55).times(0.8), glow: b.mood.accent.linear(),
		shore: mix(b.mood.far.linear(), b.mood.near.linear(), 0.35), swells: lerp(0.7, 1.25, n.unit(4, 4)), coast: make([]float64, c.w)}
	side := 1.0
	if s.sunX > 0 {
		side = -1
	}
	for i := range p.coast {
		x := ((float64(i)+0.5)/float64(c.w) - 0.5) * ratio
		reach := smooth(-0.1, 0.75, x*side)
		p.coast[i] = math.Max(0, reach*(0.02+0.17*n.ridged(x*1.6+4, 2, 6))-0.012)
	}
	c.fill(ratio, func(x, y float64) rgb {
		i := min(c.w-1, max(0, int((x/ratio+0.5)*float64(c.w))))
		if y < s.horizon {
			return p.air(x, y, p.coast[i])
		}
		return p.water(x, y, p.coast[i])
	})
	return c
}

func (p sea) air(x, y, coast float64) rgb {
	up := p.s.horizon - y
	col := p.s.at(x, y, false)
	if up < coast {
		haze := smooth(0, 0.10, up)
		land := mix(mix(p.shore, p.s.low, 0.45), p.shore, haze)
		land = land.times(1 + 0.22*p.n.fbm(x*16, y*40, 4))
		return mix(land, col, smooth(coast-0.0015, coast+0.0005, up))
	}
	return col
}

// water reflects the sky by its slope; steep looks down see the deep.
func (p sea) water(x, y, coast float64) rgb {
	down := y - p.s.horizon + 0.0015
	z := 0.22 / down
	wx := x * z * 1.4
	calm := 1 / (1 + 0.16*z)
	sx, sy := p.slope(wx, z)
	sx, sy = sx*calm*p.swells, sy*calm*p.swells
	ry := p.s.horizon - math.Abs(down*0.95+sy*0.34)
	rx := x + sx*0.30
	mirrored := p.s.at(rx, math.Max(0.005, ry), true)
	if up := p.s.horizon - ry; up < coast*0.9 {
		mirrored = mix(mirrored, p.shore.times(0.9), 0.75*smooth(coast*0.9, coast*0.55, up))
	}
	shine := clamp01(0.24 + 0.76*math.Exp(-down*2.6) - 0.55*sy)
	col := mix(p.deep.add(p.glow.times(0.10*clamp01(sy*1.6+0.2))), mirrored, shine*0.86)
	path := gauss(x-p.s.sunX+sx*0.42, 0.028+0.16*down+0.02)
	spark := smooth(0.02, 0.5, sy+0.32*sx+0.10) * (0.5 + 0.9*calm)
	col = col.add(p.s.light.times(path * (0.85*spark + 0.10)))
	return mix(p.s.low, col, smooth(0, 0.028, down)*0.55+0.45)
}

// slope sums waves of falling length, each bent by the longer ones.
func (p sea) slope(x, z float64) (sx, sy float64) {
	freq, amp := 0.9, 0.5
	for k := range 8 {
		a := p.n.at(x*freq*0.75+float64(k)*9, z*freq*2.1+sx)
		b := p.n.at(x*freq*0.75+50, z*freq*2.1+float64(k)*17+sy)
		sx += amp * a * 0.7
		sy += amp * b
		freq *= 1.95
		amp *= 0.62
		if freq*z > 40 {
			break
		}
	}
	return sx, sy
}
