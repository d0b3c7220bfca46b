package apps

import (
	"context"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func daemonSets() kind.Kind {
	k := names("daemonsets", "daemonset", "DaemonSet", "ds")
	k.Types = row.InNamespace[appsv1.DaemonSet, appsv1.DaemonSetList]()
	k.Types.HasStatus = true
	k.Rules = row.Rules[appsv1.DaemonSet]{
		Default: defaultDaemonSet,
		Create: func(_ context.Context, d *appsv1.DaemonSet) {
			template.DropDisabledTemplate(&d.Spec.Template, nil)
			setTemplateGeneration(d, 1)
		},
		Update: func(d, was *appsv1.DaemonSet) {
			template.DropDisabledTemplate(&d.Spec.Template, &was.Spec.Template)
			n := templateGeneration(was)
			if !apiequality.Semantic.DeepEqual(d.Spec.Template, was.Spec.Template) {
				n++
			}
			setTemplateGeneration(d, n)
		},
		Check:         checkDaemonSet,
		Status:        func(d, was *appsv1.DaemonSet) { setTemplateGeneration(d, templateGeneration(was)) },
		CheckStatus:   checkDaemonSetStatus,
		Warn:          func(d *appsv1.DaemonSet) []string { return warn(&d.Spec.Template) },
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{Columns: daemonSetColumns(), Row: row.Cells(daemonSetRow), Shown: withoutTemplateGeneration}
	return k
}

// withoutTemplateGeneration is a DaemonSet as tables carry it: upstream's has the generation in a field there, not in an annotation.
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

// templateGeneration counts changes of the template. It was a field once and is an annotation that clients cannot change now.
func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil || n < 1 {
		return 1
	}
	return n
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	s := &d.Spec
	template.DefaultPodTemplate(&s.Template)
	row.OrText(&s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		row.OrElse(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		row.OrElse(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		row.OrElse(&s.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	row.OrElse(&s.RevisionHistoryLimit, 10)
}

func daemonSetColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		column.Name(), column.Int("Desired", status["desiredNumberScheduled"]), column.Int("Current", status["currentNumberScheduled"]),
		column.Int("Ready", status["numberReady"]), column.Int("Up-to-date", status["updatedNumberScheduled"]),
		column.Int("Available", status["numberAvailable"]), column.Def("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]), column.Age(),
	}, templateColumns(spec["selector"])...)
}

func daemonSetRow(d *appsv1.DaemonSet, o kind.RowOptions) []any {
	names, images := column.Containers(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return []any{
		d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady), int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
		labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), column.Since(d.CreationTimestamp, o.Now), names, images, column.Selector(d.Spec.Selector),
	}
}

func checkDaemonSet(d, was *appsv1.DaemonSet) field.ErrorList {
	var f row.Findings
	s := &d.Spec
	w := workload{s.Selector, &s.Template, "daemonset", "DaemonSet", ""}
	f.Selector(spec().Child("selector"), s.Selector)
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil {
		w.matches(&f, sel)
	}
	w.notEmpty(&f)
	w.checkTemplate(&f)
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	checkDaemonStrategy(&f, &s.UpdateStrategy)
	f.NotNegativeIf(spec().Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	if was != nil {
		f.Same(spec().Child("selector"), s.Selector, was.Spec.Selector)
	}
	return f.List()
}

func checkDaemonStrategy(f *row.Findings, s *appsv1.DaemonSetUpdateStrategy) {
	path := spec().Child("updateStrategy")
	rolling := path.Child("rollingUpdate")
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.OnDeleteDaemonSetStrategyType:
	case s.Type != appsv1.RollingUpdateDaemonSetStrategyType:
		f.Add(field.NotSupported(path, row.Bare(s), []appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType}))
	case r == nil:
		f.Required(rolling, "")
	default:
		unavailable, surge := row.Value(r.MaxUnavailable), row.Value(r.MaxSurge)
		f.IntOrPercent(rolling.Child("maxUnavailable"), unavailable)
		f.IntOrPercent(rolling.Child("maxSurge"), surge)
		f.AtMostAll(rolling.Child("maxUnavailable"), unavailable)
		f.AtMostAll(rolling.Child("maxSurge"), surge)
		switch some, more := row.Amount(&unavailable) != 0, row.Amount(&surge) != 0; {
		case some && more:
			f.Invalid(rolling.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
		case !some && !more:
			f.Required(rolling.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
		}
	}
}

func checkDaemonSetStatus(d, was *appsv1.DaemonSet) field.ErrorList {
	var f row.Findings
	s := &d.Status
	for _, p := range []part{
		{"currentNumberScheduled", s.CurrentNumberScheduled}, {"numberMisscheduled", s.NumberMisscheduled},
		{"desiredNumberScheduled", s.DesiredNumberScheduled}, {"numberReady", s.NumberReady},
	} {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	for _, p := range []part{
		{"updatedNumberScheduled", s.UpdatedNumberScheduled}, {"numberAvailable", s.NumberAvailable}, {"numberUnavailable", s.NumberUnavailable},
	} {
		f.NotNegative(status().Child(p.name), int64(p.count))
	}
	f.NotNegativeIf(status().Child("collisionCount"), s.CollisionCount)
	f.NotDecremented(status().Child("collisionCount"), s.CollisionCount, was.Status.CollisionCount)
	return f.List()
}
