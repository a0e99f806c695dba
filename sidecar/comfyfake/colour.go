package comfyfake

import "math"

// rgb is a colour in linear light.
type rgb struct{ r, g, b float64 }

func (c rgb) add(d rgb) rgb          { return rgb{c.r + d.r, c.g + d.g, c.b + d.b} }
func (c rgb) mul(d rgb) rgb          { return rgb{c.r * d.r, c.g * d.g, c.b * d.b} }
func (c rgb) times(k float64) rgb    { return rgb{c.r * k, c.g * k, c.b * k} }
func mix(a, b rgb, t float64) rgb    { return a.times(1 - t).add(b.times(t)) }
func lerp(a, b, t float64) float64   { return a + (b-a)*t }
func clamp01(x float64) float64      { return math.Max(0, math.Min(1, x)) }
func gauss(x, width float64) float64 { return math.Exp(-x * x / (width * width)) }

func smooth(lo, hi, x float64) float64 {
	t := clamp01((x - lo) / (hi - lo))
	return t * t * (3 - 2*t)
}

// tint is a colour as people see it: lightness 0..1, chroma, hue in degrees
// (OKLCH).
type tint struct{ l, c, h float64 }

// linear converts by the OKLab matrices; what no screen can show is clipped.
func (t tint) linear() rgb {
	a, b := t.c*math.Cos(t.h*math.Pi/180), t.c*math.Sin(t.h*math.Pi/180)
	l := cube(t.l + 0.3963377774*a + 0.2158037573*b)
	m := cube(t.l - 0.1055613458*a - 0.0638541728*b)
	s := cube(t.l - 0.0894841775*a - 1.2914855480*b)
	return rgb{
		math.Max(0, 4.0767416621*l-3.3077115913*m+0.2309699292*s),
		math.Max(0, -1.2684380046*l+2.6097574011*m-0.3413193965*s),
		math.Max(0, -0.0041960863*l-0.7034186147*m+1.7076147010*s),
	}
}

func cube(x float64) float64 { return x * x * x }

// ramp blends tints in OKLab, where the way between two hues stays clean.
func ramp(t float64, stops ...tint) rgb {
	at := clamp01(t) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	a, b, k := stops[i], stops[i+1], at-float64(i)
	x := lerp(a.c*math.Cos(a.h*math.Pi/180), b.c*math.Cos(b.h*math.Pi/180), k)
	y := lerp(a.c*math.Sin(a.h*math.Pi/180), b.c*math.Sin(b.h*math.Pi/180), k)
	return tint{lerp(a.l, b.l, k), math.Hypot(x, y), math.Atan2(y, x) * 180 / math.Pi}.linear()
}

// gradient is a ramp that was worked out once.
type gradient [1 << 10]rgb

func newGradient(stops ...tint) *gradient {
	var g gradient
	for i := range g {
		g[i] = ramp(float64(i)/float64(len(g)-1), stops...)
	}
	return &g
}

func (g *gradient) at(t float64) rgb {
	x := clamp01(t) * float64(len(g)-1)
	i := min(int(x), len(g)-2)
	return mix(g[i], g[i+1], x-float64(i))
}

// shoulder bends bright values so that no highlight clips hard.
func shoulder(x float64) float64 {
	const knee = 0.72
	if x <= knee {
		return x
	}
	return knee + (1-knee)*(1-math.Exp(-(x-knee)/(1-knee)))
}

// screen encodes linear light for a display, 0..255.
func screen(x float64) float64 {
	x = shoulder(math.Max(0, x))
	if x <= 0.0031308 {
		return 255 * 12.92 * x
	}
	return 255 * (1.055*math.Pow(x, 1/2.4) - 0.055)
}
