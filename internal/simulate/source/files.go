package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	goruntime "runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Snapshot is a copied cluster as a file: a List that kubectl reads too, with the time of the copy,
// what the metrics API told of Pods, and what the journal told of their times.
type Snapshot struct {
	APIVersion string                     `json:"apiVersion"`
	Kind       string                     `json:"kind"`
	TakenAt    time.Time                  `json:"takenAt"`
	Times      map[string]behavior.Script `json:"times,omitempty"`
	Items      []json.RawMessage          `json:"items"`
}

// WriteSnapshot writes a copied cluster.
func WriteSnapshot(w io.Writer, c Copied, at time.Time) error {
	s := Snapshot{APIVersion: "v1", Kind: "List", TakenAt: at, Times: c.Times}
	for _, o := range c.Objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return err
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		s.Items = append(s.Items, raw)
	}
	for _, m := range podMetrics(c.Usage, at) {
		raw, err := json.Marshal(m)
		if err != nil {
			return err
		}
		s.Items = append(s.Items, raw)
	}
	return json.NewEncoder(w).Encode(s)
}

// FromFiles reads snapshots and manifests: files, directories (their .yaml, .yml and .json files,
// and those below), - for standard input. at is the time of the copy, if a file tells. The error
// names the file, and the object's place in it, or is that ctx ended.
func FromFiles(ctx context.Context, names []string, stdin io.Reader) (c Copied, at time.Time, err error) {
	return (&fileReader{unknown: map[string]bool{}, ended: ctx.Err}).all(names, stdin)
}

// Given reads manifests that a person gives to be applied or counted, as FromFiles does, and
// refuses fields that there are not, fields that stand twice, and objects without metadata.name.
func Given(names []string, stdin io.Reader) (Copied, error) {
	r := &fileReader{unknown: map[string]bool{}, ended: func() error { return nil }, strict: true}
	c, _, err := r.all(names, stdin)
	return c, err
}

func (r *fileReader) all(names []string, stdin io.Reader) (c Copied, at time.Time, err error) {
	if err := cli.ReadManifests(names, stdin, r.read); err != nil {
		return Copied{}, time.Time{}, err
	}
	if len(r.objects) == 0 {
		return Copied{}, time.Time{}, fmt.Errorf("%q: there is no Kubernetes object in it", names)
	}
	c.Objects, c.Usage, c.Times = r.objects, r.usage, r.times
	for k := range r.unknown {
		c.Unread = append(c.Unread, k)
	}
	slices.Sort(c.Unread)
	return c, r.at, nil
}

type fileReader struct {
	objects []runtime.Object
	usage   usage.Figures
	times   map[string]behavior.Script
	unknown map[string]bool // kinds of custom resources
	at      time.Time
	ended   func() error // nil: go on
	strict  bool
	failed  error // of a part of a List
}

// strictly reads objects and refuses unknown fields.
var strictly = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// read reads one document. JSON, as snapshots are, is not read as YAML: that takes longer by far.
func (r *fileReader) read(_ string, doc []byte) error {
	toJSON := yaml.YAMLToJSON
	switch {
	case r.strict:
		toJSON = yaml.YAMLToJSONStrict
	case json.Valid(doc):
		return r.object(doc)
	}
	raw, err := toJSON(doc)
	if err != nil || string(raw) == "null" { // null: comments only
		return err
	}
	return r.object(raw)
}

// fewItems is how many items of a List are not worth a second goroutine.
const fewItems = 100

// items takes the items of a List in, many side by side, in their order.
func (r *fileReader) items(items []json.RawMessage) error {
	cores := goruntime.GOMAXPROCS(0)
	each := max(fewItems, (len(items)+cores-1)/cores)
	var parts []*fileReader
	var all errgroup.Group
	for from := 0; from < len(items); from += each {
		part := &fileReader{unknown: map[string]bool{}, ended: r.ended, strict: r.strict}
		parts = append(parts, part)
		all.Go(func() error {
			for i, item := range items[from:min(from+each, len(items))] {
				if err := part.object(item); err != nil {
					part.failed = fmt.Errorf("items[%d]: %w", from+i, err)
					break
				}
			}
			return nil
		})
	}
	_ = all.Wait() // the parts have their errors, of which the first counts
	for _, part := range parts {
		if part.failed != nil {
			return part.failed
		}
		r.merge(part)
	}
	return nil
}

// merge takes over what a part of a List had.
func (r *fileReader) merge(part *fileReader) {
	r.objects = append(r.objects, part.objects...)
	for k := range part.unknown {
		r.unknown[k] = true
	}
	if part.usage != nil && r.usage == nil {
		r.usage = usage.Figures{}
	}
	maps.Copy(r.usage, part.usage)
	if !part.at.IsZero() {
		r.at = part.at
	}
}

// object takes one object in, or the items of a List.
func (r *fileReader) object(raw []byte) error {
	if err := r.ended(); err != nil {
		return err
	}
	var s Snapshot
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if s.Kind == "List" {
		if !s.TakenAt.IsZero() {
			r.at = s.TakenAt
		}
		if len(s.Times) > 0 {
			r.times = s.Times
		}
		return r.items(s.Items)
	}
	if is, err := r.usageIn(s.APIVersion, s.Kind, raw); is {
		return err
	}
	decoder := scheme.Codecs.UniversalDeserializer()
	if r.strict {
		decoder = strictly
	}
	o, _, err := decoder.Decode(raw, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		r.unknown[s.APIVersion+" "+s.Kind] = true
		return nil
	}
	if err != nil {
		return err
	}
	if m, err := meta.Accessor(o); r.strict && (err != nil || m.GetName() == "") {
		return fmt.Errorf("%s: metadata.name: must not be empty", s.Kind)
	}
	r.objects = append(r.objects, o)
	return nil
}
