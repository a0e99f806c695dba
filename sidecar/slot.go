package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// newSlots makes the slots of a run: one for each declared output, or one
// called "result" when none is declared.
func newSlots(r *Run, outputs []manifest.Output) []Slot {
	if len(outputs) == 0 {
		outputs = []manifest.Output{{Name: "result", Type: "json"}}
	}
	slots := make([]Slot, 0, len(outputs))
	for i, out := range outputs {
		name := out.Name
		if name == "" {
			name = "result"
		}
		kind := slotType(out.Type)
		width, height := placeholderSize(kind)
		slots = append(slots, Slot{
			ID: slotID(r.ID, i, name), Index: i, Name: name, Type: kind, Status: SlotPending,
			Width: width, Height: height, Result: pendingSlotResult(r),
			CreatedAt: r.CreatedAt, UpdatedAt: r.CreatedAt,
		})
	}
	return slots
}

func slotType(output string) string {
	switch kind := strings.ToLower(output); kind {
	case "image", "video", "audio":
		return kind
	}
	return "json"
}

// placeholderSize is the size of a tile whose own is not known: audio is a
// strip, everything else a square, as the reference's panel draws them.
func placeholderSize(kind string) (width, height int) {
	if kind == "audio" {
		return 4, 1
	}
	return 1, 1
}

func newItem(r *Run, index int) Item {
	return Item{
		Run: r.ID, Session: r.Session, Scope: r.Scope, Workflow: r.Workflow, Contract: r.Contract,
		PromptID: r.PromptID, Inputs: r.Inputs, Result: r.Result, Width: 1, Height: 1,
		// One millisecond apart, so that a list by time keeps their order.
		CreatedAt: r.CreatedAt.Add(-time.Duration(index) * time.Millisecond),
	}
}

func slotItem(r *Run, s *Slot, index int) Item {
	item := newItem(r, index)
	item.ID, item.Slot, item.Output, item.Type = firstItemID(r.ID, s.Index, s.ID), s.ID, s.Name, s.Type
	return item
}

func pendingItem(r *Run, s *Slot, receipt []byte) Item {
	item := slotItem(r, s, s.Index)
	item.Status, item.Result, item.Width, item.Height = ItemPending, receipt, s.Width, s.Height
	return item
}

func faultItemOf(r *Run, s *Slot) Item {
	item := slotItem(r, s, s.Index)
	item.Status, item.Error, item.Width, item.Height = ItemError, r.Error, s.Width, s.Height
	return item
}

func faultItem(r *Run) Item {
	item := newItem(r, 0)
	item.ID, item.Type, item.Status, item.Error = extraItemID(r.ID, "fault", 0), "image", ItemError, r.Error
	if r.Code == string(CodeRecovery) {
		item.ID = ItemID("gallery_" + r.ID)
	}
	return item
}

// itemsOf are the items of a completed slot: one for each file, or one of
// type json that says that there was none.
func itemsOf(r *Run, s *Slot, res *Result) []Item {
	before := 0
	for i := range r.Items {
		if r.Items[i].Status == ItemDone {
			before++
		}
	}
	if res == nil || len(res.Artifacts) == 0 {
		item := slotItem(r, s, before)
		item.Type, item.Status = "json", ItemDone
		return []Item{item}
	}
	items := make([]Item, 0, len(res.Artifacts))
	for i := range res.Artifacts {
		item := slotItem(r, s, before+i)
		if i > 0 {
			item.ID = extraItemID(r.ID, string(s.ID), i)
		}
		fillItem(&item, res, i)
		items = append(items, item)
	}
	return items
}

func fillItem(item *Item, res *Result, i int) {
	doc := res.artifact(i)
	item.Status = ItemDone
	item.Filename = text(doc.Filename)
	item.URL = doc.URL
	item.Artifact = mustJSON(doc)
	item.Type = manifest.Kind(res.Type, item.Filename)
	item.Output = res.Name
	item.Width, item.Height = placeholderSize(item.Type)
	if (item.Type == "image" || item.Type == "video") && doc.Width > 0 && doc.Height > 0 {
		item.Width, item.Height = doc.Width, doc.Height
	}
}

// extraItemID is a stable id that sorts with its run's time.
func extraItemID(run RunID, of string, index int) ItemID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", run, of, index))
	digits := strings.TrimPrefix(string(run), "run_")
	return ItemID("gallery_" + digits[:min(12, len(digits))] + hex.EncodeToString(sum[:10]))
}
