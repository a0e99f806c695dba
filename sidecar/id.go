package sidecar

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

type (
	// RunID names a run: "run_" and 32 hex digits, ordered by time.
	RunID string
	// PromptID names a prompt in ComfyUI: a canonical lower-case UUID, the
	// only form that newer ComfyUIs accept.
	PromptID string
	// SlotID names one declared output of a run:
	// "slot_" RunID "_" index "_" output name without odd characters.
	SlotID string
	// ItemID names a gallery item: "gallery_" RunID for the first slot's first
	// file, "gallery_" SlotID for that of another, "gallery_" hex for the rest.
	ItemID string
	// SessionID is what a client calls itself: [A-Za-z0-9_-]{1,128}.
	SessionID string
	// Scope is whose runs and items are seen together: a session, or
	// SharedScope for all.
	Scope string
	// NodeID names a node of a graph, as the graph writes it.
	NodeID string
	// Seq numbers an event. It grows by one with each event of the store.
	Seq int64
)

// SharedScope is the scope of everybody when the gallery is shared.
const SharedScope Scope = "shared"

// Session is a client and the scope that it sees.
type Session struct {
	ID    SessionID
	Scope Scope
}

// orderedHex is 32 hex digits that sort by time: index pages stay warm where
// rows are appended.
func orderedHex() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

func newRunID() (RunID, error) {
	h, err := orderedHex()
	return RunID("run_" + h), err
}

func newPromptID() (PromptID, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("draw a prompt id: %w", err)
	}
	return PromptID(id.String()), nil
}

func slotID(run RunID, index int, output string) SlotID {
	return SlotID(fmt.Sprintf("slot_%s_%d_%s", run, index, safeToken(output, "output")))
}

// firstItemID is the id of a slot's first file. It is known before the file
// is, so that a pending tile becomes the finished one.
func firstItemID(run RunID, index int, slot SlotID) ItemID {
	if index == 0 {
		return ItemID("gallery_" + run)
	}
	return ItemID("gallery_" + slot)
}

// safeToken keeps letters, digits, - and _ of text.
func safeToken(text, otherwise string) string {
	kept := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || isAlnum(r) {
			return r
		}
		return -1
	}, text)
	if kept == "" {
		return otherwise
	}
	return kept
}
