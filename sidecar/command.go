package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// CommandLife is how long a command and its answer are kept: longer than
// anybody repeats a request that was not answered.
const CommandLife = 24 * time.Hour

// CodeCondition is the code of a change that was meant for another revision.
const CodeCondition Code = "precondition_failed"

// ErrCommandTaken is returned for a change whose command is stored already:
// what it asks for was done.
var ErrCommandTaken = errors.New("this command was carried out before")

// Command is a change that somebody asked for under a key, so that asking
// again changes nothing more.
type Command struct {
	Seq int64 // in the order in which they were committed, from 1
	// Owner is the session that came with the key; empty: none did, and the
	// key stands for itself.
	Owner SessionID
	Key   string
	Hash  []byte // SHA-256 of what was asked for
	// Session is whose command it is; without an Owner, the session that the
	// caller was given.
	Session SessionID
	Kind    string // name of the route
	Run     RunID  // which it made or changed; empty for none
	At      time.Time
	Answer  *Answer // nil until it was rendered
}

// Answer is what a command was answered.
type Answer struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// CommandFilter chooses commands.
type CommandFilter struct {
	Session SessionID // empty: all
	After   int64
	Limit   int
}

// CommandPage is a page of commands, without their answers' headers and bodies.
type CommandPage struct {
	Commands []*Command
	More     bool
}

// CommandStore keeps commands. The methods of Store that change what people
// see commit the command of their context's Order together with the change.
type CommandStore interface {
	// Command reads a command; ErrNotFound when there is none.
	Command(ctx context.Context, owner SessionID, key string) (*Command, error)
	// AnswerCommand keeps the answer of a command, adding it when it is not
	// there. The first answer stays: AnswerCommand returns the command as
	// stored.
	AnswerCommand(ctx context.Context, c *Command) (*Command, error)
	// Commands lists commands, oldest first.
	Commands(ctx context.Context, filter CommandFilter) (CommandPage, error)
	// ExpireCommands removes commands that were committed before a time and
	// returns how many.
	ExpireCommands(ctx context.Context, before time.Time) (int, error)
}

// Order is what a caller brings along for the first change that its call
// makes: the command that the change carries out, and the revisions of a run
// that it is meant for. Both become part of the change's transaction; later
// changes of the call are not concerned.
type Order struct {
	Command *Command // nil: no key was given
	Expect  []int64  // nil: whatever the revision is

	checked, settled atomic.Bool
}

type orderKey struct{}

// WithOrder gives the order to the changes that are made with the context.
func WithOrder(ctx context.Context, o *Order) context.Context {
	return context.WithValue(ctx, orderKey{}, o)
}

// OrderOf is the order that waits for its change; nil when there is none.
func OrderOf(ctx context.Context) *Order {
	o, _ := ctx.Value(orderKey{}).(*Order)
	if o == nil || o.Settled() {
		return nil
	}
	return o
}

// Settled reports whether the order's change was committed.
func (o *Order) Settled() bool { return o.settled.Load() }

// Settle notes that the order's change was committed. Stores call it.
func (o *Order) Settle() { o.settled.Store(true) }

// Check refuses a run whose revision is none of those expected, with an *Error
// that shows the run. A nil order expects nothing.
func (o *Order) Check(r *Run) error {
	if o == nil || o.Expect == nil {
		return nil
	}
	o.checked.Store(true)
	if slices.Contains(o.Expect, r.Revision) {
		return nil
	}
	return &Error{
		Code: CodeCondition, Message: fmt.Sprintf("Run '%s' has moved on to revision %d; nothing was done.", r.ID, r.Revision),
		Hint: "Look at the run, then ask again with the ETag that it has now, or without If-Match.", Run: r,
	}
}

// Checked refuses, with an *Error, to make a change of no run when the order
// expects revisions of one. Stores ask it before they commit.
func (o *Order) Checked() error {
	if o.Expect == nil || o.checked.Load() {
		return nil
	}
	return &Error{
		Code: CodeCondition, Message: "There is no run here whose revision could be the expected one; nothing was done.",
		Hint: "Ask again without If-Match.",
	}
}

// Command reads what was asked for under a key; nil when nothing was.
func (s *Studio) Command(ctx context.Context, owner SessionID, key string) (*Command, error) {
	c, err := s.store.Command(ctx, owner, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, storageError(err)
	}
	return c, nil
}

// AnswerCommand keeps the answer of a command, unless it has one, and returns
// the command as stored. It does so whatever becomes of ctx.
func (s *Studio) AnswerCommand(ctx context.Context, c *Command) (*Command, error) {
	stored, err := s.store.AnswerCommand(context.WithoutCancel(ctx), c)
	if err != nil {
		return nil, storageError(err)
	}
	return stored, nil
}

// Commands lists commands, oldest first.
func (s *Studio) Commands(ctx context.Context, filter CommandFilter) (CommandPage, error) {
	page, err := s.store.Commands(ctx, filter)
	if err != nil {
		return page, storageError(err)
	}
	return page, nil
}

// Resume is Launch for a scope's run that was launched before, and whose
// caller was not answered: it waits for the backend's yes or no as Launch does.
func (s *Studio) Resume(ctx context.Context, scope Scope, id RunID) (*Run, error) {
	if _, err := s.Lookup(ctx, scope, id); err != nil {
		return nil, err
	}
	wait, stop := context.WithTimeout(ctx, DecisionWait)
	defer stop()
	return s.awaitOr(wait, id, &s.queue.filled, s.decidedOn)
}
