package main

import (
	"math"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		p      float64
		want   float64
	}{
		"median of odd count is the middle":     {[]float64{9, 1, 5}, 50, 5},
		"median of even count is between":       {[]float64{4, 1, 3, 2}, 50, 2.5},
		"one value is every percentile":         {[]float64{7}, 95, 7},
		"p95 lies between the nearest two":      {[]float64{0, 10, 20, 30, 40}, 95, 38},
		"p0 is the least":                       {[]float64{3, 2, 8}, 0, 2},
		"p100 is the most":                      {[]float64{3, 2, 8}, 100, 8},
		"p95 of a hundred and one is the 95th":  {ramp(101), 95, 95},
		"equal values have themselves as p95":   {[]float64{4, 4, 4}, 95, 4},
		"an outlier does not move the median":   {[]float64{1, 1, 1, 1, 1000}, 50, 1},
		"negative values keep their order":      {[]float64{-5, -1, -3}, 50, -3},
		"values need not come in their order":   {[]float64{100, 1, 50, 2, 3}, 50, 3},
		"percentile interpolates between ranks": {[]float64{1, 2}, 25, 1.25},
	} {
		t.Run(name, func(t *testing.T) {
			if got := percentile(c.values, c.p); got != c.want {
				t.Errorf("percentile(%v, %v) = %v, want %v", c.values, c.p, got, c.want)
			}
		})
	}
}

func ramp(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(n - 1 - i)
	}
	return out
}

func TestPercentile_leaves_its_values_alone(t *testing.T) {
	values := []float64{3, 1, 2}
	median(values)
	if values[0] != 3 || values[1] != 1 || values[2] != 2 {
		t.Errorf("values are %v now", values)
	}
}

func TestPercentile_of_nothing_is_not_a_number(t *testing.T) {
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median(nil) = %v", got)
	}
}

func TestMilliseconds(t *testing.T) {
	if got := milliseconds(1500 * time.Microsecond); got != 1.5 {
		t.Errorf("1.5 ms = %v", got)
	}
}
