// Package checksum sums up what checkpoints hold, as upstream's kubelet does.
//
// In: any value. Out: a number that is the same for equal values of types of the same names.
package checksum

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/utils/dump"
)

// Checksum is the sum over a checkpoint's content.
type Checksum uint64

// New sums up a value.
func New(data any) Checksum { return sum(dump.ForHash(data)) }

// OfRenamed sums up a value whose type had another name when the sum was first made: names are a
// part of it.
func OfRenamed(data any, name, then string) Checksum {
	return sum(strings.Replace(dump.ForHash(data), name, then, 1))
}

// sum sums up a value that was printed by dump.ForHash.
func sum(text string) Checksum {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, text) // a hash takes everything
	return Checksum(h.Sum32())
}
