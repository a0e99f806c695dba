package routes_test

import (
	"maps"
	"slices"
)

func keys(doc map[string]any) []string { return slices.Sorted(maps.Keys(doc)) }
