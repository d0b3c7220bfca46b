package nodepressure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// amounts are what of a Pod can be set, by name.
var amounts = map[string]func(*Pod, int64){
	"memory": func(p *Pod, n int64) {
		p.Use.Memory = &n
		others := int64(0)
		for i := range p.Use.Containers {
			if c := &p.Use.Containers[i]; i > 0 && c.Memory != nil {
				others += *c.Memory
			}
		}
		if first := max(0, n-others); len(p.Use.Containers) > 0 {
			p.Use.Containers[0].Memory = &first
		}
	},
	"layer": func(p *Pod, n int64) { firstContainer(p).Layer = withBytes(firstContainer(p).Layer, n) },
	"logs":  func(p *Pod, n int64) { firstContainer(p).Logs = withBytes(firstContainer(p).Logs, n) },
	"processes": func(p *Pod, n int64) {
		p.Use.Processes = uint64(n)
	},
	"growth.memory":    func(p *Pod, n int64) { p.Growth.Memory = n },
	"growth.layer":     func(p *Pod, n int64) { p.Growth.Layer = n },
	"growth.logs":      func(p *Pod, n int64) { p.Growth.Logs = n },
	"growth.processes": func(p *Pod, n int64) { p.Growth.Processes = n },
	"priority": func(p *Pod, n int64) {
		to := int32(n)
		p.Pod.Spec.Priority = &to
	},
	"request.memory": func(p *Pod, n int64) {
		now := requestOf(&Node{}, eviction.MemoryAvailable, p.Pod)
		setRequest(p.Pod, p.Use, n-now)
	},
}

func firstContainer(p *Pod) *eviction.ContainerUse {
	if len(p.Use.Containers) == 0 {
		p.Use.Containers = []eviction.ContainerUse{{Name: p.Pod.Spec.Containers[0].Name}}
	}
	return &p.Use.Containers[0]
}

func withBytes(s *eviction.Space, n int64) *eviction.Space {
	out := eviction.Space{Bytes: n}
	if s != nil {
		out.Inodes = s.Inodes
	}
	return &out
}

func amountNames() string {
	return strings.Join(append(sortedKeys(amounts), "volumes.NAME"), ", ")
}

// Set changes one figure: pod/NAME.KEY=AMOUNT, pod/NAMESPACE/NAME.KEY=AMOUNT or node.SIGNAL=AMOUNT.
// What a Pod takes more is taken of the node, and the other way round. Errors are *FieldError whose
// field is the left side.
func (n *Node) Set(change string) error {
	left, right, ok := strings.Cut(change, "=")
	if !ok {
		return wrong(change, "must be pod/NAME.KEY=AMOUNT or node.SIGNAL=AMOUNT")
	}
	if signal, isNode := strings.CutPrefix(left, "node."); isNode {
		return n.setSignal(left, eviction.Signal(signal), right)
	}
	of, isPod := strings.CutPrefix(left, "pod/")
	if !isPod {
		return wrong(left, "must begin with pod/ or node.")
	}
	p, key, err := n.podAndKey(of)
	if err != nil {
		return &FieldError{left, err}
	}
	if p == nil {
		return wrong(left, "there is no such Pod and key; keys are %s", amountNames())
	}
	value, err := number(key, right)
	if err != nil {
		return &FieldError{left, err}
	}
	before := n.amounts(p)
	if volume, ok := strings.CutPrefix(key, "volumes."); ok {
		if !slices.ContainsFunc(p.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume }) {
			return wrong(left, "the Pod has no volume %q", volume)
		}
		if p.Use.Volumes == nil {
			p.Use.Volumes = map[string]eviction.Space{}
		}
		p.Use.Volumes[volume] = eviction.Space{Bytes: value, Inodes: p.Use.Volumes[volume].Inodes}
	} else {
		amounts[key](p, value)
	}
	for signal, now := range n.amounts(p) {
		l := n.Signals[signal]
		l.Available = max(0, min(l.Available+before[signal]-now, max(l.Capacity, l.Available)))
		n.Signals[signal] = l
	}
	return nil
}

// podAndKey takes NAME.KEY apart: names may have dots too. The error names the Pods where the name
// is that of several.
func (n *Node) podAndKey(of string) (*Pod, string, error) {
	for i := range of {
		if of[i] != '.' {
			continue
		}
		p, key := n.podOf(of[:i]), of[i+1:]
		if _, known := amounts[key]; p != nil && (known || strings.HasPrefix(key, "volumes.")) {
			return p, key, n.onlyOne(of[:i])
		}
	}
	return nil, "", nil
}

// onlyOne refuses the name of several Pods, naming them.
func (n *Node) onlyOne(name string) error {
	var of []string
	for i := range n.Pods {
		if p := n.Pods[i].Pod; p.Name == name {
			of = append(of, "pod/"+p.Namespace+"/"+p.Name)
		}
	}
	if len(of) < 2 {
		return nil
	}
	return fmt.Errorf("%q is the name of several Pods: write %s", name, strings.Join(of, " or "))
}

func number(key, text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if key == "priority" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q: must be a whole number", text)
		}
		return n, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%q: must be a quantity, such as 900Mi", text)
	}
	if q.Sign() < 0 && !strings.HasPrefix(key, "growth.") {
		return 0, fmt.Errorf("%s must not be negative", text)
	}
	return q.Value(), nil
}

// amounts is what a Pod takes of each signal.
func (n *Node) amounts(p *Pod) map[eviction.Signal]int64 {
	out := map[eviction.Signal]int64{}
	for signal := range n.Signals {
		out[signal] = amount(signal, p.Pod, p.Use, n.Disks)
	}
	return out
}

func (n *Node) setSignal(left string, s eviction.Signal, text string) error {
	l, known := n.Signals[s]
	if !known {
		return wrong(left, "the node has no such signal; it has %s", joined(sortedSignals(n.Signals)))
	}
	value, err := number("", text)
	if err != nil {
		return &FieldError{left, err}
	}
	l.Available, l.Capacity = value, max(l.Capacity, value)
	n.Signals[s] = l
	return nil
}

func joined(list []eviction.Signal) string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return strings.Join(out, ", ")
}
