package memapi

import (
	"fmt"
	"hash/fnv"
	"sync"

	"k8s.io/apimachinery/pkg/util/rand"
)

// names gives out generated names: the n-th of a prefix is always the same, and looks like the
// library's.
type names struct {
	mu    sync.Mutex
	count map[string]int
}

func newNames() *names { return &names{count: map[string]int{}} }

// suffixLength is that of the library's generated names.
const suffixLength = 5

func (n *names) generate(prefix string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count[prefix]++
	h := fnv.New64a()
	fmt.Fprint(h, prefix, n.count[prefix])
	return prefix + rand.SafeEncodeString(fmt.Sprintf("%020d", h.Sum64())[20-suffixLength:])
}
