package batch

import (
	"context"
	"fmt"
	"maps"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// dropScheduling removes what only the gate WorkloadWithJob keeps, which is off by default, unless
// it is stored already.
func dropScheduling(s, previous *batchv1.JobSpec) {
	if previous == nil || previous.Scheduling == nil {
		s.Scheduling = nil
	}
}

func jobs() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: batchv1.GroupName, Version: "v1", Resource: "jobs", Singular: "job", Kind: "Job",
		Names: resourcedef.Names{Categories: []string{"all"}},
		Types: typed.NewNamespacedTypes[batchv1.Job, batchv1.JobList](),
		Rules: typed.Rules[batchv1.Job]{
			Default: defaultJob,
			PrepareForCreate: func(_ context.Context, j *batchv1.Job) {
				podspec.DropDisabledTemplate(&j.Spec.Template, nil)
				dropScheduling(&j.Spec, nil)
				generateSelector(j)
			},
			PrepareForUpdate: func(j, previous *batchv1.Job) {
				podspec.DropDisabledTemplate(&j.Spec.Template, &previous.Spec.Template)
				dropScheduling(&j.Spec, &previous.Spec)
			},
			Validate:       checkJob,
			ValidateStatus: checkJobStatus,
			Warn: func(j *batchv1.Job) []string {
				return append(podspec.WarnWorkloadName(j.Name), warnSpec(&j.Spec, spec())...)
			},
			WarnUpdate: func(j, previous *batchv1.Job) []string {
				if j.Generation == previous.Generation {
					return nil
				}
				return warnSpec(&j.Spec, spec())
			},
			SelectableFields: func(j *batchv1.Job) fields.Set {
				return fields.Set{"status.successful": fmt.Sprint(j.Status.Succeeded)}
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{Columns: jobColumns(), Row: typed.RowFunc(jobRow)},
	}
	k.Types.HasStatus = true
	return k
}

// warnSpec tells of more indexes than a status can list, and of the Pod template.
func warnSpec(s *batchv1.JobSpec, path *field.Path) []string {
	const completions, parallelism = 100_000, 10_000
	var out []string
	if m := s.CompletionMode; m != nil && *m == batchv1.IndexedCompletion &&
		typed.Deref(s.Completions) > completions && typed.Deref(s.Parallelism) > parallelism {
		out = append(out, path.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a "+
			"parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number "+
			"of indexes fail")
	}
	return append(out, podspec.Warnings(&s.Template.Spec, s.Template.Annotations, path.Child("template"))...)
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	podspec.DefaultPodTemplate(&s.Template)
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	typed.SetDefault(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		typed.SetDefault(&s.BackoffLimit, math.MaxInt32)
	}
	typed.SetDefault(&s.BackoffLimit, 6)
	if len(j.Labels) == 0 && len(s.Template.Labels) > 0 {
		j.Labels = map[string]string{}
		for k, v := range s.Template.Labels {
			j.Labels[k] = v
		}
	}
	typed.SetDefault(&s.CompletionMode, batchv1.NonIndexedCompletion)
	typed.SetDefault(&s.Suspend, false)
	typed.SetDefault(&s.ManualSelector, false)
	if s.PodFailurePolicy != nil {
		defaultFailurePolicy(s.PodFailurePolicy)
		typed.SetDefault(&s.PodReplacementPolicy, batchv1.Failed)
	}
	typed.SetDefault(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
}

// The labels that tie Pods to a Job; the ones without a prefix are older and still looked for.
const (
	legacyUIDLabel  = "controller-uid"
	legacyNameLabel = "job-name"
)

// generatedLabels are what the template of a Job gets, in the order they are checked.
func generatedLabels(j *batchv1.Job) [][2]string {
	return [][2]string{
		{legacyUIDLabel, string(j.UID)}, {legacyNameLabel, j.Name}, {batchv1.ControllerUidLabel, string(j.UID)},
		{batchv1.JobNameLabel, j.Name},
	}
}

// generateSelector gives a Job that does not choose its Pods itself labels that nobody else has.
// What a client set itself stays: checkSelector refuses what does not fit.
func generateSelector(j *batchv1.Job) {
	s := &j.Spec
	if typed.Deref(s.ManualSelector) {
		return
	}
	if s.Template.Labels == nil {
		s.Template.Labels = map[string]string{}
	}
	// A Job without labels of its own has its template's, the generated ones among them. Where the
	// template has none either, it gets them when it is read from the store: they are not checked
	// twice.
	alike := len(j.Labels) > 0 && maps.Equal(j.Labels, s.Template.Labels)
	for _, kv := range generatedLabels(j) {
		setIfAbsent(s.Template.Labels, kv[0], kv[1])
	}
	if alike {
		j.Labels = maps.Clone(s.Template.Labels)
	}
	if s.Selector == nil {
		s.Selector = &metav1.LabelSelector{}
	}
	if s.Selector.MatchLabels == nil {
		s.Selector.MatchLabels = map[string]string{}
	}
	setIfAbsent(s.Selector.MatchLabels, batchv1.ControllerUidLabel, string(j.UID))
}

func setIfAbsent(m map[string]string, key, value string) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

// defaultFailurePolicy has a condition of a Pod be true; also in the template of a CronJob, which
// has no other of a Job's defaults.
func defaultFailurePolicy(p *batchv1.PodFailurePolicy) {
	if p == nil {
		return
	}
	for i := range p.Rules {
		for c := range p.Rules[i].OnPodConditions {
			typed.SetDefaultString(&p.Rules[i].OnPodConditions[c].Status, corev1.ConditionTrue)
		}
	}
}
