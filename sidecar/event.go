package sidecar

import (
	"encoding/json"
	"time"
)

// EventType names what an event tells; the names are those of the SSE stream.
type EventType string

// The types of events.
const (
	EventRunStarted       EventType = "run_started"
	EventRunProgress      EventType = "run_progress"
	EventOutputCompleted  EventType = "run_output_completed"
	EventRunCompleted     EventType = "run_completed"
	EventRunFailed        EventType = "run_failed"
	EventRunCancelled     EventType = "run_cancelled"
	EventNodeStarted      EventType = "node_started"
	EventNodeFinished     EventType = "node_finished"
	EventRunDeleted       EventType = "run_deleted" // belongs to no run: its target is "runs/ID"
	EventContractsChanged EventType = "contracts_changed"
	EventHealthChanged    EventType = "health_changed"
	EventQueueChanged     EventType = "queue_changed"
)

// Event is a fact that was committed. It names its targets and their new
// values, never a graph or a raw result.
type Event struct {
	Seq      Seq // given by the store
	Run      RunID
	Scope    Scope // empty: for everybody
	Revision int64
	Type     EventType
	At       time.Time
	// Targets maps "run", "slots/ID", "items/ID" or "nodes/ID/ATTEMPT" to the
	// new values, a JSON object.
	Targets json.RawMessage
}

// Record is an event as it is stored and sent: its JSON is encoded once.
type Record struct {
	Seq   Seq
	Run   RunID
	Scope Scope
	Type  EventType
	JSON  []byte
}
