package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"github.com/gantry-project/gantry/internal/journal"
)

// Decorate implements admission.Decorator: each plugin is watched at work.
func (d *Desk) Decorate(h admission.Interface, name string) admission.Interface {
	return &plugin{Interface: h, name: name, desk: d}
}

type plugin struct {
	admission.Interface
	name string
	desk *Desk
}

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	m, ok := p.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	t := p.desk.follow(ctx)
	if t == nil {
		return m.Admit(ctx, a, o)
	}
	before := t.read(a, o)
	at := t.now()
	w := &witness{Attributes: a, teller: t, plugin: p.name, last: at, object: before, o: o}
	err := m.Admit(ctx, w, w.objects(p, o))
	t.mutated(at, w, err)
	return err
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	v, ok := p.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	t := p.desk.follow(ctx)
	if t == nil {
		return v.Validate(ctx, a, o)
	}
	t.prepared(a, o)
	at := t.now()
	err := v.Validate(ctx, a, o)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(at, journal.Step{Name: journal.StepAdmission, By: p.name, Refused: err != nil, Error: text(err)})
	return err
}

// read notes, at the first plugin, what became of the body, and returns the object as it is.
func (t *teller) read(a admission.Attributes, o admission.ObjectInterfaces) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted {
		return t.object
	}
	t.admitted = true
	t.object = plain(a.GetObject(), a, o)
	s := journal.Step{Name: journal.StepReading}
	if old := a.GetOldObject(); old != nil {
		t.first = plain(old, a, o)
	}
	s.Says, s.Changes = t.sent.compare(t.first, t.object)
	t.add(t.last, s)
	return t.object
}

// mutated notes what a plugin made of the object.
func (t *teller) mutated(at time.Duration, w *witness, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	after := plain(w.GetObject(), w.Attributes, w.o)
	s := journal.Step{Name: journal.StepMutation, By: w.plugin, Refused: err != nil, Error: text(err), Changes: journal.Changes(t.object, after)}
	t.object = after
	switch {
	case len(w.steps) > 0:
		s.Says = fmt.Sprintf("%d called", len(w.steps))
		if !w.mutates(s) {
			s.Changes = nil // told by the parts
		}
	case w.GetReinvocationContext().IsReinvoke():
		s.Says = "asked again, because a webhook or policy changed the object"
	}
	t.add(at, s)
	for _, part := range w.steps {
		if !t.told && len(t.story.Steps) < mostSteps {
			part.Changes, part.Left = t.presentable(part.Changes)
			t.story.Steps = append(t.story.Steps, part)
		}
	}
}

// prepared notes, at the first validating plugin, what the kind's own rules did since mutation.
func (t *teller) prepared(a admission.Attributes, o admission.ObjectInterfaces) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.judged {
		return
	}
	t.judged = true
	now := plain(a.GetObject(), a, o)
	if now == nil || !t.admitted { // a delete has nothing to prepare
		t.first = plain(a.GetOldObject(), a, o)
		return
	}
	t.add(t.last, journal.Step{Name: journal.StepValidation, Says: "valid", Changes: journal.Changes(t.object, now)})
	t.object = now
}

// witness passes everything on and hears what single webhooks and policies did: the library says so in annotations for the audit log, and defaults the
// object after each mutation of a policy.
type witness struct {
	admission.Attributes
	teller *teller
	plugin string
	last   time.Duration
	object map[string]any
	o      admission.ObjectInterfaces
	patch  []journal.Change
	steps  []journal.Step
}

// mutates says that a step of the whole plugin has changes that none of its parts told.
func (w *witness) mutates(s journal.Step) bool {
	return len(s.Changes) > 0 && !slices.ContainsFunc(w.steps, func(p journal.Step) bool { return len(p.Changes) > 0 })
}

// AddAnnotation implements admission.Attributes.
func (w *witness) AddAnnotation(key, value string) error {
	if strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") {
		var said struct {
			Configuration, Webhook string
			Mutated                bool
		}
		if json.Unmarshal([]byte(value), &said) == nil {
			s := journal.Step{By: said.Webhook + " of " + said.Configuration, Says: "changed nothing", Changes: w.patch}
			if said.Mutated {
				s.Says = ""
			}
			w.part(s)
		}
	}
	return w.Attributes.AddAnnotation(key, value)
}

// AddAnnotationWithLevel implements admission.Attributes.
func (w *witness) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if strings.HasPrefix(key, "patch.webhook.admission.k8s.io/") {
		var said struct{ Patch []operation }
		if json.Unmarshal([]byte(value), &said) == nil {
			w.patch = nil
			for _, op := range said.Patch {
				w.patch = append(w.patch, op.change())
			}
		}
	}
	return w.Attributes.AddAnnotationWithLevel(key, value, level)
}

func (w *witness) part(s journal.Step) {
	end := w.teller.now()
	s.Name, s.At, s.Took = journal.StepMutation, journal.Took(w.last), journal.Took(end-w.last)
	w.last, w.patch = end, nil
	w.steps = append(w.steps, s)
}

// operation is one of a JSON patch.
type operation struct {
	Op, Path string
	Value    any
}

func (o operation) change() journal.Change {
	path := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/", "."))
	switch o.Op {
	case "remove":
		return journal.Change{Path: path, Was: "(removed)"}
	case "replace":
		return journal.Change{Path: path, Was: "(replaced)", Now: o.Value}
	}
	return journal.Change{Path: path, Now: o.Value}
}

// objects hears of the mutations of policies.
func (w *witness) objects(p *plugin, o admission.ObjectInterfaces) admission.ObjectInterfaces {
	if p.name != "MutatingAdmissionPolicy" {
		return o
	}
	by := ""
	if p.desk.Policies != nil {
		by = strings.Join(p.desk.Policies(w.GetResource()), " or ")
	}
	return mutations{o, w, by}
}

type mutations struct {
	admission.ObjectInterfaces
	witness *witness
	by      string
}

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (m mutations) GetObjectDefaulter() runtime.ObjectDefaulter {
	return defaulter{m.ObjectInterfaces.GetObjectDefaulter(), m}
}

type defaulter struct {
	runtime.ObjectDefaulter
	mutations
}

// Default is called with the outcome of each mutation.
func (d defaulter) Default(in runtime.Object) {
	d.ObjectDefaulter.Default(in)
	w := d.witness
	now := plain(in, w.Attributes, w.o)
	s := journal.Step{By: d.by, Changes: journal.Changes(w.object, now)}
	if len(s.Changes) == 0 {
		s.Says = "changed nothing"
	}
	w.object = now
	w.part(s)
}
