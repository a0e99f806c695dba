// Package sqlite keeps runs, gallery and events in one SQLite file. It is the
// one [sidecar.Store].
//
// The file is shared with the reference, comfygit-studio: its five tables are
// as it makes them, and where they disagree with ours they win. Ours stand
// beside them: run_state, node_runs, events, blobs, files, cursors,
// sidecar_meta.
//
// # Writing
//
// One goroutine writes. Store.Do hands it a function; what waits when it is
// free becomes one transaction, a group, with one fsync for all. A function
// may therefore run more than once before its call returns: a group is rolled
// back and run again without the function that failed. It must be free of
// effects of its own but for variables that it sets anew each time.
//
// An acknowledged change survives the end of the process and of the machine's
// power (synchronous=FULL). A caller whose context ends stops waiting; its
// change does not stop.
//
// A full disk fails the group that met it. Reading goes on, and writing again
// as soon as there is space. What frees space may use a reserve. A failed fsync
// leaves open what the disk holds: nothing is written after it until the file
// is opened anew.
//
// # Reading
//
// A few connections of their own read, each a moment at a time. Pages are cut
// by creation time and id, never by offset, and every query of a table that
// grows is held to an index.
//
// # Events
//
// An event is numbered and chained to the one before it of the same run
// within the transaction that makes it true. The newest are kept in memory,
// encoded as they are sent. Verify walks the chains.
//
// # Letting go
//
// Prune and DeleteRun remove finished runs with all that belongs to them, and
// the blobs that no run names any more. Copies of their outputs are doomed in
// the same transaction and removed after it. Readers of events that went are
// told so: trimmed_to is how far the log has holes, reset_to and reset_to/SCOPE
// who misses something.
//
// A Reader looks at a file beside whoever writes it: it verifies, copies, and
// tells what Prune would remove.
//
// # Files
//
// FILE.lock is locked while a Store is open, so that one process writes. A
// file that is not ours, damaged or of a newer version is refused before
// SQLite opens it, and so is one with several names. A file that is removed or
// replaced while it is open takes no more writes until it is back: each
// acknowledgement is given after a look that it, its log and its index are
// where the next start will find them. Before a migration changes a file that
// held something, a copy is put beside it.
package sqlite
