// Package bounded holds fuzz targets to what one input may cost.
package bounded

import (
	"runtime/metrics"
	"testing"
	"time"
)

// What one input may cost at most.
const (
	Time   = time.Second
	Memory = 256 << 20 // bytes by which the process may grow
)

// Input runs do on one input. What takes too long is run again before it is
// called a hang: the machine may have been busy with something else.
func Input(t testing.TB, do func()) {
	t.Helper()
	before := held()
	if took := timed(do); took > Time {
		if again := timed(do); again > Time {
			t.Fatalf("an input took %v, then %v", took, again)
		}
	}
	if grown := held() - before; grown > Memory {
		t.Fatalf("an input made the process grow by %d MiB", grown>>20)
	}
}

func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// held is the memory that the process has from the system, in bytes.
func held() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64()) - int64(samples[1].Value.Uint64())
}
