package requesttrace

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

// Decorate implements admission.Decorator: it returns h with its calls recorded under the plugin's
// name.
func (d *Tracer) Decorate(h admission.Interface, name string) admission.Interface {
	return &tracedPlugin{Interface: h, name: name, tracer: d}
}

// tracedPlugin records what one admission plugin changes or refuses. It passes calls on unchanged
// when the request is not recorded.
type tracedPlugin struct {
	admission.Interface
	name   string
	tracer *Tracer
}

// Admit implements admission.MutationInterface.
func (p *tracedPlugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	m, ok := p.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	t := p.tracer.recorderFrom(ctx)
	if t == nil {
		return m.Admit(ctx, a, o)
	}
	before := t.recordDecoding(a, o)
	at := t.elapsed()
	w := &tracedAttributes{Attributes: a, recorder: t, plugin: p.name, lastEnd: at, object: before, interfaces: o}
	err := m.Admit(ctx, w, w.objectInterfaces(p, o))
	t.recordMutation(at, w, err)
	return err
}

// Validate implements admission.ValidationInterface.
func (p *tracedPlugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	v, ok := p.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	t := p.tracer.recorderFrom(ctx)
	if t == nil {
		return v.Validate(ctx, a, o)
	}
	t.recordPreparation(a, o)
	at := t.elapsed()
	err := v.Validate(ctx, a, o)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addStep(at, journal.Step{Name: journal.StepAdmission, By: p.name, Refused: err != nil, Error: errorText(err)})
	return err
}

// recordDecoding adds, at the first mutating plugin, the step that decoded and defaulted the body,
// and returns the object as it is now.
func (t *recorder) recordDecoding(a admission.Attributes, o admission.ObjectInterfaces) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mutationStarted {
		return t.object
	}
	t.mutationStarted = true
	t.object = toUnstructured(a.GetObject(), a, o)
	s := journal.Step{Name: journal.StepReading}
	if old := a.GetOldObject(); old != nil {
		t.oldObject = toUnstructured(old, a, o)
	}
	s.Message, s.Changes = t.body.diff(t.oldObject, t.object)
	t.addStep(t.lastEnd, s)
	return t.object
}

// recordMutation adds the step of a mutating plugin: the difference between the object before and
// after, and the steps of single webhooks and policies that w has collected.
func (t *recorder) recordMutation(at time.Duration, w *tracedAttributes, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	after := toUnstructured(w.GetObject(), w.Attributes, w.interfaces)
	s := journal.Step{Name: journal.StepMutation, By: w.plugin, Refused: err != nil, Error: errorText(err),
		Changes: journal.Changes(t.object, after)}
	t.object = after
	switch {
	case len(w.steps) > 0:
		s.Message = fmt.Sprintf("%d called", len(w.steps))
		if !w.hasOwnChanges(s) {
			s.Changes = nil // the steps of its webhooks or policies have them
		}
	case w.GetReinvocationContext().IsReinvoke():
		s.Message = "asked again, because a webhook or policy changed the object"
	}
	t.addStep(at, s)
	for _, part := range w.steps {
		if !t.finished && len(t.trace.Steps) < maxSteps {
			part.Changes, part.Left = t.redactChanges(part.Changes)
			t.trace.Steps = append(t.trace.Steps, part)
		}
	}
}

// recordPreparation adds, at the first validating plugin, what the kind's strategy changed since
// mutation.
func (t *recorder) recordPreparation(a admission.Attributes, o admission.ObjectInterfaces) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.validationStarted {
		return
	}
	t.validationStarted = true
	now := toUnstructured(a.GetObject(), a, o)
	if now == nil || !t.mutationStarted { // a delete has nothing to prepare
		t.oldObject = toUnstructured(a.GetOldObject(), a, o)
		return
	}
	t.addStep(t.lastEnd, journal.Step{Name: journal.StepValidation, Message: "valid",
		Changes: journal.Changes(t.object, now)})
	t.object = now
}

// tracedAttributes passes everything on and collects what single webhooks and policies did: the
// library reports webhooks in audit annotations, and calls the defaulter after each mutation of a
// policy.
type tracedAttributes struct {
	admission.Attributes
	recorder   *recorder
	plugin     string
	lastEnd    time.Duration
	object     map[string]any
	interfaces admission.ObjectInterfaces
	patch      []journal.Change
	steps      []journal.Step
}

// hasOwnChanges reports whether the plugin's step has changes and none of its webhooks' or
// policies' steps has.
func (w *tracedAttributes) hasOwnChanges(s journal.Step) bool {
	return len(s.Changes) > 0 && !slices.ContainsFunc(w.steps, func(p journal.Step) bool { return len(p.Changes) > 0 })
}

// AddAnnotation implements admission.Attributes. A mutation annotation ends the step of one
// webhook.
func (w *tracedAttributes) AddAnnotation(key, value string) error {
	if strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") {
		var annotation struct {
			Configuration, Webhook string
			Mutated                bool
		}
		if json.Unmarshal([]byte(value), &annotation) == nil {
			s := journal.Step{By: annotation.Webhook + " of " + annotation.Configuration, Message: "changed nothing",
				Changes: w.patch}
			if annotation.Mutated {
				s.Message = ""
			}
			w.addPart(s)
		}
	}
	return w.Attributes.AddAnnotation(key, value)
}

// AddAnnotationWithLevel implements admission.Attributes. A patch annotation carries a webhook's
// JSON patch; it comes before the mutation annotation.
func (w *tracedAttributes) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if strings.HasPrefix(key, "patch.webhook.admission.k8s.io/") {
		var annotation struct{ Patch []jsonPatchOperation }
		if json.Unmarshal([]byte(value), &annotation) == nil {
			w.patch = nil
			for _, op := range annotation.Patch {
				w.patch = append(w.patch, op.toChange())
			}
		}
	}
	return w.Attributes.AddAnnotationWithLevel(key, value, level)
}

// addPart adds the step of one webhook or policy, which began when the last one ended.
func (w *tracedAttributes) addPart(s journal.Step) {
	end := w.recorder.elapsed()
	s.Name, s.At, s.Took = journal.StepMutation, journal.Took(w.lastEnd), journal.Took(end-w.lastEnd)
	w.lastEnd, w.patch = end, nil
	w.steps = append(w.steps, s)
}

// jsonPatchOperation is one operation of a JSON patch (RFC 6902).
type jsonPatchOperation struct {
	Op, Path string
	Value    any
}

// toChange returns the operation as a change with a dotted path; the previous value is unknown.
func (o jsonPatchOperation) toChange() journal.Change {
	path := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.ReplaceAll(strings.TrimPrefix(o.Path, "/"), "/",
		"."))
	switch o.Op {
	case "remove":
		return journal.Change{Path: path, Was: "(removed)"}
	case "replace":
		return journal.Change{Path: path, Was: "(replaced)", Now: o.Value}
	}
	return journal.Change{Path: path, Now: o.Value}
}

// objectInterfaces returns o, for MutatingAdmissionPolicy with a defaulter that records each
// policy's mutation.
func (w *tracedAttributes) objectInterfaces(p *tracedPlugin, o admission.ObjectInterfaces) admission.ObjectInterfaces {
	if p.name != "MutatingAdmissionPolicy" {
		return o
	}
	by := ""
	if p.tracer.MutatingPolicies != nil {
		by = strings.Join(p.tracer.MutatingPolicies(w.GetResource()), " or ")
	}
	return tracedInterfaces{o, w, by}
}

// tracedInterfaces has the defaulter that records mutations of policies.
type tracedInterfaces struct {
	admission.ObjectInterfaces
	attributes *tracedAttributes
	policies   string
}

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (m tracedInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter {
	return tracedDefaulter{m.ObjectInterfaces.GetObjectDefaulter(), m}
}

// tracedDefaulter records the difference to the object since its last call.
type tracedDefaulter struct {
	runtime.ObjectDefaulter
	tracedInterfaces
}

// Default implements runtime.ObjectDefaulter. The plugin calls it with the result of each mutation.
func (d tracedDefaulter) Default(in runtime.Object) {
	d.ObjectDefaulter.Default(in)
	w := d.attributes
	now := toUnstructured(in, w.Attributes, w.interfaces)
	s := journal.Step{By: d.policies, Changes: journal.Changes(w.object, now)}
	if len(s.Changes) == 0 {
		s.Message = "changed nothing"
	}
	w.object = now
	w.addPart(s)
}
