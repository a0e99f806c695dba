// Package manifest reads what an environment offers to run: the contracts that
// its pyproject.toml declares, the values a caller gives them, and the graphs
// that ComfyUI is sent. All of it is a function of files; nothing here talks to
// a network or keeps state beyond what it last read.
package manifest
