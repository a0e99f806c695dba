package comfyfake

import "math"

// noise is smooth gradient noise over the plane, the same for the same seed.
type noise struct{ seed uint64 }

// hash mixes a lattice point into 64 well-spread bits.
func (n noise) hash(x, y int) uint64 {
	h := n.seed ^ uint64(x)*0x9e3779b97f4a7c15 ^ uint64(y)*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return h
}

// unit is a fixed number in 0..1 for a lattice point.
func (n noise) unit(x, y int) float64 { return float64(n.hash(x, y)>>11) / (1 << 53) }

func (n noise) slope(x, y int, dx, dy float64) float64 {
	h := n.hash(x, y)
	gx := float64(int32(h)) / (1 << 31)
	gy := float64(int32(h>>32)) / (1 << 31)
	return gx*dx + gy*dy
}

// at is about -1..1.
func (n noise) at(x, y float64) float64 {
	fx, fy := math.Floor(x), math.Floor(y)
	ix, iy := int(fx), int(fy)
	dx, dy := x-fx, y-fy
	u := dx * dx * dx * (dx*(dx*6-15) + 10)
	v := dy * dy * dy * (dy*(dy*6-15) + 10)
	top := lerp(n.slope(ix, iy, dx, dy), n.slope(ix+1, iy, dx-1, dy), u)
	low := lerp(n.slope(ix, iy+1, dx, dy-1), n.slope(ix+1, iy+1, dx-1, dy-1), u)
	return 1.6 * lerp(top, low, v)
}

// fbm sums octaves, each turned so that the lattice does not show.
func (n noise) fbm(x, y float64, octaves int) float64 {
	sum, amp := 0.0, 0.5
	for range octaves {
		sum += amp * n.at(x, y)
		x, y = 1.6*x+1.2*y+17.3, -1.2*x+1.6*y+9.1
		amp *= 0.5
	}
	return sum
}

// ridged has crests where fbm has zeros: mountains.
func (n noise) ridged(x, y float64, octaves int) float64 {
	sum, amp, weight := 0.0, 0.5, 1.0
	for range octaves {
		v := 1 - math.Abs(n.at(x, y))
		v *= v * weight
		weight = clamp01(1.6 * v)
		sum += amp * v
		x, y = 1.7*x+1.1*y+5.2, -1.1*x+1.7*y+11.7
		amp *= 0.5
	}
	return sum
}
