package comfyfake

import "math"

// silk is cloth in folds: a height bent by itself, lit from the side.
type silk struct {
	n              noise
	bright, deep   *gradient
	light, horizon rgb
	turn           float64
	scale          float64
	lx, ly, lz     float64
}

func paintSilk(b brief, w, h int) *canvas {
	n := noise{b.seed + 51}
	p := silk{n: n, bright: newGradient(b.mood.accent, b.mood.lit, b.mood.mid, b.mood.top), deep: newGradient(b.mood.shade, b.mood.near),
		light: b.mood.light.linear(), horizon: b.mood.horizon.linear(), turn: lerp(-0.9, 0.9, n.unit(1, 1)), scale: lerp(0.85, 1.25, n.unit(2, 2))}
	p.lx, p.ly, p.lz = unit3(lerp(-0.7, 0.7, n.unit(3, 3)), -0.65, 0.62)
	c := newCanvas(w, h)
	c.fill(float64(w)/float64(h), p.shade)
	return c
}

// height is long waves across a slowly bending field.
func (p silk) height(x, y float64) (height, field float64) {
	co, si := math.Cos(p.turn), math.Sin(p.turn)
	u, v := (x*co+y*si)*p.scale, (-x*si+y*co)*p.scale
	a := p.n.fbm(u*0.9, v*0.55+3, 2)
	b := p.n.fbm(u*0.8+5+1.1*a, v*0.6+1.4*a, 2)
	f := v*1.35 + 1.25*a + 0.85*b
	wave := math.Sin(f*5.2+1.3*b) + 0.34*math.Sin(f*11.5+2.2*a+1) + 0.10*math.Sin(f*27+3*b)
	return 0.085 * wave, f
}

func (p silk) shade(x, y float64) rgb {
	const e = 0.0022
	h, f := p.height(x, y)
	hx, _ := p.height(x+e, y)
	hy, _ := p.height(x, y+e)
	nx, ny, nz := unit3(-(hx-h)/e, -(hy-h)/e, 0.72)
	facing := nx*p.lx + ny*p.ly + nz*p.lz
	tone := 0.5 + 0.5*math.Sin(f*0.95+0.6)
	base := p.bright.at(tone)
	deep := p.deep.at(tone)
	col := mix(deep.times(0.55), base, smooth(-0.35, 0.95, facing))
	hxn, hyn, hzn := unit3(p.lx, p.ly, p.lz+1)
	gloss := math.Max(0, nx*hxn+ny*hyn+nz*hzn)
	col = col.add(p.light.times(0.30*math.Pow(gloss, 14) + 0.34*math.Pow(gloss, 70)))
	edge := math.Pow(1-nz, 2.2)
	col = col.add(p.horizon.times(0.22 * edge * clamp01(facing+0.4)))
	thread := 1 + 0.012*math.Sin((x*0.7+y)*900) + 0.010*p.n.at(x*140, y*140)
	return col.times(thread * (0.86 + 0.9*h*2.2))
}
