package comfyfake

import (
	"cmp"
	"errors"
)

// item is one queued prompt.
type item struct {
	number  any // int64, or float64 if the client gave it
	order   float64
	id      string
	prompt  *object
	extra   any // an object, or whatever text a 0.3.64 took
	outputs []string
	created int64 // ms
}

// list is the five-element form of /queue and /history.
func (it *item) list() []any {
	return []any{it.number, it.id, it.prompt, it.extra, it.outputs}
}

// client is who gets the run's messages.
func (it *item) client() target {
	extra, _ := it.extra.(*object)
	if extra == nil || extra.at["client_id"] == nil {
		return target{none: true}
	}
	id, ok := extra.at["client_id"].(string)
	return target{id: id, odd: !ok}
}

var errSameItem = errors.New("an item with this number and id is pending")

// push does what Python's heapq does with tuples: two items with equal number
// and id cannot be compared, and the new one stays where it was appended.
func push(heap []*item, it *item) ([]*item, error) {
	heap = append(heap, it)
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		c := compare(it, heap[parent])
		if c == 0 {
			return heap, errSameItem
		}
		if c > 0 {
			break
		}
		heap[i], heap[parent] = heap[parent], it
		i = parent
	}
	return heap, nil
}

func compare(a, b *item) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.id, b.id))
}

// pop takes the lowest item and keeps the heap's shape.
func pop(heap []*item) (*item, []*item) {
	low := heap[0]
	last := len(heap) - 1
	heap[0] = heap[last]
	heap = heap[:last]
	siftDown(heap, 0)
	return low, heap
}

func siftDown(heap []*item, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && compare(heap[child+1], heap[child]) < 0 {
			child++
		}
		if compare(heap[i], heap[child]) <= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// heapify orders a heap anew after a removal.
func heapify(heap []*item) {
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
}
