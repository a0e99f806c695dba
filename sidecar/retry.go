package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// retry calls do until it works, ctx ends, or trying again does not help. That
// it failed is told once: a disk may be full for long, and many may try.
func retry[T any](ctx context.Context, log *slog.Logger, what string, do func() (T, error)) (T, error) {
	level := slog.LevelError
	for pause := lookPause; ; pause = min(2*pause, lookPauseMax) {
		got, err := do()
		if err == nil || !passing(err) || ctx.Err() != nil {
			return got, err
		}
		log.Log(ctx, level, what, "err", err)
		level = slog.LevelDebug
		if !sleep(ctx, pause) {
			return got, ctx.Err()
		}
	}
}

// passing tells that an error of the store may not come again: its disk is full
// or busy, or a wait was too short.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var told *Error
	return errors.As(err, &told) && told.Code == CodeStorage && !errors.Is(err, ErrLasting)
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
