package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// keepFlags say what is kept of finished runs.
type keepFlags struct {
	KeepDays  float64  `name:"keep-days" default:"0" env:"STUDIO_SIDECAR_KEEP_DAYS" help:"Remove finished runs after so many days; 0 keeps all. Pinned runs stay."`
	KeepRuns  int      `name:"keep-runs" default:"0" env:"STUDIO_SIDECAR_KEEP_RUNS" help:"Keep so many finished runs, the newest; 0 keeps all."`
	KeepBytes byteSize `name:"keep-bytes" default:"0" placeholder:"SIZE" env:"STUDIO_SIDECAR_KEEP_BYTES" help:"Keep so much of finished runs with their copies, such as 20GB; 0 keeps all."`
}

func (f *keepFlags) faults() []string {
	var out []string
	if !(f.KeepDays >= 0 && f.KeepDays*24*3600 <= maxSeconds) {
		out = append(out, fmt.Sprintf("--keep-days (STUDIO_SIDECAR_KEEP_DAYS): %v is out of range; use 0 to keep all, or more", f.KeepDays))
	}
	if f.KeepRuns < 0 {
		out = append(out, fmt.Sprintf("--keep-runs (STUDIO_SIDECAR_KEEP_RUNS): %d is negative; use 0 to keep all, or more", f.KeepRuns))
	}
	return out
}

func (f *keepFlags) retention() sidecar.Retention {
	return sidecar.Retention{
		Age: time.Duration(f.KeepDays * 24 * float64(time.Hour)), Runs: f.KeepRuns, Bytes: int64(f.KeepBytes),
	}
}

// byteSize is a number of bytes: "500000", "20GB" or "20 GiB".
type byteSize int64

// units are what a size may end with, the longest first.
var units = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}, {"b", 1},
}

// UnmarshalText reads a size as people write it.
func (b *byteSize) UnmarshalText(text []byte) error {
	number, factor := strings.ToLower(strings.TrimSpace(string(text))), int64(1)
	for _, unit := range units {
		if rest, ok := strings.CutSuffix(number, unit.name); ok {
			number, factor = strings.TrimSpace(rest), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is no size; use one like 500000, 20GB or 20GiB", text)
	}
	*b = byteSize(n * factor)
	return nil
}

// String writes a size as people read it.
func (b byteSize) String() string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if int64(b) >= unit.bytes {
			return strconv.FormatFloat(float64(b)/float64(unit.bytes), 'f', 1, 64) + " " + unit.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}
