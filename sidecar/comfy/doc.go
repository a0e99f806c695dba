// Package comfy runs jobs on a ComfyUI: it speaks to ComfyUI's HTTP API and
// listens on its websocket.
//
// What ComfyUI answers to a question is told as it is; what its socket says is
// a hint. A prompt counts as ended when history has it, and as absent when it
// was neither in history, nor in the queue, nor in history after that, because
// a prompt moves from the one to the other between two looks.
//
// ComfyUIs of several years differ. Each ability is found out by itself, with
// GET requests only, never by a version number.
package comfy
