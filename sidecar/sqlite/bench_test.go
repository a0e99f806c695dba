package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/sqlite"
)

// BenchmarkDo measures acknowledged changes, one caller and many.
func BenchmarkDo(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := fresh(b)
			before := store.Stats()
			var n atomic.Int64
			b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
			if callers == 1 {
				for b.Loop() {
					appendAll(b, store, health("alice", int(n.Add(1))))
				}
			} else {
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						appendAll(b, store, health("alice", int(n.Add(1))))
					}
				})
			}
			after := store.Stats()
			b.ReportMetric(float64(after.Calls-before.Calls)/float64(after.Transactions-before.Transactions), "calls/tx")
		})
	}
}

// BenchmarkUpdate measures a node's signal in a run of many nodes.
func BenchmarkUpdate(b *testing.B) {
	for _, nodes := range []int{10, 300} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			store := fresh(b)
			run := newRun("alice", 1)
			for n := range nodes {
				run.Nodes = append(run.Nodes, sidecar.NodeRun{Node: sidecar.NodeID(fmt.Sprint(n)), Class: "KSampler", StartedAt: birth})
			}
			create(b, store, run)
			n := 0
			for b.Loop() {
				n++
				_, err := store.Update(context.Background(), run.ID, func(r *sidecar.Run) ([]sidecar.Event, error) {
					r.Nodes[n%nodes].FinishedAt = birth.Add(time.Duration(n) * time.Millisecond)
					return []sidecar.Event{told(r, sidecar.EventNodeFinished)}, nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkItems measures a page of a gallery of 100,000 items: the newest,
// and one from the depths.
func BenchmarkItems(b *testing.B) {
	store := open(b, filepath.Join(b.TempDir(), "state.db"))
	const items = 100_000
	at := func(n int) time.Time { return birth.Add(time.Duration(n) * time.Second) }
	for n := 0; n < items; {
		err := store.Do(context.Background(), func(tx *sqlite.Tx) error {
			for range 1000 {
				_, err := tx.Exec(`INSERT INTO gallery_items VALUES (?, ?, 's', 'alice', 'workflow', 'contract', 'done', 'image', ?, 'image',
					'3d3a3a2e-6a3f-4c4e-9df0-1a2b3c4d5e6f', 'file.png', '/outputs/view?filename=file.png', 512, 512,
					'{"seed":1}', '{"filename":"file.png"}', '{"status":"completed"}', NULL, ?, ?)`,
					fmt.Sprintf("gallery_%08d", n), fmt.Sprintf("run_%08d", n), "slot", sidecar.FormatTime(at(n)), sidecar.FormatTime(at(n)))
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for name, cursor := range map[string]sidecar.Cursor{
		"first": {}, "deep": {CreatedAt: at(500), ID: "gallery_00000500"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				page, err := store.Items(context.Background(), sidecar.ItemFilter{Scope: "alice", Limit: 100, After: cursor})
				if err != nil || len(page.Items) != 100 {
					b.Fatal(len(page.Items), err)
				}
			}
		})
	}
}
