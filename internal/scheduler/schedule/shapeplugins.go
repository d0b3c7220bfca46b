package schedule

import (
	"encoding/binary"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// NodeLocal is a plugin whose status on a node, and raw score of it, come from the Pod's shape and
// that node alone, so that Pods of equal shape share them until the node changes. Its PreFilter and
// PreScore neither fail nor narrow the nodes on account of anything but the shape, and do not look
// at the nodes given.
type NodeLocal interface {
	// AppendShape appends what the plugin reads of the Pod; false: for this Pod the plugin must be
	// asked anew each time.
	AppendShape(to []byte, p *v1.Pod) ([]byte, bool)
}

// ColumnPlugin is a NodeLocal plugin that filters and scores many nodes at once.
type ColumnPlugin interface {
	NodeLocal
	// Evaluator compiles the plugin for Pods of this shape; nil: it is called node by node.
	Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator
}

// MaxNormalized is a score plugin whose normalisation is Normalize over the feasible nodes: it
// depends on the largest raw score alone.
type MaxNormalized interface {
	// NormalizesReversed tells whether the largest raw score is the worst.
	NormalizesReversed() (reverse bool)
}

// SkipsPreScoreWithPreFilter is a plugin that skips PreScore for every Pod for which it skips
// PreFilter.
type SkipsPreScoreWithPreFilter interface{ SkipsPreScoreWithPreFilter() }

// Skipper is a plugin that is not NodeLocal but can tell when it need not run for a Pod:
// then its PreFilter and PreScore would skip.
type Skipper interface {
	Skips(p *v1.Pod, w *snapshot.Snapshot) bool
}

// AppendString appends a string to a shape, so that no two lists of strings look alike.
func AppendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// AppendInt appends a number to a shape.
func AppendInt(to []byte, n int64) []byte { return binary.AppendVarint(to, n) }

// AppendDomain appends the number of the row's value, which tells apart rows that share domains
// with others.
func AppendDomain(to []byte, l *columns.Labels, row int32) []byte {
	return AppendInt(append(to, 0), int64(l.Numbers[row]))
}

// shapePlugins is a profile's plugins, sorted into those that share statuses and the others.
type shapePlugins struct {
	set          *PluginSet
	isLocal      map[string]bool // by plugin name
	localPlugins []NodeLocal     // each once
	names        []string        // of all
}

// newShapePlugins sorts a profile's plugins into those that share results (NodeLocal) and the
// others.
func newShapePlugins(j *PluginSet) *shapePlugins {
	p := &shapePlugins{set: j, isLocal: map[string]bool{}}
	add := func(name string, plugin any) {
		l, ok := plugin.(NodeLocal)
		if !ok || p.isLocal[name] {
			return
		}
		p.isLocal[name] = true
		p.localPlugins, p.names = append(p.localPlugins, l), append(p.names, name)
	}
	for _, f := range j.PreFilter {
		add(f.Name(), f)
	}
	for _, f := range j.Filter {
		add(f.Name(), f)
	}
	for _, s := range j.PreScore {
		add(s.Name(), s)
	}
	for _, s := range j.Score {
		add(s.Name(), s.ScorePlugin)
	}
	return p
}

// shapeKey is the key of a Pod's podShape. The first bytes tell which plugins are local for it:
// more than 64 are never shared.
func (p *shapePlugins) shapeKey(to []byte, pod *v1.Pod) (key []byte, local uint64) {
	start := len(to)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0)
	for i, l := range p.localPlugins {
		if i == 64 {
			break
		}
		if more, ok := l.AppendShape(to, pod); ok {
			to = append(more, 0xff)
			local |= 1 << i
		}
	}
	binary.LittleEndian.PutUint64(to[start:], local)
	return to, local
}
