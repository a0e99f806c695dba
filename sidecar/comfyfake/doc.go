// Package comfyfake is a small ComfyUI in Go. It speaks the HTTP and websocket
// protocol of the real server in two generations (0.3.64 and 0.33.0), runs
// graphs of a few dozen nodes that really make pictures, sounds and texts, and
// fails on demand: every route and every message can be delayed, cut, lost or
// broken by script.
//
// A test serves it on a real socket or, inside a testing/synctest bubble, on an
// in-memory one:
//
//	l, dial := comfyfake.Pipe()
//	fake := comfyfake.New(comfyfake.Options{})
//	go fake.Serve(l)
//	defer fake.Close()
//
// What the fake answers is held to recorded exchanges of the real server, which
// lie in testdata.
package comfyfake
