package core

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	eventTTLSeconds = 60 * 60
	eventNameLimit  = 128  // reportingInstance, action, reason
	eventNoteLimit  = 1024 // message
)

// events is the core Event, kept for an hour.
func events() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.Event, v1.EventList]()
	t.NoGenerate, t.EventTTL = true, eventTTLSeconds
	t.ValidateMeta = func(runtime.Object) field.ErrorList { return nil } // by the library; see validateNewEvent
	return resourcedef.Kind{
		Version: "v1", Resource: "events", Singular: "event", Kind: "Event",
		Names: resourcedef.Names{Short: []string{"ev"}},
		Types: t,
		Rules: resourcedef.Rules{
			Validate: func(ctx context.Context, o runtime.Object) field.ErrorList {
				return validateEvent(ctx, o.(*v1.Event), nil)
			},
			ValidateUpdate: func(ctx context.Context, o, old runtime.Object) field.ErrorList {
				return validateEvent(ctx, o.(*v1.Event), old.(*v1.Event))
			},
			Fields:                   func(o runtime.Object) fields.Set { return eventFields(o.(*v1.Event)) },
			AllowCreateOnUpdate:      true,
			AllowUnconditionalUpdate: true,
		},
		Table: resourcedef.Table{Columns: eventColumns(), Row: typed.RowFunc(eventRow)},
	}
}

// EventsV1 is the same Event under events.k8s.io/v1: one hub type, one place in the store.
func EventsV1() resourcedef.Kind {
	k := events()
	k.Group = "events.k8s.io"
	k.Types.Internal = schema.GroupKind{Kind: "Event"}
	return k
}

func eventFields(e *v1.Event) fields.Set {
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	return fields.Set{
		"involvedObject.kind":            e.InvolvedObject.Kind,
		"involvedObject.namespace":       e.InvolvedObject.Namespace,
		"involvedObject.name":            e.InvolvedObject.Name,
		"involvedObject.uid":             string(e.InvolvedObject.UID),
		"involvedObject.apiVersion":      e.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       e.InvolvedObject.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             e.ReportingController,
		"source":                         source,
		"type":                           e.Type,
	}
}

// validateEvent validates an Event by the rules of its age: one with an eventTime is of the new
// form; events.k8s.io asks for the new form, and lets only the series and metadata change.
func validateEvent(ctx context.Context, e, old *v1.Event) field.ErrorList {
	group := ""
	if info, ok := request.RequestInfoFrom(ctx); ok {
		group = info.APIGroup
	}
	errs := validateAnyEvent(e, group)
	switch {
	case group != "events.k8s.io":
	case old == nil:
		errs = append(errs, validateNewEvent(e)...)
	default:
		errs = append(errs, validateEventUpdate(e, old)...)
	}
	return errs
}

func validateAnyEvent(e *v1.Event, group string) field.ErrorList {
	var errs field.ErrorList
	ns := field.NewPath("involvedObject", "namespace")
	mismatch := field.Invalid(ns, e.InvolvedObject.Namespace, "does not match event.namespace")
	if e.EventTime.IsZero() {
		clusterScoped := e.InvolvedObject.Namespace == ""
		if clusterScoped && e.Namespace != metav1.NamespaceNone && e.Namespace != metav1.NamespaceDefault ||
			!clusterScoped && e.Namespace != e.InvolvedObject.Namespace {
			errs = append(errs, mismatch)
		}
	} else {
		if e.InvolvedObject.Namespace == "" && e.Namespace != metav1.NamespaceDefault &&
			e.Namespace != metav1.NamespaceSystem {
			errs = append(errs, mismatch)
		}
		controller := field.NewPath("reportingController")
		if group == "" {
			controller = field.NewPath("reportingComponent")
		}
		if e.ReportingController == "" {
			errs = append(errs, field.Required(controller, ""))
		}
		for _, msg := range validation.IsQualifiedName(e.ReportingController) {
			errs = append(errs, field.Invalid(controller, e.ReportingController, msg))
		}
		errs = append(errs, validateLength("reportingInstance", e.ReportingInstance)...)
		errs = append(errs, validateLength("action", e.Action)...)
		errs = append(errs, validateLength("reason", e.Reason)...)
		if len(e.Message) > eventNoteLimit {
			errs = append(errs,
				field.Invalid(field.NewPath("message"), "", fmt.Sprintf("can have at most %v characters",
					eventNoteLimit)))
		}
	}
	for _, msg := range validation.IsDNS1123Subdomain(e.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), e.Namespace, msg))
	}
	return errs
}

func validateLength(name, value string) field.ErrorList {
	p := field.NewPath(name)
	switch {
	case value == "":
		return field.ErrorList{field.Required(p, "")}
	case len(value) > eventNameLimit:
		return field.ErrorList{field.Invalid(p, "", fmt.Sprintf("can have at most %v characters", eventNameLimit))}
	}
	return nil
}

// validateNewEvent refuses the old form's fields.
func validateNewEvent(e *v1.Event) field.ErrorList {
	meta := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	errs = append(errs, podspec.ValidateFinalizers(e.Finalizers, meta.Child("finalizers"))...)
	unset := func(name string, isSet bool) {
		if isSet {
			errs = append(errs, field.Invalid(field.NewPath(name), "", "needs to be unset"))
		}
	}
	errs = append(errs, validateSeries(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != v1.EventTypeNormal && e.Type != v1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	unset("firstTimestamp", !e.FirstTimestamp.IsZero())
	unset("lastTimestamp", !e.LastTimestamp.IsZero())
	unset("count", e.Count != 0)
	unset("source", e.Source.Component != "" || e.Source.Host != "")
	return errs
}

func validateSeries(s *v1.EventSeries) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateEventUpdate keeps what an Event of the new form tells.
func validateEventUpdate(e, old *v1.Event) field.ErrorList {
	errs := podspec.ValidateFinalizers(e.Finalizers, field.NewPath("metadata", "finalizers"))
	if !apiequality.Semantic.DeepEqual(e.Series, old.Series) {
		errs = append(errs, validateSeries(e.Series)...)
	}
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject}, {"reason", e.Reason, old.Reason},
		{"message", e.Message, old.Message},
		{"source", e.Source, old.Source}, {"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp},
		{"count", e.Count, old.Count}, {"reason", e.Reason, old.Reason}, {"type", e.Type, old.Type},
		{"eventTime", e.EventTime, old.EventTime},
		{"action", e.Action, old.Action}, {"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}

func eventColumns() []metav1.TableColumnDefinition {
	doc := v1.Event{}.SwaggerDoc()
	out := []metav1.TableColumnDefinition{
		printers.StringColumn("Last Seen", doc["lastTimestamp"]), printers.StringColumn("Type", doc["type"]),
		printers.StringColumn("Reason", doc["reason"]),
		printers.StringColumn("Object", doc["involvedObject"]),
	}
	out = append(out,
		printers.WideColumns(printers.StringColumn("Subobject", v1.ObjectReference{}.SwaggerDoc()["fieldPath"]),
			printers.StringColumn("Source", doc["source"]))...)
	out = append(out, printers.StringColumn("Message", doc["message"]))
	return append(out, printers.WideColumns(printers.StringColumn("First Seen", doc["firstTimestamp"]),
		printers.StringColumn("Count", doc["count"]), printers.NameColumn())...)
}

func eventRow(e *v1.Event, opt resourcedef.RowOptions) []any {
	first := e.FirstTimestamp
	if first.IsZero() {
		first = metav1.NewTime(e.EventTime.Time)
	}
	last, count := e.LastTimestamp, e.Count
	if last.IsZero() {
		last = first
	}
	switch {
	case e.Series != nil:
		last, count = metav1.NewTime(e.Series.LastObservedTime.Time), e.Series.Count
	case count == 0:
		count = 1
	}
	target := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		target += "/" + e.InvolvedObject.Name
	}
	return []any{
		printers.TimestampSince(last, opt.Now), e.Type, e.Reason, target, e.InvolvedObject.FieldPath, sourceCell(e),
		strings.TrimSpace(e.Message),
		printers.TimestampSince(first, opt.Now), int64(count), e.Name,
	}
}

func sourceCell(e *v1.Event) string {
	name, host := cmp.Or(e.Source.Component, e.ReportingController), cmp.Or(e.Source.Host, e.ReportingInstance)
	if host == "" {
		return name
	}
	return name + ", " + host
}
