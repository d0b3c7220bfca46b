package apps

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func daemonSets() resourcedef.Kind {
	k := newKind("daemonsets", "daemonset", "DaemonSet", "ds")
	k.Types = typed.NewNamespacedTypes[appsv1.DaemonSet, appsv1.DaemonSetList]()
	k.Types.HasStatus = true
	k.Rules = typed.Rules[appsv1.DaemonSet]{
		Default: defaultDaemonSet,
		PrepareForCreate: func(_ context.Context, d *appsv1.DaemonSet) {
			podspec.DropDisabledTemplate(&d.Spec.Template, nil)
			setTemplateGeneration(d, templateGeneration(d))
		},
		PrepareForUpdate: func(d, previous *appsv1.DaemonSet) {
			podspec.DropDisabledTemplate(&d.Spec.Template, &previous.Spec.Template)
			n := templateGeneration(previous)
			if !apiequality.Semantic.DeepEqual(d.Spec.Template, previous.Spec.Template) {
				n++
			}
			setTemplateGeneration(d, n)
		},
		Validate: checkDaemonSet,
		PrepareForStatusUpdate: func(d, previous *appsv1.DaemonSet) {
			setTemplateGeneration(d, templateGeneration(previous))
		},
		ValidateStatus: checkDaemonSetStatus,
		Warn:           func(d *appsv1.DaemonSet) []string { return warn(&d.Spec.Template) },
		WarnUpdate: func(d, previous *appsv1.DaemonSet) []string {
			if apiequality.Semantic.DeepEqual(d.Spec.Template, previous.Spec.Template) {
				return nil
			}
			return warn(&d.Spec.Template)
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Rules.BeginCreate = func(_ context.Context, o runtime.Object, _ bool) (func(bool), error) {
		return nil, numericGeneration(o)
	}
	k.Rules.BeginUpdate = func(_ context.Context, o, _ runtime.Object, _ bool) (func(bool), error) {
		return nil, numericGeneration(o)
	}
	k.Table = resourcedef.Table{Columns: daemonSetColumns(), Row: typed.RowFunc(daemonSetRow),
		RowObject: withoutTemplateGeneration}
	return k
}

// withoutTemplateGeneration is a DaemonSet as tables carry it: upstream's has the generation in a
// field there, not in an annotation.
func withoutTemplateGeneration(o runtime.Object) runtime.Object {
	d, ok := o.(*appsv1.DaemonSet)
	if !ok {
		return o
	}
	out := *d
	out.Annotations = maps.Clone(d.Annotations)
	if delete(out.Annotations, appsv1.DeprecatedTemplateGeneration); len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	return &out
}

// templateGeneration counts changes of the template. It was a field once and is an annotation that
// clients cannot change now.
func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// numericGeneration refuses a template generation that is no number, in the words of v1.37.2, which
// decodes it into a field.
func numericGeneration(o runtime.Object) error {
	d, ok := o.(*appsv1.DaemonSet)
	if !ok {
		return nil
	}
	text, given := d.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !given {
		return nil
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"DaemonSet in version \"v1\" cannot be handled as a DaemonSet: %v", err))
	}
	return nil
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	podspec.DefaultPodTemplate(&s.Template)
	typed.SetDefaultString(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	typed.SetDefault(&s.RevisionHistoryLimit, 10)
	if _, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		setTemplateGeneration(d, 0) // who writes a DaemonSet owns it
	}
}

func daemonSetColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.IntColumn("Desired", status["desiredNumberScheduled"]),
		printers.IntColumn("Current", status["currentNumberScheduled"]),
		printers.IntColumn("Ready", status["numberReady"]),
		printers.IntColumn("Up-to-date", status["updatedNumberScheduled"]),
		printers.IntColumn("Available", status["numberAvailable"]),
		printers.StringColumn("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]), printers.AgeColumn(),
	}, printers.TemplateColumns(spec["selector"])...)
}

func daemonSetRow(d *appsv1.DaemonSet, o resourcedef.RowOptions) []any {
	names, images := printers.LayoutContainerCells(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return []any{
		d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
		labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), printers.TimestampSince(d.CreationTimestamp, o.Now),
		names, images, printers.FormatLabelSelector(d.Spec.Selector),
	}
}

func checkDaemonSet(d, previous *appsv1.DaemonSet) field.ErrorList {
	var f typed.Errors
	s := &d.Spec
	w := workloadRules{s.Selector, &s.Template, "daemonset", "DaemonSet", ""}
	if previous != nil {
		f.Immutable(spec().Child("selector"), s.Selector, previous.Spec.Selector)
	}
	f.LabelSelector(spec().Child("selector"), s.Selector)
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil {
		w.matches(&f, sel)
	}
	w.notEmpty(&f)
	w.checkTemplate(&f)
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	checkDaemonStrategy(&f, &s.UpdateStrategy)
	f.NotNegativeIf(spec().Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	return f.List()
}

func checkDaemonStrategy(f *typed.Errors, s *appsv1.DaemonSetUpdateStrategy) {
	path := spec().Child("updateStrategy")
	rolling := path.Child("rollingUpdate")
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		f.Add(field.NotSupported(path, typed.GoFields(s),
			[]appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType,
				appsv1.OnDeleteDaemonSetStrategyType}))
	case r == nil:
		f.Required(rolling, "")
	default:
		unavailable, surge := typed.Deref(r.MaxUnavailable), typed.Deref(r.MaxSurge)
		f.IntOrPercent(rolling.Child("maxUnavailable"), unavailable)
		f.IntOrPercent(rolling.Child("maxSurge"), surge)
		f.NotMoreThan100Percent(rolling.Child("maxUnavailable"), unavailable)
		f.NotMoreThan100Percent(rolling.Child("maxSurge"), surge)
		switch some, more := typed.IntOrPercentValue(&unavailable) != 0, typed.IntOrPercentValue(&surge) != 0; {
		case some && more:
			f.Invalid(rolling.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
		case !some && !more:
			f.Required(rolling.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
		}
	}
}

func checkDaemonSetStatus(d, previous *appsv1.DaemonSet) field.ErrorList {
	var f typed.Errors
	s := &d.Status
	for _, p := range []part{
		{"currentNumberScheduled", s.CurrentNumberScheduled}, {"numberMisscheduled", s.NumberMisscheduled},
		{"desiredNumberScheduled", s.DesiredNumberScheduled}, {"numberReady", s.NumberReady},
	} {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	for _, p := range []part{
		{"updatedNumberScheduled", s.UpdatedNumberScheduled}, {"numberAvailable", s.NumberAvailable},
		{"numberUnavailable", s.NumberUnavailable},
	} {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
	f.NotNegativeIf(status().Child("collisionCount"), s.CollisionCount)
	f.NotDecremented(status().Child("collisionCount"), s.CollisionCount, previous.Status.CollisionCount)
	return f.List()
}
