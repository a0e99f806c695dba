package comfyfake

import "math"

// planet is a banded world with air and perhaps rings, before far clouds.
type planet struct {
	s                              sky
	n                              noise
	cx, cy, r                      float64
	lx, ly, lz                     float64 // direction to its sun
	tilt                           float64
	bands                          float64
	rings                          bool
	air, light, space, cloud, dust rgb
	body, disc                     *gradient
	px                             float64 // a pixel, in radii
}

func paintPlanet(b brief, w, h int) *canvas {
	n := noise{b.seed + 33}
	side := 1.0
	if n.unit(1, 1) < 0.5 {
		side = -1
	}
	p := planet{s: newSky(b, 1), n: n, r: lerp(0.27, 0.40, n.unit(2, 2)),
		cx: side * lerp(0.05, 0.3, n.unit(3, 3)), cy: lerp(0.46, 0.6, n.unit(4, 4)),
		tilt: side * lerp(0.2, 0.5, n.unit(5, 5)), bands: lerp(2.2, 4.4, n.unit(6, 6)), rings: n.unit(7, 7) < 0.6}
	p.lx, p.ly, p.lz = unit3(-side*lerp(0.6, 0.9, n.unit(8, 8)), -0.42, 0.42)
	p.space = tint{0.13, 0.035, b.mood.top.h}.linear().times(0.55)
	p.cloud = tint{0.36, b.mood.top.c * 1.1, b.mood.top.h}.linear()
	p.dust = tint{0.50, b.mood.accent.c, b.mood.accent.h}.linear()
	p.air, p.light = b.mood.accent.linear(), b.mood.light.linear()
	p.body = newGradient(b.mood.shade, b.mood.accent, b.mood.lit, b.mood.horizon)
	p.disc = newGradient(b.mood.lit, b.mood.horizon, b.mood.far)
	p.px = 1 / (float64(h) * p.r)
	c := newCanvas(w, h)
	c.fill(float64(w)/float64(h), p.shade)
	return c
}

func (p planet) shade(x, y float64) rgb {
	col := p.nebula(x, y)
	dx, dy := (x-p.cx)/p.r, (y-p.cy)/p.r
	d := math.Hypot(dx, dy)
	day := clamp01(0.35 + 0.8*(dx*p.lx+dy*p.ly)/math.Max(d, 1e-6))
	ringCol, ringCover, front := p.ring(dx, dy)
	if !front {
		col = mix(col, ringCol, ringCover)
	}
	if d > 1 {
		col = col.add(p.air.times(0.75 * day * math.Exp(-(d-1)*26)).add(p.air.times(0.16 * day * math.Exp(-(d-1)*6))))
	}
	edge := smooth(1+p.px, 1-p.px, d)
	if edge > 0 {
		col = mix(col, p.surface(dx, dy, math.Min(d, 0.9999)), edge)
	}
	if front {
		col = mix(col, ringCol, ringCover)
	}
	return col
}

// nebula is the background: warped clouds in two tones, and stars of two
// sizes.
func (p planet) nebula(x, y float64) rgb {
	q := p.n.fbm(x*1.3, y*1.3, 4)
	v := p.n.fbm(x*1.7+1.6*q+9, y*1.7+1.4*q, 5)
	cloud := smooth(-0.15, 0.55, v+0.25*q)
	col := mix(p.space, p.cloud, 0.72*cloud)
	warm := smooth(0.1, 0.6, p.n.fbm(x*2.1-5, y*2.1+1.8*v, 4)+0.12)
	col = mix(col, p.dust, 0.34*warm*cloud)
	dust := 0.4 + 0.6*cloud
	return col.add(p.s.starlight(x, y, 46, 0.97).times(dust)).add(p.s.starlight(x+3, y+3, 17, 0.985).times(1.6))
}

func (p planet) surface(dx, dy, d float64) rgb {
	dz := math.Sqrt(1 - d*d)
	co, si := math.Cos(p.tilt), math.Sin(p.tilt)
	lon, lat := dx*co+dy*si, -dx*si+dy*co
	u := math.Atan2(lon, dz)
	warp := p.n.fbm(u*1.3+4, lat*3, 4)
	swirl := p.n.fbm(u*2.6+2.2*warp, lat*9+1.7*warp, 5)
	band := 0.5 + 0.5*math.Sin(lat*p.bands*math.Pi+1.5*warp+0.8*swirl)
	fine := p.n.fbm(u*3.1+swirl, lat*26+2.5*swirl, 4)
	col := p.body.at(band*0.86 + 0.16*fine + 0.06)
	col = col.times(1 + 0.16*fine)
	facing := dx*p.lx + dy*p.ly + dz*p.lz
	day := smooth(-0.16, 0.55, facing)
	dusk := gauss(facing-0.04, 0.20)
	col = col.times(0.02 + 1.12*day)
	col = col.add(mix(p.air, p.light, 0.25).times(0.10 * dusk))
	rim := math.Pow(1-dz, 3)
	col = mix(col, p.air.times(1.15*day+0.02), 0.78*rim)
	if p.rings {
		col = col.times(1 - 0.5*p.shadow(dx, dy))
	}
	return col
}

// ring gives the colour and cover of the rings and whether they pass before
// the planet here.
func (p planet) ring(dx, dy float64) (rgb, float64, bool) {
	if !p.rings {
		return rgb{}, 0, false
	}
	const flat = 0.23 // how open they lie
	co, si := math.Cos(p.tilt*0.8), math.Sin(p.tilt*0.8)
	a, b := dx*co+dy*si, (-dx*si+dy*co)/flat
	r := math.Hypot(a, b)
	if r < 1.28 || r > 2.25 {
		return rgb{}, 0, b > 0
	}
	lines := 0.55 + 0.45*p.n.at(r*24, 3) + 0.22*p.n.at(r*71, 5)
	gap := 1 - 0.92*gauss(r-1.86, 0.035)
	cover := smooth(1.28, 1.36, r) * smooth(2.25, 2.12, r) * clamp01(lines) * gap * 0.82
	col := p.disc.at((r - 1.28) / 0.97)
	lit := 0.95
	if b < 0 {
		back := math.Hypot(dx+p.lx*0.6, dy+p.ly*0.6)
		lit *= lerp(0.12, 1, smooth(0.75, 1.1, back))
	}
	return col.times(lit), cover, b > 0
}

// shadow is the rings' shadow on the planet.
func (p planet) shadow(dx, dy float64) float64 {
	co, si := math.Cos(p.tilt*0.8), math.Sin(p.tilt*0.8)
	v := -dx*si + dy*co
	return gauss(v-0.10-0.22*(1-dx*dx), 0.07)
}
