package blocks

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Node is one node as the page draws it. CPU is in milli-cores, memory in bytes.
type Node struct {
	Name      string   `json:"n"`
	CPU       int64    `json:"c"` // allocatable
	Memory    int64    `json:"m"`
	Pods      int64    `json:"p"`
	Ready     bool     `json:"ok"`
	Cordoned  bool     `json:"cordoned,omitempty"`
	Troubles  []string `json:"troubles,omitempty"` // conditions that are not as they should be, with their messages
	Zone      string   `json:"zone,omitempty"`
	Kubelet   string   `json:"v"`
	Addresses []string `json:"ip,omitempty"`
}

// OfNode makes the row of a node.
func OfNode(n *corev1.Node) Node {
	out := Node{Name: n.Name, CPU: n.Status.Allocatable.Cpu().MilliValue(),
		Memory: n.Status.Allocatable.Memory().Value(), Pods: n.Status.Allocatable.Pods().Value(),
		Cordoned: n.Spec.Unschedulable, Zone: n.Labels[corev1.LabelTopologyZone],
		Kubelet: n.Status.NodeInfo.KubeletVersion}
	for _, c := range n.Status.Conditions {
		want := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			want = corev1.ConditionTrue
			out.Ready = c.Status == want
		}
		if c.Status != want {
			out.Troubles = append(
				out.Troubles,
				strings.TrimSuffix(string(c.Type)+" is "+string(c.Status)+": "+c.Message,
					": "),
			)
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out.Addresses = append(out.Addresses, a.Address)
		}
	}
	return out
}
