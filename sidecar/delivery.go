package sidecar

import (
	"context"
	"time"
)

// Delivery is what is left to tell of a run to its Callback.
type Delivery struct {
	ID       int64 // grows with each run that asks for one
	Run      RunID
	Callback Callback
	// Told is the run's revision that was told last; 0: none.
	Told int64
	// Attempts counts the tries since then, DueAt is when the next one is.
	Attempts int
	DueAt    time.Time
	Error    string // of the latest try
}

// DeliveryStore keeps deliveries until they are made. As with Store, a method
// that writes returns when the write is durable.
type DeliveryStore interface {
	// Deliveries lists those with an id above after, oldest first.
	Deliveries(ctx context.Context, after int64) ([]Delivery, error)
	// SaveDelivery writes Told, Attempts, DueAt and Error down.
	SaveDelivery(ctx context.Context, d Delivery) error
	// DropDelivery removes one that was made, or given up.
	DropDelivery(ctx context.Context, d Delivery) error
	// Changed returns a channel that is closed when events were committed.
	Changed() <-chan struct{}
}
