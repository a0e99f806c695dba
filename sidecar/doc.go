// Package sidecar is the domain of Studio Sidecar: runs of contracts, the
// signals that move them, the events that tell of them, and the service,
// Studio, that launches, follows, cancels and shows them. It knows neither
// HTTP nor SQL nor ComfyUI's protocol; those stand at the rim.
//
// A request flows one way:
//
//	routes    decodes a request                        → Studio.Launch
//	manifest  finds the contract in one snapshot, binds the inputs, builds the graph
//	sidecar   stores the run, then hands it to the Executor
//	comfy     speaks to ComfyUI and reports what it hears as Signals
//	sidecar   Run.Apply(signal) inside one transaction of the store
//	sqlite    commits run, slots, gallery, node runs and events, then rings the bell
//	routes    reads the log from the number a reader holds → the browser
//
// Five invariants hold, each by a test.
//
// I1, row before world. A run, its contract as launched, its graph and its own
// prompt id are committed before ComfyUI hears of it. After a crash, a lost
// answer or a 5xx the prompt is looked for in history, queue and history
// again, and is submitted again only when it is in none of them.
//
// I2, one door. Only Run.Apply changes a status. Terminal statuses absorb:
// what arrives later may settle the phase, never revive the run.
//
// I3, the log is the stream. An event gets its number in the transaction that
// made it true. Publishing is ringing a bell; every reader holds a number and
// reads on from there.
//
// I4, history is the truth. A message on ComfyUI's socket is a hint to look
// sooner. A run ends on what history says, or on its proven absence.
//
// I5, a wait is not a run. A caller's time-out, a closed browser or a dropped
// socket ends nothing but itself.
package sidecar
