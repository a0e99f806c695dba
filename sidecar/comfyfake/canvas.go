package comfyfake

import (
	"image"
	"math"
	"runtime"
	"sync"
)

// canvas holds a picture in linear light and the painting still to do.
type canvas struct {
	w, h   int
	pix    []rgb
	double bool // has twice the height that is wanted

	jobs        []job
	total, done int
}

type job struct {
	n int
	f func(i int)
}

func newCanvas(w, h int) *canvas { return &canvas{w: w, h: h, pix: make([]rgb, w*h)} }

func newDoubleCanvas(w, h int) *canvas {
	c := newCanvas(w, 2*h)
	c.double = true
	return c
}

// parallel calls f for 0..n-1 on all processors and waits.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	workers := max(1, runtime.GOMAXPROCS(0))
	for k := range workers {
		wg.Go(func() {
			for i := k; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}

// later plans work that f does for 0..n-1; work does it.
func (c *canvas) later(n int, f func(i int)) {
	c.jobs = append(c.jobs, job{n, f})
	c.total += n
}

// work paints until that part of all that was planned is done.
func (c *canvas) work(part float64) {
	goal := int(math.Ceil(part * float64(c.total)))
	passed := 0
	for _, j := range c.jobs {
		from, to := max(0, c.done-passed), min(j.n, goal-passed)
		passed += j.n
		if to > from {
			parallel(to-from, func(i int) { j.f(from + i) })
			c.done += to - from
		}
	}
}

// fill plans to shade every pixel. x runs ±half of ratio, which is the
// picture's width to its height; y runs from 0 at the top to 1.
func (c *canvas) fill(ratio float64, shade func(x, y float64) rgb) {
	c.later(c.h, func(j int) {
		y := (float64(j) + 0.5) / float64(c.h)
		for i := range c.w {
			x := ((float64(i)+0.5)/float64(c.w) - 0.5) * ratio
			c.pix[j*c.w+i] = shade(x, y)
		}
	})
}

// finished does the work that is left. What was painted at double height is
// averaged by pairs of rows, which makes its edges smooth.
func (c *canvas) finished() *canvas {
	c.work(1)
	if !c.double {
		return c
	}
	out := newCanvas(c.w, c.h/2)
	parallel(out.h, func(j int) {
		for i := range out.w {
			at := 2*j*c.w + i
			out.pix[j*out.w+i] = c.pix[at].add(c.pix[at+c.w]).times(0.5)
		}
	})
	return out
}

// blurred is a three-fold box blur, near to a Gaussian.
func (c *canvas) blurred(radius int) *canvas {
	out := &canvas{w: c.w, h: c.h, pix: append([]rgb{}, c.pix...)}
	if radius < 1 {
		return out
	}
	for range 3 {
		parallel(c.h, func(j int) { boxBlur(out.pix[j*c.w:], 1, c.w, radius) })
		parallel(c.w, func(i int) { boxBlur(out.pix[i:], c.w, c.h, radius) })
	}
	return out
}

// boxBlur averages n values that lie stride apart, in place.
func boxBlur(pix []rgb, stride, n, radius int) {
	line := make([]rgb, n)
	for i := range n {
		line[i] = pix[i*stride]
	}
	at := func(i int) rgb { return line[max(0, min(n-1, i))] }
	var sum rgb
	for i := -radius; i <= radius; i++ {
		sum = sum.add(at(i))
	}
	for i := range n {
		pix[i*stride] = sum.times(1 / float64(2*radius+1))
		sum = sum.add(at(i + radius + 1)).add(at(i - radius).times(-1))
	}
}

// grained mixes in the coloured noise an unfinished picture has.
func (c *canvas) grained(amount float64, n noise) *canvas {
	out := newCanvas(c.w, c.h)
	parallel(c.h, func(j int) {
		for i := range c.w {
			g := rgb{n.unit(i, j), n.unit(i+9001, j), n.unit(i, j+9001)}
			out.pix[j*c.w+i] = mix(c.pix[j*c.w+i], g.times(0.75), amount)
		}
	})
	return out
}

// picture encodes for the screen with a soft vignette. Noise below one step
// of brightness keeps slow gradients from banding.
func (c *canvas) picture(n noise) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, c.w, c.h))
	parallel(c.h, func(j int) {
		y := 2*(float64(j)+0.5)/float64(c.h) - 1
		for i := range c.w {
			x := 2*(float64(i)+0.5)/float64(c.w) - 1
			edge := (x*x + y*y) / 2
			p := c.pix[j*c.w+i].times(1 - 0.13*edge*math.Sqrt(edge))
			dither := n.unit(i, j) + n.unit(j, i) - 1
			at := out.PixOffset(i, j)
			for k, v := range []float64{p.r, p.g, p.b} {
				out.Pix[at+k] = uint8(math.Max(0, math.Min(255, screen(v)+0.5+0.9*dither)))
			}
			out.Pix[at+3] = 255
		}
	})
	return out
}
