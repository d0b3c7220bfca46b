package place

import (
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// promises are verdicts about rows that are promised to others, as they were given last. They hold while node and promises are the same.
type promises struct{ besides map[promisedTo]besides }

// promisedTo is a row, as Pods of one class and priority see it.
type promisedTo struct {
	class    *class
	priority int32
	row      int
}

type besides struct {
	node   framework.NodeInfo
	rivals []framework.PodInfo
	said   *framework.Status
}

// promisesKept bounds them; then they are made anew.
const promisesKept = 1 << 16

// besides judges a row that is promised to others, with them and without. Where all judges share, the verdict is the same until the node or the promises change.
func (m *mixer) besides(row int) *framework.Status {
	node := m.Memory.Table.Nodes[row]
	if len(m.others) > 0 {
		return m.judge(m.all, node)
	}
	rivals := m.Nominated(node.Node().Name)
	if slices.ContainsFunc(rivals, func(p framework.PodInfo) bool { return p.GetPod().UID == m.Pod.UID }) { // it is its own promise
		return m.judge(m.all, node)
	}
	at := promisedTo{m.class, pod.Priority(m.Pod), row}
	if b, ok := m.Memory.besides[at]; ok && b.node == node && slices.Equal(b.rivals, rivals) {
		return b.said
	}
	if m.Memory.besides == nil || len(m.Memory.besides) >= promisesKept {
		m.Memory.besides = map[promisedTo]besides{}
	}
	said := m.judge(m.all, node)
	m.Memory.besides[at] = besides{node, rivals, said}
	return said
}
