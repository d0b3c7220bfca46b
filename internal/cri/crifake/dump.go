package crifake

import (
	"fmt"
	"sort"
	"strings"
)

// Dump prints the state, one line per sandbox and container, ordered by name: for a test's failure
// message or its assertion.
//
//	pod default/web attempt=0 ready ip=10.88.0.2
//	  app attempt=1 running image=docker.io/library/web:1
//	  old attempt=0 exited code=1 reason=Error
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pods []*sandbox
	for _, s := range f.sandboxes {
		pods = append(pods, s)
	}
	sort.Slice(pods, func(a, b int) bool { return pods[a].name() < pods[b].name() })
	var b strings.Builder
	for _, s := range pods {
		m := s.config.GetMetadata()
		fmt.Fprintf(&b, "pod %s/%s attempt=%d", m.GetNamespace(), m.GetName(), m.GetAttempt())
		if s.ready {
			b.WriteString(" ready")
		} else {
			b.WriteString(" stopped")
		}
		if s.ip.IsValid() {
			fmt.Fprintf(&b, " ip=%s", s.ip)
		}
		b.WriteByte('\n')
		for _, c := range f.containersInLocked(s) {
			fmt.Fprintf(&b, "  %s attempt=%d %s", c.name(), c.config.GetMetadata().GetAttempt(),
				strings.ToLower(strings.TrimPrefix(c.state().String(), "CONTAINER_")))
			if c.finished.IsZero() {
				fmt.Fprintf(&b, " image=%s\n", c.statusImage())
			} else {
				fmt.Fprintf(&b, " code=%d reason=%s\n", c.exit, c.reason)
			}
		}
	}
	return b.String()
}
