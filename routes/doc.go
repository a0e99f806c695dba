// Package routes is the HTTP face of Studio Sidecar: it decodes requests, makes
// one call of the domain, and renders the answer.
//
// Every route stands in one table, Table, which drives the router and whatever
// else lists routes. Handlers return errors; one place turns them into
// {"error", "message", "hint"} with the status of their code. What caused an
// error goes to the log under the request's id, never to the client.
//
// Shapes, cookies and codes are those of the reference server, comfygit-studio
// 0.5.0. Every address in an answer is made by one function, which puts the
// public prefix in front of it.
package routes
