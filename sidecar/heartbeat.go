package sidecar

import "time"

const (
	// bellPause bounds how often movement of the queue makes a run look.
	bellPause = 500 * time.Millisecond
	// hurryPause is the first pause after the backend said that it is ending:
	// history follows within milliseconds.
	hurryPause = 10 * time.Millisecond
	// lateNews is how long messages may come after the end was seen: ComfyUI
	// sends them one by one, pictures of previews among them.
	lateNews = 500 * time.Millisecond
	// dueSlack keeps a timer that fires a hair early from spinning.
	dueSlack = time.Millisecond
)

// heartbeat decides when a run is looked at unasked: after 100 ms, then ever
// less often, and at once when its time is up.
type heartbeat struct {
	timer *time.Timer
	pause time.Duration
	due   time.Time
	last  time.Time // when it was looked
}

func newHeartbeat(due time.Time) *heartbeat {
	return &heartbeat{timer: time.NewTimer(lookPause), pause: lookPause, due: due, last: time.Now()}
}

func (b *heartbeat) stop() { b.timer.Stop() }

func (b *heartbeat) hurry() { b.pause = hurryPause / 2 }

// within makes the next look come no later than d after the last.
func (b *heartbeat) within(d time.Duration) { b.pause = min(b.pause, d) }

func (b *heartbeat) looked() {
	b.last = time.Now()
	b.pause = min(2*b.pause, lookPauseMax)
}

// reset counts the pause from the last look: news of others must not put the
// next one off for ever.
func (b *heartbeat) reset() {
	wait := time.Until(b.last.Add(b.pause))
	if !b.due.IsZero() {
		wait = min(wait, time.Until(b.due))
	}
	b.timer.Reset(max(wait, dueSlack))
}
