package comfyfake

import (
	"log/slog"
	"time"
)

// Generation names the ComfyUI whose behaviour is played.
type Generation int

const (
	// V0_3_64 accepts any text as prompt id and has no jobs routes.
	V0_3_64 Generation = iota
	// V0_33_0 wants canonical UUIDs, has /api/jobs and stricter file answers.
	V0_33_0
)

// String is the version text that /system_stats tells.
func (g Generation) String() string {
	if g == V0_33_0 {
		return "0.33.0"
	}
	return "0.3.64"
}

// Options shape one fake server. The zero value is a 0.3.64 on a private
// folder with no delays and no previews.
type Options struct {
	Generation Generation
	// Dir holds the folders input, output and temp. Empty means a private
	// folder that Close removes.
	Dir string
	// StepDelay is the time that each progress step of a node takes on top of
	// its own work.
	StepDelay time.Duration
	// Previews turns on the preview method: nodes with steps send pictures of
	// their unfinished work, as the real server does under --preview-method.
	Previews bool
	// HistoryLimit is the number of finished runs that an insert leaves
	// before it evicts the oldest. Zero means 10000, as in the real server.
	HistoryLimit int
	// MaxUpload bounds every request body in bytes. Zero means 100 MiB.
	MaxUpload int64
	// Now is the clock of timestamps; nil means time.Now. Delays always use
	// package time.
	Now func() time.Time
	// Log receives one line per request and run; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.HistoryLimit <= 0 {
		o.HistoryLimit = 10000
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = 100 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
