package main

import (
	"math"
	"slices"
	"time"
)

// percentile is the value below or at which p percent of the values lie, by
// linear interpolation between the two nearest. It is NaN without values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := p / 100 * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func median(values []float64) float64 { return percentile(values, 50) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const mebibyte = 1 << 20
