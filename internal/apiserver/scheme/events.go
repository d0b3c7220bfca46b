package scheme

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// addEvents makes the core Event the hub of events.k8s.io, so that both groups show the same
// objects.
func addEvents(s *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: eventsv1.GroupName, Version: runtime.APIVersionInternal}
	s.AddKnownTypes(internal, &corev1.Event{}, &corev1.EventList{})
	for _, c := range []struct {
		from, to any
		fn       conversion.ConversionFunc
	}{
		{(*corev1.Event)(nil), (*eventsv1.Event)(nil), func(a, b any, _ conversion.Scope) error {
			toEventsV1(a.(*corev1.Event), b.(*eventsv1.Event))
			return nil
		}},
		{(*eventsv1.Event)(nil), (*corev1.Event)(nil), func(a, b any, _ conversion.Scope) error {
			fromEventsV1(a.(*eventsv1.Event), b.(*corev1.Event))
			return nil
		}},
		{(*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*corev1.EventList), b.(*eventsv1.EventList)
			out.ListMeta = in.ListMeta
			out.Items = make([]eventsv1.Event, len(in.Items))
			for i := range in.Items {
				toEventsV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}},
		{(*eventsv1.EventList)(nil), (*corev1.EventList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*eventsv1.EventList), b.(*corev1.EventList)
			out.ListMeta = in.ListMeta
			out.Items = make([]corev1.Event, len(in.Items))
			for i := range in.Items {
				fromEventsV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}},
	} {
		if err := s.AddConversionFunc(c.from, c.to, c.fn); err != nil {
			return err
		}
	}
	return nil
}

func toEventsV1(in *corev1.Event, out *eventsv1.Event) {
	*out = eventsv1.Event{
		ObjectMeta: in.ObjectMeta, EventTime: in.EventTime, Action: in.Action, Reason: in.Reason, Type: in.Type,
		Regarding: in.InvolvedObject, Related: in.Related, Note: in.Message,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		DeprecatedSource: in.Source, DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp: in.LastTimestamp, DeprecatedCount: in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

func fromEventsV1(in *eventsv1.Event, out *corev1.Event) {
	*out = corev1.Event{
		ObjectMeta: in.ObjectMeta, EventTime: in.EventTime, Action: in.Action, Reason: in.Reason, Type: in.Type,
		InvolvedObject: in.Regarding, Related: in.Related, Message: in.Note,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		Source: in.DeprecatedSource, FirstTimestamp: in.DeprecatedFirstTimestamp,
		LastTimestamp: in.DeprecatedLastTimestamp, Count: in.DeprecatedCount,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
}

// eventsV1Label maps the field labels of events.k8s.io to those of the core Event.
func eventsV1Label(label, value string) (string, string, error) {
	switch label {
	case "reason", "type", "metadata.name", "metadata.namespace":
		return label, value, nil
	case "reportingController":
		return "reportingComponent", value, nil
	case "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
		"regarding.resourceVersion", "regarding.fieldPath":
		return "involvedObject" + strings.TrimPrefix(label, "regarding"), value, nil
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
