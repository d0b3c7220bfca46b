package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// Limits of Jobs; beyond manyCompletions with a limit per index the tighter ones hold.
const (
	mostParallel    = 100000
	manyCompletions = 100000
	mostOfMany      = 10000
	longestManager  = 63
)

func checkJob(j, was *batchv1.Job) field.ErrorList {
	var f row.Findings
	checkGenerated(&f, j)
	checkSpec(&f, &j.Spec)
	if n := j.Spec.Completions; indexed(&j.Spec) && n != nil && *n > 0 {
		last := fmt.Sprintf("%s-%d", j.Name, *n-1)
		if len(utilvalidation.IsDNS1123Label(last)) > 0 {
			f.Invalid(field.NewPath("metadata", "name"), j.Name, "will not able to create pod with invalid DNS label: "+last)
		}
	}
	if was == nil {
		return f.List()
	}
	// Upstream judges the spec once more on updates, so findings come twice.
	checkSpec(&f, &j.Spec)
	checkCompletions(&f, &j.Spec, &was.Spec)
	f.Same(spec().Child("selector"), j.Spec.Selector, was.Spec.Selector)
	checkTemplateChange(&f, j, was)
	f.Same(spec().Child("completionMode"), j.Spec.CompletionMode, was.Spec.CompletionMode)
	f.SameBare(spec().Child("podFailurePolicy"), j.Spec.PodFailurePolicy, was.Spec.PodFailurePolicy)
	f.Same(spec().Child("backoffLimitPerIndex"), j.Spec.BackoffLimitPerIndex, was.Spec.BackoffLimitPerIndex)
	f.Same(spec().Child("managedBy"), j.Spec.ManagedBy, was.Spec.ManagedBy)
	f.SameBare(spec().Child("successPolicy"), j.Spec.SuccessPolicy, was.Spec.SuccessPolicy)
	return f.List()
}

func indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// checkGenerated wants the labels and the selector that generateSelector makes, unless a client chose others by hand.
func checkGenerated(f *row.Findings, j *batchv1.Job) {
	if row.Value(j.Spec.ManualSelector) || j.Spec.Selector == nil {
		return
	}
	if j.UID == "" {
		f.Required(field.NewPath("metadata", "uid"), "")
	}
	path, expected := spec().Child("template", "metadata", "labels"), labels.Set{}
	for _, kv := range generatedLabels(j) {
		expected[kv[0]] = kv[1]
		have, ok := j.Spec.Template.Labels[kv[0]]
		switch {
		case !ok:
			f.Required(path.Key(kv[0]), fmt.Sprintf("must be '%s'", kv[1]))
		case have != kv[1]:
			f.Invalid(path.Key(kv[0]), j.Spec.Template.Labels, fmt.Sprintf("must be '%s'", kv[1]))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !s.Matches(expected) {
		f.Invalid(spec().Child("selector"), j.Spec.Selector, "`selector` not auto-generated")
	}
}

// checkSpec judges a Job's own spec: what a template of Jobs has too, and the selector.
func checkSpec(f *row.Findings, s *batchv1.JobSpec) {
	checkWork(f, s, spec())
	if s.Selector == nil {
		f.Required(spec().Child("selector"), "")
	} else {
		f.Selector(spec().Child("selector"), s.Selector)
	}
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !sel.Matches(labels.Set(s.Template.Labels)) {
		f.Invalid(spec().Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`")
	}
}

// checkWork judges the spec of a Job or of a CronJob's Jobs.
func checkWork(f *row.Findings, s *batchv1.JobSpec, path *field.Path) {
	f.NotNegativeIf(path.Child("parallelism"), s.Parallelism)
	f.NotNegativeIf(path.Child("completions"), s.Completions)
	if s.ActiveDeadlineSeconds != nil {
		f.NotNegative(path.Child("activeDeadlineSeconds"), *s.ActiveDeadlineSeconds)
	}
	f.NotNegativeIf(path.Child("backoffLimit"), s.BackoffLimit)
	f.NotNegativeIf(path.Child("ttlSecondsAfterFinished"), s.TTLSecondsAfterFinished)
	f.NotNegativeIf(path.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex)
	f.NotNegativeIf(path.Child("maxFailedIndexes"), s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		f.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	}
	if m := s.ManagedBy; m != nil {
		f.Add(utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > longestManager {
			f.Add(field.TooLong(path.Child("managedBy"), *m, longestManager))
		}
	}
	checkMode(f, s, path)
	if s.PodFailurePolicy != nil {
		checkFailurePolicy(f, s, path.Child("podFailurePolicy"))
	}
	switch {
	case s.SuccessPolicy == nil:
	case !indexed(s):
		f.Invalid(path.Child("successPolicy"), row.Bare(*s.SuccessPolicy), "requires indexed completion mode")
	default:
		checkSuccessPolicy(f, s, path.Child("successPolicy"))
	}
	checkReplacement(f, s, path.Child("podReplacementPolicy"))
	f.Add(template.ValidatePodTemplateSpec(&s.Template, path.Child("template"))...)
	switch p, at := s.Template.Spec.RestartPolicy, path.Child("template", "spec", "restartPolicy"); {
	case p == corev1.RestartPolicyAlways || p == "":
		f.Required(at, `valid values: "OnFailure", "Never"`)
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		f.Add(field.NotSupported(at, p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		f.Invalid(at, p, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

// checkMode judges what indexed Jobs alone may have, and how much of it.
func checkMode(f *row.Findings, s *batchv1.JobSpec, path *field.Path) {
	if m := s.CompletionMode; m != nil && *m != batchv1.NonIndexedCompletion && *m != batchv1.IndexedCompletion {
		f.Add(field.NotSupported(path.Child("completionMode"), *m, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
		return
	}
	if !indexed(s) {
		if n := s.BackoffLimitPerIndex; n != nil {
			f.Invalid(path.Child("backoffLimitPerIndex"), *n, "requires indexed completion mode")
		}
		if n := s.MaxFailedIndexes; n != nil {
			f.Invalid(path.Child("maxFailedIndexes"), *n, "requires indexed completion mode")
		}
		return
	}
	if s.Completions == nil {
		f.Required(path.Child("completions"), "when completion mode is Indexed")
	}
	atMost := func(child string, n *int32, most int32, detail string) {
		if n != nil && *n > most {
			f.Invalid(path.Child(child), *n, detail)
		}
	}
	atMost("parallelism", s.Parallelism, mostParallel, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", mostParallel))
	if s.Completions != nil {
		atMost("maxFailedIndexes", s.MaxFailedIndexes, *s.Completions, "must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", s.MaxFailedIndexes, mostParallel, fmt.Sprintf("must be less than or equal to %d", mostParallel))
	if s.Completions == nil || *s.Completions <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if s.MaxFailedIndexes == nil {
		f.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	}
	tight := fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", mostOfMany, manyCompletions)
	atMost("parallelism", s.Parallelism, mostOfMany, tight)
	atMost("maxFailedIndexes", s.MaxFailedIndexes, mostOfMany, tight)
}

func checkReplacement(f *row.Findings, s *batchv1.JobSpec, path *field.Path) {
	switch p := s.PodReplacementPolicy; {
	case p == nil:
	case s.PodFailurePolicy != nil:
		row.OneOf(f, path, *p, batchv1.Failed)
	default:
		row.OneOf(f, path, *p, batchv1.Failed, batchv1.TerminatingOrFailed)
	}
}

// checkCompletions lets an indexed Job grow and shrink, together with its parallelism.
func checkCompletions(f *row.Findings, s, was *batchv1.JobSpec) {
	path := spec().Child("completions")
	switch {
	case !indexed(s):
		f.Same(path, s.Completions, was.Completions)
	case s.Completions == nil || apiequality.Semantic.DeepEqual(s.Completions, was.Completions):
	case *s.Completions != row.Value(s.Parallelism):
		f.Invalid(path, *s.Completions, "can only be modified in tandem with spec.parallelism")
	}
}

// checkTemplateChange keeps the template, but for what a queue may decide while the Job waits suspended: where its Pods go and how much they get.
func checkTemplateChange(f *row.Findings, j, was *batchv1.Job) {
	allowed, now := was.Spec.Template.DeepCopy(), &j.Spec.Template
	if waits(was) {
		allowScheduling(&allowed.Spec, &now.Spec)
		allowed.Annotations, allowed.Labels = now.Annotations, now.Labels
		allowResources(allowed.Spec.Containers, now.Spec.Containers)
		allowResources(allowed.Spec.InitContainers, now.Spec.InitContainers)
	}
	if !apiequality.Semantic.DeepEqual(now, allowed) {
		f.Invalid(spec().Child("template"), row.Bare(now), apivalidation.FieldImmutableErrorMsg)
	}
}

// waits says that a Job is suspended and has no Pods to disagree with a changed template.
func waits(j *batchv1.Job) bool {
	return row.Value(j.Spec.Suspend) && (j.Status.StartTime == nil || is(j, batchv1.JobSuspended) && j.Status.Active == 0)
}

func allowScheduling(allowed, now *corev1.PodSpec) {
	switch {
	case now.Affinity == nil && allowed.Affinity != nil:
		allowed.Affinity.NodeAffinity = nil
		if *allowed.Affinity == (corev1.Affinity{}) {
			allowed.Affinity = nil
		}
	case now.Affinity != nil && allowed.Affinity == nil:
		allowed.Affinity = &corev1.Affinity{NodeAffinity: now.Affinity.NodeAffinity}
	case now.Affinity != nil:
		allowed.Affinity.NodeAffinity = now.Affinity.NodeAffinity
	}
	allowed.NodeSelector, allowed.Tolerations, allowed.SchedulingGates = now.NodeSelector, now.Tolerations, now.SchedulingGates
}

func allowResources(allowed, now []corev1.Container) {
	if len(allowed) != len(now) {
		return
	}
	for i := range allowed {
		allowed[i].Resources = now[i].Resources
	}
}
