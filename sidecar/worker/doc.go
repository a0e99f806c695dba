// Package worker reaches another sidecar, the worker, that computes beside a
// ComfyUI of its own. Its Executor is that of the front door: it hands runs
// over, asks for them, and brings their files onto our own disk. Its Outbox is
// the worker's: it calls back whoever asked to be told of a run.
//
// A worker of ours keeps a run under the id that it was sent, tells of it by
// events, and has it after a restart. A reference worker makes ids of its own,
// tells nothing unasked, and forgets all when it ends: its id is adopted, it is
// asked again and again, and a submission whose answer was lost is never
// repeated.
package worker
