package eviction

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value is a quantity, or a share of the signal's capacity when Quantity is nil.
type Value struct {
	Quantity *resource.Quantity
	Share    float32 // 0.1 is 10%
	Most     int64   // a share counts at most so much; 0: there is no bound
}

// Of is the value for a capacity; a share is rounded down.
func (v Value) Of(capacity int64) resource.Quantity {
	if v.Quantity != nil {
		return v.Quantity.DeepCopy()
	}
	share := int64(float64(capacity) * float64(v.Share))
	if v.Most > 0 {
		share = min(share, v.Most)
	}
	return *resource.NewQuantity(share, resource.BinarySI)
}

func (v Value) equal(w Value) bool {
	if v.Quantity == nil || w.Quantity == nil {
		return v.Quantity == w.Quantity && v.Share == w.Share && v.Most == w.Most
	}
	return v.Quantity.Cmp(*w.Quantity) == 0
}

// String is the value as it is configured.
func (v Value) String() string {
	if v.Quantity != nil {
		return v.Quantity.String()
	}
	return strconv.FormatFloat(float64(v.Share)*100, 'g', 6, 32) + "%"
}

// Threshold is how little of a signal may be left. It is met while less is available.
type Threshold struct {
	Signal     Signal
	Value      Value
	Grace      time.Duration // how long it has to be met before a Pod goes; 0: a hard one
	MinReclaim *Value        // once a Pod had to go, this much more has to be available; nil: nothing more
}

// Hard tells whether Pods go at once.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// same tells whether two thresholds are one; the minimum reclaim does not tell them apart.
func (t Threshold) same(u Threshold) bool {
	return t.Signal == u.Signal && t.Grace == u.Grace && t.Value.equal(u.Value)
}

// met tells whether less than the threshold is available; with reclaim, less than it and its
// minimum reclaim.
func (t Threshold) met(o Observation, reclaim bool) bool {
	q := t.Value.Of(o.Capacity)
	if reclaim && t.MinReclaim != nil {
		q.Add(t.MinReclaim.Of(o.Capacity))
	}
	return q.Cmp(*resource.NewQuantity(o.Available, resource.DecimalSI)) > 0
}

// Settings are the eviction fields of KubeletConfiguration.
type Settings struct {
	Hard, Soft, SoftGracePeriod, MinimumReclaim map[string]string
	// the Pods' cgroup is bounded (enforceNodeAllocatable names pods): the hard threshold of memory
	// holds for allocatableMemory.available too
	EnforcePods bool
}

// FieldError is a setting that cannot be used.
type FieldError struct {
	Field string // evictionHard, …
	Err   error  // with upstream's text
}

// Error is upstream's text after the field.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap is the error below.
func (e *FieldError) Unwrap() error { return e.Err }

// Thresholds reads settings: hard thresholds, then soft ones, each in the order of the table of
// signals. 0% and 100% are no thresholds. The errors are all there are, each a *FieldError.
func Thresholds(s Settings) ([]Threshold, []error) {
	var errs []error
	add := func(field string, err error) { errs = append(errs, &FieldError{field, err}) }
	list := func(field string, m map[string]string) []Threshold {
		var out []Threshold
		each(m, func(signal Signal, text string) {
			t, err := parseThreshold(signal, text)
			switch {
			case err != nil:
				add(field, err)
			case t != nil:
				out = append(out, *t)
			}
		})
		return out
	}
	hard, soft := list("evictionHard", s.Hard), list("evictionSoft", s.Soft)
	graces := map[Signal]time.Duration{}
	each(s.SoftGracePeriod, func(signal Signal, text string) {
		d, err := parseGracePeriod(signal, text)
		if err != nil {
			add("evictionSoftGracePeriod", err)
		}
		graces[signal] = d
	})
	reclaims := map[Signal]Value{}
	each(s.MinimumReclaim, func(signal Signal, text string) {
		v, err := parseMinimumReclaim(signal, text)
		if err != nil {
			add("evictionMinimumReclaim", err)
			return
		}
		reclaims[signal] = v
	})
	for i := range soft {
		grace, found := graces[soft[i].Signal]
		if !found {
			add("evictionSoft", fmt.Errorf("grace period must be specified for the soft eviction threshold %v",
				soft[i].Signal))
		}
		soft[i].Grace = grace
	}
	out := slices.Concat(hard, soft)
	for i := range out {
		if v, ok := reclaims[out[i].Signal]; ok {
			out[i].MinReclaim = &v
		}
	}
	return append(out, allocatableThresholds(out, s.EnforcePods)...), errs
}

// DefaultDiskCap is the most that a default threshold keeps free of a disk: a tenth of a big disk
// is more than a node needs to defend itself, and a computer whose disk is nine tenths full could
// run no Pod at all (docs/adr/0022).
const DefaultDiskCap = 1 << 30

// CapDisks bounds the hard thresholds for bytes of a disk: a share of it counts at most so many.
func CapDisks(list []Threshold, most int64) []Threshold {
	out := slices.Clone(list)
	for i := range out {
		switch t := &out[i]; t.Signal {
		case NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable:
			if t.Hard() && t.Value.Quantity == nil {
				t.Value.Most = most
			}
		}
	}
	return out
}

// allocatableThresholds are the hard thresholds of memory, for the Pods' cgroup.
func allocatableThresholds(list []Threshold, enforced bool) []Threshold {
	var out []Threshold
	for _, t := range list {
		if enforced && t.Signal == MemoryAvailable && t.Hard() {
			t.Signal = AllocatableMemoryAvailable
			out = append(out, t)
		}
	}
	return out
}

// ForDisks replaces the thresholds of containerfs: where writable layers lie decides what holds for
// them, not the configuration. The names are those of thresholds that were set and are ignored.
func ForDisks(list []Threshold, d Disks) (out []Threshold, ignored []Signal) {
	from := map[Signal]Signal{NodeFsAvailable: ContainerFsAvailable, NodeFsInodesFree: ContainerFsInodesFree}
	switch {
	case d.DedicatedImageFs && !d.SplitImageFs:
		from = map[Signal]Signal{ImageFsAvailable: ContainerFsAvailable, ImageFsInodesFree: ContainerFsInodesFree}
	case !d.DedicatedImageFs && d.SplitImageFs:
		from = nil // upstream knows no such node and leaves what is configured
	}
	var copies []Threshold
	for _, t := range list {
		if t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree {
			ignored = append(ignored, t.Signal)
			if from != nil {
				continue
			}
		}
		out = append(out, t)
		if as, ok := from[t.Signal]; ok {
			t.Signal = as
			copies = append(copies, t)
		}
	}
	return append(out, copies...), ignored
}

// each visits a map of settings: signals in the order of their table, then what is none, by name.
func each(m map[string]string, visit func(Signal, string)) {
	rest := map[string]string{}
	for name, text := range m {
		rest[name] = text
	}
	for _, r := range signals {
		if text, ok := rest[string(r.signal)]; ok {
			visit(r.signal, text)
			delete(rest, string(r.signal))
		}
	}
	names := make([]string, 0, len(rest))
	for name := range rest {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		visit(Signal(name), rest[name])
	}
}

func unsupported(s Signal) error { return fmt.Errorf("unsupported eviction signal %v", s) }

// parseThreshold reads one threshold; nil for one that is never met (0%, 100%).
func parseThreshold(s Signal, text string) (*Threshold, error) {
	if rowOf(s) == nil {
		return nil, unsupported(s)
	}
	if strings.HasSuffix(text, "%") {
		if text == "0%" || text == "100%" {
			return nil, nil
		}
		share, err := parseShare(text)
		switch {
		case err != nil:
			return nil, err
		case !(share >= 0): // what is no number neither
			return nil, fmt.Errorf("eviction percentage threshold %v must be >= 0%%: %s", s, text)
		case share > 1:
			return nil, fmt.Errorf("eviction percentage threshold %v must be <= 100%%: %s", s, text)
		}
		return &Threshold{Signal: s, Value: Value{Share: share}}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	if q.Sign() <= 0 {
		return nil, fmt.Errorf("eviction threshold %v must be positive: %s", s, &q)
	}
	return &Threshold{Signal: s, Value: Value{Quantity: &q}}, nil
}

func parseShare(text string) (float32, error) {
	f, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
	return float32(f) / 100, err
}

func parseGracePeriod(s Signal, text string) (time.Duration, error) {
	if rowOf(s) == nil {
		return 0, unsupported(s)
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("invalid eviction grace period specified: %v, must be a positive value", text)
	}
	return d, err
}

func parseMinimumReclaim(s Signal, text string) (Value, error) {
	if rowOf(s) == nil {
		return Value{}, unsupported(s)
	}
	if strings.HasSuffix(text, "%") {
		share, err := parseShare(text)
		if err == nil && !(share > 0 && share <= math.MaxFloat32) { // what is no number neither
			err = fmt.Errorf("eviction percentage minimum reclaim %v must be positive: %s", s, text)
		}
		return Value{Share: share}, err
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return Value{}, fmt.Errorf("%v: %w", s, err)
	case q.Sign() < 0:
		return Value{}, fmt.Errorf("negative eviction minimum reclaim specified for %v", s)
	}
	return Value{Quantity: &q}, nil
}
