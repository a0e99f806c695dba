package comfyfake

import "math"

// sky is the air over a landscape: a gradient, a sun or moon with its glow,
// thin clouds, and stars at night.
type sky struct {
	m                  mood
	n                  noise
	horizon            float64 // y where it ends
	sunX, sunY         float64
	size               float64
	cloud              float64
	light, white, glow rgb
	low                rgb // the colour at the horizon
	air                *gradient
}

func newSky(b brief, horizon float64) sky {
	n := noise{b.seed + 77}
	return sky{m: b.mood, n: n, horizon: horizon,
		sunX: lerp(-0.42, 0.42, n.unit(5, 1)), sunY: horizon - lerp(0.07, 0.24, n.unit(6, 1)),
		size: lerp(0.027, 0.045, n.unit(7, 1)), cloud: lerp(0.25, 0.7, n.unit(8, 1)),
		light: b.mood.light.linear(), white: rgb{1, 1, 1}, glow: glowOf(b.mood),
		low: b.mood.horizon.linear(), air: newGradient(b.mood.top, b.mood.mid, b.mood.horizon)}
}

// glowOf is the light that the air scatters: weak and cool at night.
func glowOf(m mood) rgb {
	if m.stars {
		return mix(m.light.linear(), m.horizon.linear(), 0.75).times(0.9)
	}
	return m.light.linear()
}

// at is the sky's colour; soft leaves out the disc and the stars, for
// reflections.
func (s sky) at(x, y float64, soft bool) rgb {
	t := clamp01(y / s.horizon)
	c := s.air.at(math.Pow(t, 1.15))
	d := math.Hypot(x-s.sunX, y-s.sunY)
	c = c.add(s.glow.times(0.30*math.Exp(-d*4.6) + 0.30*math.Exp(-d*15)))
	c = s.clouds(c, x, y, d)
	if soft {
		return c
	}
	if s.m.stars {
		c = c.add(s.starlight(x, y, 70, 0.992).times((1 - t) * (1 - t)))
	}
	disc := smooth(s.size*1.07, s.size*0.95, d)
	return mix(c, mix(s.light, s.white, 0.6).times(1.35-0.4*math.Pow(d/s.size, 3)), disc)
}

// clouds are long streaks that catch the light near the sun.
func (s sky) clouds(c rgb, x, y, d float64) rgb {
	v := (s.horizon - y + 0.12) * 3.2
	streak := s.n.fbm(x*1.3+3*s.n.at(x*0.7, v), v*3.6, 5)
	cover := s.cloud * smooth(0.02, 0.45, streak) * smooth(0, 0.25, y+0.1)
	bright := mix(s.low, s.light, 0.5*math.Exp(-d*2.2)).times(0.92 + 0.35*math.Exp(-d*4))
	return mix(c, bright, 0.6*cover)
}

// starlight scatters points of different size and tone over a lattice.
func (s sky) starlight(x, y, density, rare float64) rgb {
	ix, iy := int(math.Floor(x*density)), int(math.Floor(y*density))
	var sum rgb
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			cx, cy := ix+dx, iy+dy
			r := s.n.unit(cx, cy+4000)
			if r < rare-0.08 {
				continue
			}
			px := (float64(cx) + s.n.unit(cx+7, cy)) / density
			py := (float64(cy) + s.n.unit(cx, cy+7)) / density
			power := math.Pow(s.n.unit(cx+13, cy+13), 6)*0.9 + 0.08
			glow := gauss(math.Hypot(x-px, y-py), 0.0013+0.0013*power)
			sum = sum.add(mix(rgb{0.75, 0.85, 1}, rgb{1, 0.9, 0.75}, s.n.unit(cx+3, cy+5)).times(1.4 * power * glow))
		}
	}
	return sum
}
