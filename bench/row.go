package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// subject is what a goal bounds.
type subject int

const (
	none         subject = iota
	value                // the sidecar's own figure
	overPeer             // the sidecar's figure divided by the reference's
	overRaw              // the sidecar's figure divided by the raw copy's
	aboveRaw             // the sidecar's figure minus the raw copy's
	subjectCount         // keep last
)

// goal is a wanted bound. The zero goal wants nothing.
type goal struct {
	of    subject
	least bool // the bound is a minimum
	bound float64
}

func atLeast(of subject, bound float64) goal { return goal{of, true, bound} }
func atMost(of subject, bound float64) goal  { return goal{of, false, bound} }

func (g goal) String() string {
	if g.of == none {
		return ""
	}
	sign := "≤"
	if g.least {
		sign = "≥"
	}
	text := [subjectCount]string{value: "%s %s", overPeer: "%s %s× reference", overRaw: "%s %s× raw", aboveRaw: "%s raw + %s"}[g.of]
	return fmt.Sprintf(text, sign, strconv.FormatFloat(g.bound, 'g', -1, 64))
}

// verdict says how a row stands to its goal.
type verdict string

const (
	unjudged verdict = ""
	met      verdict = "met"
	missed   verdict = "missed"
	unknown  verdict = "unknown" // a figure that the goal needs was not measured
)

// row is one measure. A figure that was not measured is NaN.
type row struct {
	group     string
	measure   string
	unit      string
	sidecar   float64
	reference float64
	raw       float64
	goal      goal
	err       error // why there are no figures
}

// blank is a row without figures.
func blank(group, measure, unit string, g goal) row {
	return row{group: group, measure: measure, unit: unit, sidecar: math.NaN(), reference: math.NaN(), raw: math.NaN(), goal: g}
}

// set puts a contender's figure into its column.
func (r *row) set(who role, v float64) {
	switch who {
	case sidecarRole:
		r.sidecar = v
	case referenceRole:
		r.reference = v
	case rawRole:
		r.raw = v
	}
}

func (r row) overPeer() float64 { return r.sidecar / r.reference }
func (r row) overRaw() float64  { return r.sidecar / r.raw }

func (r row) verdict() verdict {
	var v float64
	switch r.goal.of {
	case value:
		v = r.sidecar
	case overPeer:
		v = r.overPeer()
	case overRaw:
		v = r.overRaw()
	case aboveRaw:
		v = r.sidecar - r.raw
	default:
		return unjudged
	}
	switch {
	case math.IsNaN(v):
		return unknown
	case r.goal.least && v >= r.goal.bound, !r.goal.least && v <= r.goal.bound:
		return met
	}
	return missed
}

// figure writes a number with about three digits, and nothing for NaN.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 1000:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.1 || a == 0:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// thousands puts a comma before each group of three digits.
func thousands(digits string) string {
	sign, rest := "", digits
	if strings.HasPrefix(digits, "-") {
		sign, rest = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range rest {
		if i > 0 && (len(rest)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

func times(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return figure(v) + "×"
}
