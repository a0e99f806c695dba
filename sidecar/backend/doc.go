// Package backend is what the executors share of speaking HTTP to a backend,
// a ComfyUI or a worker: bounded exchanges that tell whether the other side may
// have heard them, and files that may take as long as they like while bytes
// move.
package backend
