package sidecar

func (t *transition) node(sig Signal) {
	r := t.run
	if r.Phase == PhaseQueued {
		t.start()
	}
	switch sig.Kind {
	case SignalCached:
		for _, ref := range sig.Nodes {
			if n := r.nodeRun(ref); n.StartedAt.IsZero() {
				n.Cached, n.StartedAt, n.FinishedAt = true, t.now, t.now
				t.nodeChanged(EventNodeFinished, n)
			}
		}
	case SignalNodeStarted:
		if n := r.nodeRun(sig.Node); n.StartedAt.IsZero() {
			n.StartedAt = t.now
			t.nodeChanged(EventNodeStarted, n)
		}
	case SignalNodeFinished:
		if n := r.nodeRun(sig.Node); n.FinishedAt.IsZero() {
			if n.StartedAt.IsZero() {
				n.StartedAt = t.now
			}
			n.FinishedAt, n.Error = t.now, sig.Node.Error
			t.nodeChanged(EventNodeFinished, n)
		}
	}
}

// nodeRun finds or adds the node run of ref in the current attempt.
func (r *Run) nodeRun(ref NodeRef) *NodeRun {
	for i := range r.Nodes {
		if r.Nodes[i].Node == ref.ID && r.Nodes[i].Attempt == r.Attempt {
			return &r.Nodes[i]
		}
	}
	r.Nodes = append(r.Nodes, NodeRun{
		Node: ref.ID, Attempt: r.Attempt, Class: ref.Class, Title: ref.Title, Parent: ref.Parent,
	})
	return &r.Nodes[len(r.Nodes)-1]
}

// made notes which node made which files. A node of which nothing was heard ran
// all the same.
func (t *transition) made(sig *Signal) {
	counted := map[fileName]bool{}
	for i := range sig.Results {
		res := &sig.Results[i]
		for k, a := range res.Artifacts {
			name := fileName{text(a.Filename), text(a.Subfolder), text(a.Type)}
			if name.file == "" || counted[name] {
				continue
			}
			counted[name] = true
			n := t.run.nodeRun(NodeRef{ID: NodeID(res.NodeID)})
			if n.FinishedAt.IsZero() && n.StartedAt.IsZero() {
				n.Cached, n.FinishedAt = sig.AllCached, t.now
			}
			n.Files++
			n.Bytes += res.file(k).Bytes
			t.targets.node(n)
		}
	}
}

// fileName names a file of the backend.
type fileName struct{ file, subfolder, kind string }

// closeNodes ends what was running when the run ended.
func (t *transition) closeNodes() {
	for i := range t.run.Nodes {
		if n := &t.run.Nodes[i]; n.FinishedAt.IsZero() {
			n.FinishedAt = t.now
			t.targets.node(n)
		}
	}
}

func (t *transition) nodeChanged(kind EventType, n *NodeRun) {
	t.targets.node(n)
	t.changed = true
	if t.kind == "" {
		t.kind = kind
	}
}
