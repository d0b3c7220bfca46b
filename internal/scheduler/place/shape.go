package place

import (
	"encoding/binary"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Local is a judge whose verdict on a node, and raw score of it, come from the Pod's shape and that node alone, so that Pods of equal shape share them until
// the node changes. Its PreFilter and PreScore neither fail nor narrow the nodes on account of anything but the shape, and do not look at the nodes given.
type Local interface {
	// Shape appends what the judge reads of the Pod; false: for this Pod the judge must be asked anew each time.
	Shape(to []byte, p *v1.Pod) ([]byte, bool)
}

// Indexed is a Local judge that judges many nodes at once.
type Indexed interface {
	Local
	// Opinion compiles what the judge thinks of Pods of this shape; nil: ask node by node.
	Opinion(p *v1.Pod, t *columns.Table) *columns.Opinion
}

// Scaled is a score judge whose normalisation is Normalize over the feasible nodes: it depends on the largest raw score alone.
type Scaled interface {
	// Scale tells whether the largest raw score is the worst.
	Scale() (reverse bool)
}

// Unprepared is a judge that skips PreScore for every Pod for which it skips PreFilter.
type Unprepared interface{ SilentUnprepared() }

// Quiet is a judge that is not Local but can tell when it has nothing to say about a Pod: then its PreFilter and PreScore would skip.
type Quiet interface {
	Quiet(p *v1.Pod, w *snapshot.Snapshot) bool
}

// AppendString appends a string to a shape, so that no two lists of strings look alike.
func AppendString(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// AppendInt appends a number to a shape.
func AppendInt(to []byte, n int64) []byte { return binary.AppendVarint(to, n) }

// AppendDomain appends the number of the row's value, which tells apart rows that share domains with others.
func AppendDomain(to []byte, l *columns.Labels, row int32) []byte {
	return AppendInt(append(to, 0), int64(l.ID[row]))
}

// panel is a profile's judges, sorted into those that share verdicts and the others.
type panel struct {
	*Judges
	local map[string]bool // by plugin name
	all   []Local         // each once
	names []string        // of all
}

func newPanel(j *Judges) *panel {
	p := &panel{Judges: j, local: map[string]bool{}}
	add := func(name string, judge any) {
		l, ok := judge.(Local)
		if !ok || p.local[name] {
			return
		}
		p.local[name] = true
		p.all, p.names = append(p.all, l), append(p.names, name)
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

// shape is the key of a Pod's class. The first bytes tell which judges are local for it: more than 64 are never shared.
func (p *panel) shape(to []byte, pod *v1.Pod) (key []byte, local uint64) {
	start := len(to)
	to = append(to, 0, 0, 0, 0, 0, 0, 0, 0)
	for i, l := range p.all {
		if i == 64 {
			break
		}
		if more, ok := l.Shape(to, pod); ok {
			to = append(more, 0xff)
			local |= 1 << i
		}
	}
	binary.LittleEndian.PutUint64(to[start:], local)
	return to, local
}
