// Package protocol is what two sidecars say to each other: the JSON and the
// forms of the proxy routes and of the callbacks, and the tokens that open
// them. Both ends use it, so that they cannot differ.
//
// Shapes are those of the reference, comfygit-studio 0.5.0, which may stand in
// either place. What is ours alone stands in headers: a front door of ours
// sends the prompt id under which it keeps the run, and a worker of ours keeps
// it, so that a run that is handed over twice is one run. A worker says so with
// each of its answers.
package protocol
